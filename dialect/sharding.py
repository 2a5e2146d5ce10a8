"""The sharding of a tensor over a mesh: the central data type of all stages."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

from gspmd.dialect.axes import Axes, Axis, size_of, take
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh


@dataclasses.dataclass(frozen=True, slots=True)
class DimSharding:
    """The axes over which a dimension is split, most major first.

    `is_open` lets propagation add axes; `priority` orders user annotations, 0 first, None for no priority.
    """

    axes: Axes = ()
    is_open: bool = False
    priority: int | None = None

    def __post_init__(self) -> None:
        if self.priority is not None:
            if not 0 <= self.priority < 2**63:
                raise AnnotationError(f"priority {self.priority} must be at least 0 and below 2**63")
            if not self.axes and not self.is_open:
                raise AnnotationError("an empty closed dimension must not have a priority")


CLOSED = DimSharding()
OPEN = DimSharding(is_open=True)


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSharding:
    """The sharding of a tensor over `mesh`.

    `dims` has one entry per dimension. The tensor is replicated along axes that do not occur; for those in
    `replicated`, it must stay so. Along `unreduced` axes each device has a partial result, which must be reduced (by
    sum, unless the producer has another reduction). Along `manual` axes the value is already per-device, as inside a
    manual computation.

    Errors: AnnotationError for an axis used twice, parts that do not fit the mesh or each other, adjacent parts that
    should be merged, or lists of replicated, unreduced or manual axes that are not in mesh order.
    """

    mesh: Mesh
    dims: tuple[DimSharding, ...]
    replicated: Axes = ()
    unreduced: Axes = ()
    manual: Axes = ()
    _dim_axes: tuple[Axes, ...] = dataclasses.field(init=False, repr=False, compare=False)
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Shardings are keys of the memo tables of every stage, so their hashes are computed once.
        object.__setattr__(self, "_dim_axes", tuple([dim.axes for dim in self.dims]))
        object.__setattr__(self, "_hash", hash(self._key()))
        self._check()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # Most comparisons are of one object, or of different hashes.
        if self is other:
            return True
        if not isinstance(other, TensorSharding):
            return NotImplemented
        return self._hash == other._hash and self._key() == other._key()

    def _key(self) -> tuple[Mesh, tuple[DimSharding, ...], Axes, Axes, Axes]:
        return self.mesh, self.dims, self.replicated, self.unreduced, self.manual

    def _check(self) -> None:
        seen: list[Axis] = []
        for axis in self.used_axes() + self.replicated:
            self.mesh.axis(axis.name, axis.pre, axis.size)
            for other in seen:
                if axis.overlaps(other):
                    raise AnnotationError(f'axis "{axis.name}" is used twice in one sharding', code=Code.AXIS_TWICE)
                if not axis.nests(other):
                    raise AnnotationError(
                        f'parts "{axis.name}":({other.pre}){other.size} and "{axis.name}":({axis.pre}){axis.size} '
                        "cannot both be factors of the axis; use parts whose cuts divide each other",
                        code=Code.AXIS_TWICE,
                    )
            seen.append(axis)
        lists = {"replicated": self.replicated, "unreduced": self.unreduced, "manual": self.manual}
        for axes in (*self.dim_axes(), *lists.values()):
            if any(left.name == right.name and left.end == right.pre for left, right in itertools.pairwise(axes)):
                raise AnnotationError(
                    "neighbouring sub-axes that form one larger part must be written as it", code=Code.AXIS_PART
                )
        for name, axes in lists.items():
            if axes != self.mesh.sorted(axes):
                raise AnnotationError(f"{name} axes must be in mesh order")

    @property
    def rank(self) -> int:
        return len(self.dims)

    def used_axes(self) -> Axes:
        """Axes that split a dimension, are unreduced, or are manual."""
        return (*itertools.chain.from_iterable(self._dim_axes), *self.unreduced, *self.manual)

    def dim_axes(self) -> tuple[Axes, ...]:
        """The axes of every dimension."""
        return self._dim_axes

    def shard_counts(self) -> tuple[int, ...]:
        """The number of shards of each dimension."""
        return tuple(size_of(dim.axes) for dim in self.dims)

    def local_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the shards: ceil(size / shards) in each dimension, with padding."""
        self.check_rank(len(shape))
        return local_shape(shape, self._dim_axes)

    def shard_range(self, shape: tuple[int, ...], dim: int, index: int) -> tuple[int, int]:
        """The half-open range of the dimension in shard `index`; it may be short or empty."""
        step = self.local_shape(shape)[dim]
        return min(index * step, shape[dim]), min((index + 1) * step, shape[dim])

    def divides(self, shape: tuple[int, ...]) -> bool:
        """Whether every dimension splits into equal shards."""
        return all(n % k == 0 for n, k in zip(shape, self.shard_counts(), strict=True))

    def evenly(self, shape: tuple[int, ...]) -> TensorSharding:
        """This sharding with, for each dimension, only the first axes that divide it evenly."""
        if self.divides(shape):
            return self
        pairs = zip(self._dim_axes, shape, strict=True)
        return self.with_axes(tuple([take(axes, size)[0] for axes, size in pairs]), self.unreduced)

    def says_something(self) -> bool:
        """Whether it restricts the decision."""
        return self.replicated != () or any(dim != OPEN for dim in self.dims)

    def is_replicated(self) -> bool:
        """Whether every device has the whole, reduced value."""
        return not (any(self._dim_axes) or self.unreduced or self.manual)

    def check_rank(self, rank: int) -> None:
        if rank != self.rank:
            raise AnnotationError(
                f"sharding of rank {self.rank} does not fit a tensor of rank {rank}; give one entry a dimension",
                code=Code.RANK,
            )

    def with_axes(self, dims: tuple[Axes, ...], unreduced: Axes = ()) -> TensorSharding:
        """A closed sharding on the same mesh with these axes."""
        return _closed(self.mesh, self.mesh.name, dims, unreduced, self.manual)

    def closed(self) -> TensorSharding:
        """The sharding with all dimensions closed: its meaning after propagation."""
        return self.with_axes(self.dim_axes(), self.unreduced)


@functools.lru_cache(maxsize=1 << 16)
def _closed(mesh: Mesh, name: str, dims: tuple[Axes, ...], unreduced: Axes, manual: Axes) -> TensorSharding:
    # Meshes that differ only in name are equal, but the text must have the right name.
    assert mesh.name == name
    return TensorSharding(mesh, tuple(DimSharding(axes) for axes in dims), (), unreduced, manual)


def local_shape(shape: tuple[int, ...], dims: Sequence[Axes]) -> tuple[int, ...]:
    """The shape of the shards, with padding, for dimensions split over these axes."""
    return tuple(-(-n // size_of(axes)) for n, axes in zip(shape, dims, strict=True))


def replicated(mesh: Mesh, rank: int) -> TensorSharding:
    """The closed sharding with a replica on every device."""
    return _closed(mesh, mesh.name, ((),) * rank, (), ())


def unknown(mesh: Mesh, rank: int) -> TensorSharding:
    """The sharding with all dimensions open."""
    return TensorSharding(mesh, (OPEN,) * rank)
