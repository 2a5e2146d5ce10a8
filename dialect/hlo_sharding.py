"""XLA's shardings, as in `mhlo.sharding`: values of all forms, and their normal form.

A value has the form of the text: a list of devices (version 1), an iota (version 2), or named axes (version 3). Two
shardings are equal if every device has the same part in the same role, whatever the form; metadata and open dimensions
do not count, but the shard group does.

Source: XLA's HloSharding and its notation. Two differences: XLA compares named shardings by their text, and
distinguishes one device from "replicated".
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Sequence

from gspmd.dialect import device_order
from gspmd.dialect.axes import Axes, Axis, without
from gspmd.dialect.device_order import ALL, DeviceOrder, Iota
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.sharding import TensorSharding


class Role(enum.Enum):
    """The role of devices for a value: of all devices, or of the members of a subgroup."""

    REPLICATED = "replicated"  # each has a copy
    MAXIMAL = "maximal"  # one of them has it (only as the role of a subgroup)
    MANUAL = "manual"  # per-device values in a manual computation
    UNREDUCED = "unreduced"  # each has a summand
    UNKNOWN = "unknown"  # not decided yet (never the role of a subgroup)


_SUBGROUP_ORDER = (Role.MAXIMAL, Role.MANUAL, Role.UNREDUCED, Role.REPLICATED)


@dataclasses.dataclass(frozen=True, slots=True)
class Whole:
    """All devices have one role and the value is not split."""

    role: Role

    def __post_init__(self) -> None:
        if self.role is Role.MAXIMAL:
            raise AnnotationError("a maximal sharding must name its device", code=Code.DEVICE_LIST)


@dataclasses.dataclass(frozen=True, slots=True)
class Maximal:
    """One device has the value. `is_named` for the form `maximal_mesh[device_id=..]`."""

    device: int
    is_named: bool = dataclasses.field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.device < 0:
            raise AnnotationError(f"device {self.device} of a maximal sharding is negative", code=Code.DEVICE_LIST)


@dataclasses.dataclass(frozen=True, slots=True)
class Tiled:
    """The devices in `order`, shaped to `dims`; the trailing dims are subgroups with these roles.

    Errors: AnnotationError for no tile dims or some below 1, for a number of devices other than their product, for
    a device that is missing, listed twice or out of range, and for more subgroups than dims.
    """

    dims: tuple[int, ...]
    order: DeviceOrder
    subgroups: tuple[Role, ...] = ()

    def __post_init__(self) -> None:
        if not self.dims or min(self.dims) < 1:
            raise AnnotationError(
                f"tile dims {list(self.dims)} must be one or more of at least 1", code=Code.DEVICE_COUNT
            )
        count = device_order.size(self.order)
        if math.prod(self.dims) != count:
            raise AnnotationError(
                f"tile dims {list(self.dims)} need {math.prod(self.dims)} devices but {count} are given",
                code=Code.DEVICE_COUNT,
            )
        if not isinstance(self.order, Iota):
            device_order.check_ids(self.order)
            if count == 1:  # a list of one device has no notation
                object.__setattr__(self, "order", device_order.identity(1))
        if len(self.subgroups) > len(self.dims):
            raise AnnotationError(
                f"{len(self.subgroups)} subgroups do not fit {len(self.dims)} tile dims", code=Code.RANK
            )
        if Role.UNKNOWN in self.subgroups:
            raise AnnotationError("the role of a subgroup must be replicated, manual, unreduced or maximal")

    @property
    def rank(self) -> int:
        """The number of dims that split the value."""
        return len(self.dims) - len(self.subgroups)

    @property
    def num_devices(self) -> int:
        return math.prod(self.dims)

    @property
    def shard_counts(self) -> tuple[int, ...]:
        return self.dims[: self.rank]

    def shard_of(self, device: int) -> tuple[int, ...]:
        """The index, in every dimension of the value, of the shard on that device."""
        position, index = device_order.position(self.order, device), []
        for dim in reversed(self.dims):
            position, digit = divmod(position, dim)
            index.append(digit)
        return tuple(reversed(index))[: self.rank]


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A sharding in terms of mesh axes, over the devices in `order`.

    The mesh of `sharding` is without device ids: `order` lists the device at each of its positions.
    No dims means "of any rank", as in the short forms `{mesh[..], replicated}`.
    """

    sharding: TensorSharding
    order: DeviceOrder

    def __post_init__(self) -> None:
        mesh, count = self.sharding.mesh, device_order.size(self.order)
        if mesh.device_ids:
            raise AnnotationError("the mesh of a named sharding must leave its device ids to the order", code=Code.MESH)
        if mesh.size != count:
            raise AnnotationError(f"a mesh of {mesh.size} devices does not fit {count} device ids", code=Code.MESH)
        if not isinstance(self.order, Iota):
            device_order.check_ids(self.order)
            if self.order == tuple(range(count)):  # never written
                object.__setattr__(self, "order", device_order.identity(count))
        if any(dim.priority is not None for dim in self.sharding.dims):
            raise AnnotationError("HLO shardings have no priorities; leave them out")

    def tiled(self) -> Tiled:
        """The placement as tile dims: those of the value, then manual, unreduced, replicated."""
        return tile(self.sharding, self.order)


@dataclasses.dataclass(frozen=True, slots=True)
class TupleOf:
    """One sharding for each leaf of a tuple, in pre-order."""

    leaves: tuple[HloSharding, ...]

    def __post_init__(self) -> None:
        if any(isinstance(leaf.body, TupleOf) for leaf in self.leaves):
            raise AnnotationError("a tuple of shardings must be flat, one sharding for each leaf", code=Code.RANK)


Body = Whole | Maximal | Tiled | Named | TupleOf


@dataclasses.dataclass(frozen=True, slots=True)
class ShardGroup:
    """Values of one group must get equal shardings (`is_like` False), or should (True)."""

    id: int
    is_like: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Metadata:
    """The origin of a sharding: fields as (name, text)."""

    fields: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HloSharding:
    """A sharding of XLA; compares by placement and shard group (see the docstring of the module)."""

    body: Body
    shard_group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()

    def __post_init__(self) -> None:
        if self.shard_group and isinstance(self.body, Named | TupleOf):
            raise AnnotationError(
                "only shardings without named axes and of one value can be in a shard group", code=Code.GROUP
            )
        if self.metadata and isinstance(self.body, TupleOf):
            raise AnnotationError("metadata belongs to the leaves of a tuple sharding")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloSharding):
            return NotImplemented
        return self.shard_group == other.shard_group and normal_form(self.body) == normal_form(other.body)

    def __hash__(self) -> int:
        return hash((self.shard_group, normal_form(self.body)))

    def normal(self, keep_numbers: bool = False) -> HloSharding:
        """The placement in the form that all equal shardings share, without metadata.

        With `keep_numbers` in the form that XLA gives it, see `normal_form`.
        """
        return HloSharding(normal_form(self.body, keep_numbers), self.shard_group)

    @property
    def is_tuple(self) -> bool:
        return isinstance(self.body, TupleOf)

    def leaves(self, count: int) -> tuple[HloSharding, ...]:
        """A sharding for each of `count` leaves; one that is not a tuple applies to all of them.

        An empty tuple value may carry one leaf.

        Errors: AnnotationError if a tuple sharding has another number of leaves.
        """
        if not isinstance(self.body, TupleOf):
            return (self,) * count
        given = len(self.body.leaves)
        if given != count and not (count == 0 and given == 1):
            raise AnnotationError(
                f"sharding of {given} values does not fit {count}; give one for each leaf", code=Code.RANK
            )
        return self.body.leaves[:count]

    def num_devices(self) -> int | None:
        """The number of devices, or None if the sharding does not have it."""
        match self.body:
            case Tiled(order=order):
                return device_order.size(order)
            case Named(sharding=sharding):
                return sharding.mesh.size if sharding.mesh.axes else None
        return None

    def shard_counts(self, rank: int) -> tuple[int, ...]:
        """The number of shards of each dimension of a value of this rank.

        Errors: AnnotationError if the sharding is for another rank, or for a tuple.
        """
        match self.body:
            case TupleOf():
                raise AnnotationError(
                    "a tuple sharding does not fit a single value; use one for each leaf", code=Code.RANK
                )
            case Tiled() as tiled:
                counts = tiled.shard_counts
            case Named(sharding=sharding) if sharding.dims:
                counts = sharding.shard_counts()
            case _:
                return (1,) * rank
        if len(counts) != rank:
            raise AnnotationError(
                f"sharding of {len(counts)} tile dims does not fit a tensor of rank {rank}; "
                "give one for each dimension",
                code=Code.RANK,
            )
        return counts

    def check(self, rank: int, num_devices: int) -> None:
        """Raise AnnotationError unless the sharding fits a value of this rank on so many devices."""
        self.shard_counts(rank)
        count = self.num_devices()
        if count is not None and count != num_devices:
            raise AnnotationError(
                f"sharding over {count} devices in a program of {num_devices}; use all of them", code=Code.DEVICE_COUNT
            )
        if isinstance(self.body, Maximal) and self.body.device >= num_devices:
            raise AnnotationError(
                f"device {self.body.device} does not exist in a program of {num_devices}", code=Code.DEVICE_COUNT
            )

    def shard_of(self, device: int, rank: int) -> tuple[int, ...]:
        """The index, in every dimension, of the shard on that device.

        Errors: AnnotationError for a device without a shard, and as `shard_counts`.
        """
        self.shard_counts(rank)
        match self.body:
            case Maximal(device=holder) if device != holder:
                raise AnnotationError(
                    f"device {device} has no part of a value on device {holder}", code=Code.DEVICE_LIST
                )
            case Tiled() | Named():
                count = self.num_devices()
                if count is not None and not 0 <= device < count:
                    raise AnnotationError(
                        f"device {device} is not one of the sharding's {count} devices", code=Code.DEVICE_LIST
                    )
                tiled = self.body.tiled() if isinstance(self.body, Named) else self.body
                return tiled.shard_of(device) or (0,) * rank
        return (0,) * rank

    def tile_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the shards: ceil(size / shards) in each dimension, with padding."""
        return tuple(-(-n // k) for n, k in zip(shape, self.shard_counts(len(shape)), strict=True))


REPLICATED = HloSharding(Whole(Role.REPLICATED))
MANUAL = HloSharding(Whole(Role.MANUAL))
UNREDUCED = HloSharding(Whole(Role.UNREDUCED))
UNKNOWN = HloSharding(Whole(Role.UNKNOWN))


def tile(sharding: TensorSharding, order: DeviceOrder) -> Tiled:
    """The placement of a sharding whose mesh position p is device `order[p]`, as tile dims.

    The value's dims come first, then as far as they occur manual, unreduced and replicated devices.
    """
    mesh = sharding.mesh
    before = {name: math.prod(s for _, s in mesh.axes[:i]) for i, (name, _) in enumerate(mesh.axes)}
    groups: list[tuple[Role, Axes]] = [
        (Role.MANUAL, sharding.manual),
        (Role.UNREDUCED, sharding.unreduced),
        (Role.REPLICATED, without(mesh.all_axes(), sharding.used_axes())),
    ]
    groups = [group for group in groups if group[1]]
    if not groups and not sharding.dims:
        groups = [(Role.REPLICATED, ())]  # one device and no dims: a tiling needs one
    lists = [*sharding.dim_axes(), *(axes for _, axes in groups)]
    parts = [Axis(ALL, before[a.name] * a.pre, a.size) for axes in lists for a in axes if a.size > 1]
    dims = tuple(math.prod(axis.size for axis in axes) for axes in lists)
    return Tiled(dims, device_order.compose(order, device_order.from_parts(parts)), tuple(role for role, _ in groups))


# ---- normal form ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def normal_form(body: Body, keep_numbers: bool = False) -> Body:
    """The placement in the form that all equal placements share.

    Subgroups of one role become one, in the order maximal, manual, unreduced, replicated, and vanish
    when of size 1; replicas are listed ascending, and the members of other subgroups are numbered so
    that those of the first shard ascend; a value that is not divided and has one role is `Whole`; orders
    that are an iota become one.

    With `keep_numbers` the members of subgroups that are not replicas keep their numbers, as in XLA: they are
    irrelevant for one value, but consistent between values over one mesh.
    """
    match body:
        case TupleOf(leaves=leaves):
            return TupleOf(tuple(leaf.normal(keep_numbers) for leaf in leaves))
        case Named(sharding=sharding) if sharding.mesh.axes:
            return _normal_tiled(body.tiled(), keep_numbers)
        case Named():
            return Whole(Role.REPLICATED)
        case Tiled():
            return _normal_tiled(body, keep_numbers)
    return body


def _normal_tiled(tiled: Tiled, keep_numbers: bool) -> Body:
    roles = [role for role in _SUBGROUP_ORDER if role in tiled.subgroups]
    if math.prod(tiled.dims) == 1:
        role = roles[0] if len(roles) == 1 else Role.REPLICATED
        return Whole(Role.REPLICATED if role is Role.MAXIMAL else role)
    members = {r: [tiled.rank + i for i, role in enumerate(tiled.subgroups) if role is r] for r in roles}
    sizes = {role: math.prod(tiled.dims[i] for i in members[role]) for role in roles}
    roles = [role for role in roles if sizes[role] > 1]
    if len(roles) == 1 and roles[0] is not Role.MAXIMAL and math.prod(tiled.shard_counts) == 1:
        return Whole(roles[0])
    axes = [*range(tiled.rank), *(i for role in roles for i in members[role])]
    axes += [i for i in range(len(tiled.dims)) if i not in axes]
    dims = tiled.shard_counts + tuple(sizes[role] for role in roles)
    regrouped = device_order.compose(tiled.order, Iota(tiled.dims, tuple(axes)))
    has_replicas = Role.REPLICATED in roles
    free = int(has_replicas) if keep_numbers else sum(role is not Role.MAXIMAL for role in roles)
    return Tiled(dims, _normal_members(regrouped, dims, len(dims) - free, has_replicas), tuple(roles))


def _normal_members(order: DeviceOrder, dims: tuple[int, ...], kept: int, has_replicas: bool) -> DeviceOrder:
    """The order with the members of the subgroups, the dims after `kept`, numbered as in `normal_form`."""
    lists = device_order.split(order, dims)
    if lists is None and kept < len(dims):
        order = device_order.compact(_renumber(device_order.expand(order), dims, kept, has_replicas))
        lists = device_order.split(order, dims)
    if lists is None:
        return order
    ordered = [*lists[:kept], *(tuple(sorted(parts)) for parts in lists[kept:])]
    return device_order.from_parts(part for parts in ordered for part in parts)


def _renumber(ids: tuple[int, ...], dims: tuple[int, ...], kept: int, has_replicas: bool) -> tuple[int, ...]:
    for index in range(kept, len(dims)):
        count, inner = dims[index], math.prod(dims[index + 1 :])
        block = count * inner  # devices that differ in this subgroup and what is more minor
        if has_replicas and index == len(dims) - 1:  # replicas of different shards are numbered independently
            ids = tuple(d for i in range(0, len(ids), block) for d in sorted(ids[i : i + block]))
            continue
        first = math.prod(dims[kept:])  # the devices of the first shard
        lowest = [min(ids[i] for i in range(first) if i // inner % count == m) for m in range(count)]
        members = sorted(range(count), key=lowest.__getitem__)
        starts = (i + m * inner for i in range(0, len(ids), block) for m in members)
        ids = tuple(d for start in starts for d in ids[start : start + inner])
    return ids
