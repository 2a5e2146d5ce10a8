"""A ragged all-to-all built from regular collectives, for compilers without one, such as XLA for CPUs.

Every device of a group sends the same number of slices of its rows to each device of the group, with the start of every
slice and the row at which the receiver writes it. Rows out of range are ignored. If slices overlap in the output, the
last one wins, in the order of senders. `jax.lax.ragged_all_to_all` specifies this.

A device receives the start and the destination of each of its slices, and finds for every output row the last slice
that writes it. The rows are sent by the cheaper of two methods: an all-gather of all rows, or an all-to-all in which
each device lays out for every other the rows of its output, which has as many rows as the output for any number of
slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import AXES, CAUSE
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.collective_builder import channel_handle
from gspmd.transforms.ir.collective_groups import groups_of
from gspmd.transforms.ir.operations import Attribute, Operation, Value
from gspmd.transforms.ir.ragged_call import group_size
from gspmd.transforms.ir.reducers import identity_of
from gspmd.transforms.ir.types import TensorType, element_bytes

_NARROW_BYTES, _MAX_ROWS = 4, 2**30  # the largest index in 32 bits


def as_equal_shares(build: Builder, op: Operation) -> Value:
    """The result of a ragged all-to-all, built at `build.point`; groups of one device need no collective.

    Raises AnnotationError for an inconsistent call.
    """
    size = group_size(op)
    rows, output, *_ = op.operands
    if 0 in rows.type.shape or 0 in output.type.shape or not op.operands[2].type.shape[0]:
        return output
    return _EqualShares(build, op, size).result()


class _Slices(NamedTuple):
    """The starts, destinations and lengths of slices: `[batch, slices]`, integers of one type."""

    starts: Value
    places: Value
    sizes: Value


class _EqualShares:
    """One ragged all-to-all of groups of `size` devices."""

    def __init__(self, build: Builder, op: Operation, size: int) -> None:
        self.build = build
        self.size = size
        self.rows, self.output, *vectors = op.operands
        self.sent, self.kept = self.rows.type.shape[0], self.output.type.shape[0]
        most = size * max(self.sent, self.kept)
        narrow = most < _MAX_ROWS and all(_is_narrow(vector.type.element) for vector in vectors)
        self.starts, self.lengths, self.places, self.received = (
            build.convert(vector, "i32" if narrow else "i64") for vector in vectors
        )
        self.slices = self.starts.type.shape[0] // size  # for each device
        kept = {name: op.attributes[name] for name in (AXES, CAUSE) if name in op.attributes}
        self._who: Mapping[str, Attribute] = kept | {
            "replica_groups": groups_of(op),
            "channel_handle": channel_handle(1, build.context),
        }

    def result(self) -> Value:
        build, count = self.build, self.size * self.slices
        starts, places = self._told()
        whole = _Slices(*(build.reshape(value, (1, count)) for value in (starts, places, self.received)))
        number, row = (build.reshape(value, (self.kept,)) for value in self._last(whole))
        sender = self._divided(number, self.slices)
        if self.size == 1:
            given = self.rows
        elif self.sent <= self.kept:
            given = self._gathered()
            row = build.binary("add", row, self._times(sender, self.sent))
        else:
            given = self._laid_out()
            row = build.binary("add", self._iota((self.kept,), 0), self._times(sender, self.kept))
        is_written = build.compare(number, "GE", build.constant(number.type, 0))
        looked_up = self._look_up(given, build.op("stablehlo.select", [is_written, row, self._zeros(row)], [row.type]))
        type_ = self.output.type
        mask = self._spread(is_written, type_.of_element("i1").shape, 0)
        return build.op("stablehlo.select", [mask, looked_up, self.output], [type_])

    # ---- communication ----

    def _told(self) -> tuple[Value, Value]:
        """The start of each received slice at its sender, and its destination; `[slices of all]`."""
        if self.size == 1:
            return self.starts, self.places
        build = self.build
        shape = (self.size, self.slices)
        both = [build.reshape(value, shape) for value in (self.starts, self.places)]
        # Behind a barrier: XLA for CPUs would exchange the concatenated operands one by one, and refuse.
        told = self._all_to_all(build.kept_apart(self._joined(both)))
        starts, places = (
            build.reshape(build.slice_dim(told, 1, first, self.slices), (self.size * self.slices,))
            for first in (0, self.slices)
        )
        return starts, places

    def _gathered(self) -> Value:
        """The rows of all devices of the group, in group order."""
        type_ = self.rows.type
        result = type_.of_shape((self.size * self.sent, *type_.shape[1:]))
        flag = ir.UnitAttr.get(self.build.context)
        return self.build.op(
            "stablehlo.all_gather",
            [self.rows],
            [result],
            all_gather_dim=self.build.i64(0),
            use_global_device_ids=flag,
            **self._who,
        )

    def _laid_out(self) -> Value:
        """The rows of this device's output from every device, each with as many rows as the output."""
        build, shape = self.build, (self.size, self.slices)
        mine = _Slices(*(build.reshape(value, shape) for value in (self.starts, self.places, self.lengths)))
        _, row = self._last(mine)
        return self._all_to_all(self._look_up(self.rows, build.reshape(row, (self.size * self.kept,))))

    def _all_to_all(self, value: Value) -> Value:
        """The all-to-all along the first dimension: the parts for this device, in group order."""
        zero = self.build.i64(0)
        count = self.build.i64(self.size)
        attributes = {"split_dimension": zero, "concat_dimension": zero, "split_count": count}
        return self.build.op("stablehlo.all_to_all", [value], [value.type], **attributes, **self._who)

    # ---- the source of each row ----

    def _last(self, slices: _Slices) -> tuple[Value, Value]:
        """For each output row, the last slice that writes it, and the row in that slice.

        `[batch, rows]`; the slice is -1 and the row 0 if no slice writes it.
        """
        build = self.build
        batch, count = slices.starts.type.shape
        shape = (batch, self.kept, count)
        starts, places, sizes = (self._spread(value, shape, 0, 2) for value in slices)
        inside = build.binary("subtract", self._iota(shape, 1), places)
        row = build.binary("add", starts, inside)
        zero = self._zeros(row)
        limit = build.constant(row.type, self.sent)
        writes = build.all_of(
            [
                build.compare(inside, "GE", zero),
                build.compare(inside, "LT", sizes),
                build.compare(row, "GE", zero),
                build.compare(row, "LT", limit),
            ]
        )
        each = self._iota(shape, 2)
        number = build.op("stablehlo.select", [writes, each, build.constant(row.type, -1)], [row.type])
        last = self._reduced(number, "max")
        is_last = build.all_of([writes, build.compare(each, "EQ", self._spread(last, shape, 0, 1))])
        return last, self._reduced(build.op("stablehlo.select", [is_last, row, zero], [row.type]), "add")

    def _reduced(self, value: Value, combiner: str) -> Value:
        """The last dimension reduced."""
        build, type_ = self.build, value.type
        if type_.shape[-1] == 1:
            return build.reshape(value, type_.shape[:-1])
        start = build.constant(TensorType((), type_.element), identity_of(combiner))
        attributes = {"dimensions": build.i64s([type_.rank - 1])}
        body = build.combining(type_.element, combiner)
        result = type_.of_shape(type_.shape[:-1])
        return build.create("stablehlo.reduce", [value, start], [result], attributes, [body]).result

    # ---- plain operations ----

    def _look_up(self, rows: Value, index: Value) -> Value:
        """The rows at indices in range."""
        build, type_ = self.build, rows.type
        kept = list(range(1, type_.rank))
        numbers = (
            f"#stablehlo.gather<offset_dims = {kept}, collapsed_slice_dims = [0], start_index_map = [0], "
            "index_vector_dim = 1>"
        )
        return build.op(
            "stablehlo.gather",
            [rows, index],
            [type_.of_shape((*index.type.shape, *type_.shape[1:]))],
            dimension_numbers=ir.Attribute.parse(numbers, build.context),
            slice_sizes=build.i64s([1, *type_.shape[1:]]),
        )

    def _iota(self, shape: tuple[int, ...], dim: int) -> Value:
        type_ = TensorType(shape, self.starts.type.element)
        return self.build.op("stablehlo.iota", [], [type_], iota_dimension=self.build.i64(dim))

    def _spread(self, value: Value, shape: tuple[int, ...], *dims: int) -> Value:
        """A value broadcast to a shape, with its dimensions mapped to `dims`."""
        type_ = value.type.of_shape(shape)
        return self.build.op("stablehlo.broadcast_in_dim", [value], [type_], broadcast_dimensions=self.build.i64s(dims))

    def _joined(self, values: Sequence[Value]) -> Value:
        """The concatenation of matrices along columns."""
        type_ = values[0].type
        result = type_.of_shape((type_.shape[0], sum(value.type.shape[1] for value in values)))
        return self.build.op("stablehlo.concatenate", values, [result], dimension=self.build.i64(1))

    def _divided(self, value: Value, by: int) -> Value:
        return value if by == 1 else self.build.binary("divide", value, self.build.constant(value.type, by))

    def _times(self, value: Value, factor: int) -> Value:
        return self.build.binary("multiply", value, self.build.constant(value.type, factor))

    def _zeros(self, value: Value) -> Value:
        return self.build.constant(value.type, 0)


def _is_narrow(element: str) -> bool:
    """Whether i32 can represent all values of an integer type."""
    return element_bytes(element) < _NARROW_BYTES or element == "i32"
