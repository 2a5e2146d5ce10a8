"""Creating collectives with their axes, cause and replica groups."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.group_axes import write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.ordered_bits import from_ordered, has_ordered_bits, ordered
from gspmd.transforms.ir.collective_notes import notes
from gspmd.transforms.ir.groups import Ids, replica_groups
from gspmd.transforms.ir.operations import Attribute, Location, Operation, Value
from gspmd.transforms.ir.types import TensorType

KINDS = ("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter")
"""The collectives in partitioned programs, by their names in StableHLO."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """The reason for a collective: a sentence, and the location of the operation that needs it."""

    text: str
    location: Location


@dataclasses.dataclass(frozen=True, slots=True)
class Participants:
    """The devices and the cause of a collective: the groups along `axes`, or for a permute `pairs` of partition ids.

    `combiner` is the reduction of a collective that has one.
    """

    axes: Axes
    cause: Cause
    combiner: str | None = None
    pairs: Ids | None = None


class CollectiveBuilder(Builder):
    """Builds the collectives of one mesh. If it has more than `list_groups_up_to` devices, groups name mesh axes."""

    def __init__(self, context: ir.Context, mesh: Mesh, list_groups_up_to: int = 64) -> None:
        super().__init__(context)
        self.mesh = mesh
        self._list_groups_up_to = list_groups_up_to
        self._groups: dict[Axes, ir.Attribute] = {}
        self._channels = 0

    def skip_channels(self, ops: Iterable[Operation]) -> None:
        """Do not use the channels of these operations."""
        self._channels = max([self._channels, *map(channel_of, ops)])

    def keep_channels(self, function: Operation, names: Collection[str]) -> None:
        """Operations with these names keep their channels.

        All others in the function get higher ones, as do those of later passes.
        """
        with_channel = [op for op in function.walk() if "channel_handle" in op.attributes]
        kept = [op for op in with_channel if op.name in names]
        self.skip_channels(with_channel)
        highest = max(map(channel_of, kept), default=0)
        for op in with_channel:
            if op.name not in names and channel_of(op) <= highest:
                op.attributes["channel_handle"] = self.next_channel()

    def next_channel(self) -> ir.Attribute:
        """A channel handle that no other collective has."""
        self._channels += 1
        return channel_handle(self._channels, self.context)

    def nothing(self, type_: TensorType) -> Value | None:
        """The value of a type without elements, which needs no communication; None for other types."""
        return None if math.prod(type_.shape) else self.constant(type_, "zero")

    def _send(
        self, kind: str, value: Value, result: TensorType, who: Participants, **attributes: Attribute | None
    ) -> Value:
        """Create the collective `stablehlo.<kind>`; all are created here."""
        if self.also:
            raise Unsupported(
                "is computed by the host, on parts that other devices have",
                hint="compute it on the devices, or do not split the dimension along which it needs others' parts",
                code=Code.HOST,
            )
        cause = who.cause
        self.location = cause.location
        attributes["channel_handle"] = self.next_channel()
        attributes.update(notes(who.axes, self.mesh, cause.text, self.context))
        if who.pairs is not None:
            pairs = ir.DenseElementsAttr.get(np.ascontiguousarray(who.pairs), context=self.context)
            attributes["source_target_pairs"] = pairs
        else:
            attributes["replica_groups"] = self._replica_groups(who.axes)
            if kind != "all_to_all":
                attributes["use_global_device_ids"] = ir.UnitAttr.get(self.context)
        regions = [] if who.combiner is None else [self.combining(result.element, who.combiner)]
        return self.create(f"stablehlo.{kind}", [value], [result], attributes, regions).result

    def _replica_groups(self, axes: Axes) -> ir.Attribute:
        found = self._groups.get(axes)
        if found is None:
            if self.mesh.size <= self._list_groups_up_to:
                found = ir.DenseElementsAttr.get(replica_groups(self.mesh, axes), context=self.context)
            else:
                # Groups by axis name: their size does not depend on the number of devices.
                found = write_group_axes(self.mesh, axes, self.context)
            self._groups[axes] = found
        return found

    def all_reduce(self, value: Value, axes: Axes, combiner: str, cause: Cause) -> Value:
        if not math.prod(value.type.shape):
            return value
        if has_ordered_bits(value, combiner):
            return from_ordered(self, self.all_reduce(ordered(self, value, combiner), axes, combiner, cause), value)
        return self._send("all_reduce", value, value.type, Participants(axes, cause, combiner))

    def reduce_scatter(self, value: Value, dim: int, axes: Axes, combiner: str, cause: Cause) -> Value:
        """Reduce-scatter over `axes`, split along `dim`, which must be even."""
        result = _resized(value.type, dim, lambda n: n // size_of(axes))
        if (empty := self.nothing(result)) is not None:
            return empty
        if has_ordered_bits(value, combiner):
            bits = self.reduce_scatter(ordered(self, value, combiner), dim, axes, combiner, cause)
            return from_ordered(self, bits, value)
        who = Participants(axes, cause, combiner)
        return self._send("reduce_scatter", value, result, who, scatter_dimension=self.i64(dim))

    def all_gather(self, value: Value, dim: int, axes: Axes, cause: Cause) -> Value:
        """Concatenate the shards along `axes` in dimension `dim`."""
        result = _resized(value.type, dim, lambda n: n * size_of(axes))
        if (empty := self.nothing(result)) is not None:
            return empty
        return self._send("all_gather", value, result, Participants(axes, cause), all_gather_dim=self.i64(dim))

    def all_gather_dims(self, value: Value, dims: dict[int, Axes], cause: Cause) -> Value:
        """Gather several dimensions with one collective."""
        if len(dims) == 1:
            ((dim, axes),) = dims.items()
            return self.all_gather(value, dim, axes, cause)
        local = value.type.shape
        joined = tuple(axis for axes in dims.values() for axis in axes)
        gathered = self.all_gather(self.reshape(value, (1, *local)), 0, joined, cause)
        counts = [size_of(axes) for axes in dims.values()]
        gathered = self.reshape(gathered, (*counts, *local))
        permutation: list[int] = []
        for dim in range(len(local)):
            if dim in dims:
                permutation.append(list(dims).index(dim))
            permutation.append(len(counts) + dim)
        shape = [n * (size_of(dims[d]) if d in dims else 1) for d, n in enumerate(local)]
        return self.reshape(self.transpose(gathered, permutation), shape)

    def all_to_all(self, value: Value, split: int, concat: int, axes: Axes, cause: Cause) -> Value:
        """Split dimension `split`, which must be even, over `axes` and gather dimension `concat`."""
        count = size_of(axes)
        result = _resized(_resized(value.type, split, lambda n: n // count), concat, lambda n: n * count)
        if (empty := self.nothing(result)) is not None:
            return empty
        if _has_empty_pieces(value, split, count):
            # XLA turns them into constants, and refuses these if their layout differs from the others.
            value = self.kept_apart(value)
        return self._send(
            "all_to_all",
            value,
            result,
            Participants(axes, cause),
            split_dimension=self.i64(split),
            concat_dimension=self.i64(concat),
            split_count=self.i64(count),
        )

    def collective_permute(self, value: Value, pairs: Ids, axes: Axes, cause: Cause) -> Value:
        if not math.prod(value.type.shape):
            return value
        return self._send("collective_permute", value, value.type, Participants(axes, cause, pairs=pairs))


def _has_empty_pieces(value: Value, dim: int, count: int) -> bool:
    """Whether one of so many pieces of a dimension is only padding."""
    op = value.op
    if op is None or op.name != "stablehlo.pad":
        return False
    given, whole = op.operands[0].type.shape[dim], value.type.shape[dim]
    return given <= whole - whole // count


def _resized(type_: TensorType, dim: int, resize: Callable[[int], int]) -> TensorType:
    shape = tuple(resize(n) if d == dim else n for d, n in enumerate(type_.shape))
    return TensorType(shape, type_.element)


def channel_handle(number: int, context: ir.Context) -> ir.Attribute:
    """The device-to-device channel with this number."""
    return ir.Attribute.parse(f"#stablehlo.channel_handle<handle = {number}, type = 1>", context)


def channel_of(op: Operation) -> int:
    """The channel number of an operation; 0 for none."""
    if "channel_handle" not in op.attributes:
        return 0
    return int(stablehlo.ChannelHandle(op.attributes["channel_handle"]).handle)
