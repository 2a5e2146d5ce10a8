"""Building the per-device program: shard indices, shards, masks and collectives."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of, without
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.collective_builder import CollectiveBuilder
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.reducers import Fill
from gspmd.transforms.ir.types import TensorType

INDEX = TensorType((), "i32")


class Emitter(CollectiveBuilder):
    """Builds in one function, whose entry block is `entry`.

    Shard indices are computed once, at the top of the function.
    """

    def __init__(self, context: ir.Context, mesh: Mesh, entry: Block, list_groups_up_to: int = 64) -> None:
        super().__init__(context, mesh, list_groups_up_to)
        # Index computations go before this operation, because any other in the function may be erased.
        self.point = Point.at_begin(entry)
        self._anchor = self.create("stablehlo.partition_id", [], [TensorType((), "ui32")], {})
        self.held: Axes = ()  # by manual computations around the insertion point
        self.apart = False  # whether control flow may diverge here along axes of a manual computation
        self._made: dict[Hashable, Value] = {}
        self._position: Value | None = None
        self._aliases: list[Operation] = []

    def finish(self) -> None:
        """Finish; to be called once, at the end."""
        for barrier in self._aliases:
            barrier.replace(barrier.operands)
        self._anchor.erase()

    def alias(self, value: Value) -> Value:
        """A distinct alias of the value until the end, so that facts about one do not apply to the other."""
        kept = self.kept_apart(value)
        self._aliases.append(kept.maker)
        return kept

    # ---- the position of this device ----

    def shard_index(self, axes: Axes) -> Value:
        """The index of this device along the axes, as a scalar i32, created once per function."""
        return self._at_top(axes, lambda: self._make_index(axes))

    def free_axes(self) -> Axes:
        """The axes that are not manual here."""
        return without(self.mesh.all_axes(), self.held)

    def is_first(self, axes: Axes) -> Value:
        """Whether this device is the first of its group along these axes, as a scalar i1."""
        return self._at_top(("first", axes), lambda: self._equals(self.shard_index(axes), 0))

    def is_partition(self, number: int) -> Value:
        """Whether this is the partition with this id, as a scalar i1."""
        return self._at_top(("partition", number), lambda: self._equals(self._partition(), number))

    def _equals(self, value: Value, number: int) -> Value:
        return self.compare(value, "EQ", self.constant(INDEX, number))

    def _at_top(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """A value at the top of the function, created once."""
        found = self._made.get(key)
        if found is None:
            point, location = self.point, self.location
            self.point = Point.at(self._anchor)
            self.location = ir.Location.unknown(self.context)
            also, self.also = self.also, {}
            found = self._made[key] = make()
            self.point, self.location, self.also = point, location, also
        return found

    def _make_index(self, axes: Axes) -> Value:
        if self._position is None:
            self._position = self._mesh_position()
        terms, below = [], size_of(axes)
        for axis in axes:
            below //= axis.size
            stride = self.mesh.stride(axis)
            value = self._position
            if stride > 1:
                value = self.binary("divide", value, self.constant(INDEX, stride))
            if stride * axis.size < self.mesh.size:
                value = self.binary("remainder", value, self.constant(INDEX, axis.size))
            terms.append(value if below == 1 else self.binary("multiply", value, self.constant(INDEX, below)))
        total = terms[0]
        for term in terms[1:]:
            total = self.binary("add", total, term)
        return total

    def _mesh_position(self) -> Value:
        """The row-major position of this partition in the mesh: its id, or looked up for other device orders."""
        partition = self._partition()
        if not self.mesh.device_ids:
            return partition
        positions = np.argsort(np.array(self.mesh.device_ids))
        return self.element_of(positions, partition)

    def _partition(self) -> Value:
        return self.convert(self.op("stablehlo.partition_id", [], [TensorType((), "ui32")]), "i32")

    def shard_offset(self, axes: Axes, shard_size: int, element: str = "i32") -> Value:
        """The start of this device's shard along a dimension split over `axes`, a scalar."""
        index = self.convert(self.shard_index(axes), element)
        if shard_size == 1:
            return index
        return self.binary("multiply", index, self.constant(TensorType((), element), shard_size))

    def shard(self, value: Value, sharding: TensorSharding) -> Value:
        """This device's shard of a replicated value."""
        return self.shard_dims(value, {d: dim.axes for d, dim in enumerate(sharding.dims) if dim.axes})

    def shard_dims(self, value: Value, dims: dict[int, Axes]) -> Value:
        """Split the shard further along `dims`; the last shards are padded with zeros."""
        if not dims:
            return value
        type_ = value.type
        counts = {d: size_of(axes) for d, axes in dims.items()}
        sizes = [-(-n // counts.get(d, 1)) for d, n in enumerate(type_.shape)]
        value = self.pad_to(value, [n if d not in counts else sizes[d] * counts[d] for d, n in enumerate(type_.shape)])
        zero = self.constant(INDEX, 0)
        starts = [self.shard_offset(dims[d], sizes[d]) if d in dims else zero for d in range(type_.rank)]
        return self.dynamic_slice(value, starts, sizes)

    # ---- masks ----

    def mask(self, value: Value, dim: int, axes: Axes, size: int, fill: Fill) -> Value:
        """Replace the elements beyond the global `size` of a dimension split over `axes`.

        `fill` is a scalar value of the element type, or a word for `splat`.
        """
        type_ = value.type
        local = type_.shape[dim]
        if local * size_of(axes) == size:
            return value
        position = self.op("stablehlo.iota", [], [TensorType(type_.shape, "i32")], iota_dimension=self.i64(dim))
        left = self.binary("subtract", self.constant(INDEX, size), self.shard_offset(axes, local))
        inside = self.compare(position, "LT", self.broadcast_scalar(left, TensorType(type_.shape, "i32")))
        if isinstance(fill, Value):
            filler = self.broadcast_scalar(fill, type_)
        else:
            filler = self.constant(type_, fill)
        return self.op("stablehlo.select", [inside, value, filler], [type_])
