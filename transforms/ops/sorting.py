"""sort and top_k along one dimension."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.rule import PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.bodies import inline_body, op_with_body
from gspmd.transforms.emit.builder import Body, bytes_of
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.emit.indices import index_element
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, take_windows
from gspmd.transforms.exchange.pieces import pad_dim
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import sent_bytes
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits


def sort_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions pass through; along the sorted one all elements move."""
    shape, count = info.operands[0].shape, len(info.operands)
    sorted_dim = info.integer("dimension", -1) % max(len(shape), 1)
    builder = RuleBuilder([shape] * count, [shape] * count)
    for dim, size in enumerate(shape):
        if dim == sorted_dim:
            builder.factor([dim] * count, [dim] * count, size, PERMUTATION, exchanged=True)
        else:
            builder.factor([dim] * count, [dim] * count, size)
    return builder.build()


def localize_sort(op: LocalOp) -> None:
    """Sort by Columnsort if that sends less than an all-gather and the comparator is known to be an order."""
    dim = op.info.integer("dimension", -1) % max(op.info.operands[0].rank, 1)
    axes = op.operand_axes(0, dim) if op.info.operands[0].rank else ()
    if not axes:
        op.keep()
        return
    cause = op.cause("'stablehlo.sort' sorts a split dimension")
    columns = _Columns(op, dim, axes, cause)
    gathered = sum(sent_bytes("all_gather", bytes_of(v.type), size_of(axes)) for v in op.operands)
    if columns.apply() and columns.sent_bytes() < gathered:
        op.replace(columns.sort())
        return
    whole = []
    size = op.info.operands[0].shape[dim]
    for value in op.operands:
        value = op.emit.all_gather(value, dim, axes, cause)
        shape = value.type.shape
        whole.append(op.emit.slice(value, (*shape[:dim], size, *shape[dim + 1 :])))
    (body,) = op.ir.regions
    made = _sort(op, whole, dim, lambda arguments: inline_body(op.emit, body, arguments))
    op.replace([op.emit.shard_dims(value, {dim: axes}) for value in made])


def _sort(op: LocalOp, operands: Sequence[Value], dim: int, body: Body) -> list[Value]:
    types = [value.type for value in operands]
    scalars = [TensorType((), t.element) for t in types for _ in range(2)]
    return op_with_body(
        op.emit,
        "stablehlo.sort",
        operands,
        types,
        scalars,
        body,
        dimension=op.emit.i64(dim),
        is_stable=op.ir.attributes.get("is_stable"),
    )


class _Columns:
    """Columnsort: a device sends about three times its shard, however many devices there are.

    Every device sorts its own column. Between sorts, columns are transposed and transposed back; finally each half
    column is sorted together with the adjacent half of its neighbor. Elements carry their index if it is needed to
    order equal ones and to put padding last.

    Source: Leighton, Tight bounds on the complexity of parallel sorting (IEEE Trans. Computers C-34, 1985).
    """

    def __init__(self, op: LocalOp, dim: int, axes: Axes, cause: Cause) -> None:
        self.op, self.emit, self.dim, self.axes, self.cause = op, op.emit, dim, axes, cause
        self.count = size_of(axes)
        self.size = op.info.operands[0].shape[dim]
        self.local = op.local_operand(0).shape[dim]
        self.column = -(-self.local // self.count) * self.count
        self.element = index_element((self.column * (self.count + 2),))
        self.comparison = _comparison(op)
        self.carries_index = not (
            self.comparison is _Comparison.EXACT and len(op.operands) == 1 and self.column * self.count == self.size
        )

    def apply(self) -> bool:
        """Whether columns are long enough, and any two elements are ordered."""
        return self.column >= 2 * (self.count - 1) ** 2 and self.comparison is not _Comparison.UNKNOWN

    def sent_bytes(self) -> float:
        scale = self.column / self.local
        held = sum(bytes_of(value.type) for value in self.op.operands) * scale
        if self.carries_index:
            held += bytes_of(TensorType(self._shape(self.column), self.element))
        aligned = 0.0 if scale == 1.0 else held * (1 - 1 / scale) * (self.count - 1)
        return 2 * sent_bytes("all_to_all", held, self.count) + held + aligned

    def _shape(self, size: int) -> tuple[int, ...]:
        shape = self.op.local_operand(0).shape
        return (*shape[: self.dim], size, *shape[self.dim + 1 :])

    def sort(self) -> list[Value]:
        columns = [pad_dim(self.emit, v, self.dim, 0, self.column - self.local, 0) for v in self.op.operands]
        if self.carries_index:
            columns.append(self._index())
        columns = [self._deal(value) for value in self._sorted(columns)]
        columns = [self._deal_back(value) for value in self._sorted(columns)]
        columns = self._sort_halves(self._sorted(columns))[: len(self.op.operands)]
        if self.column == self.local:
            return columns
        shards = Windows(self.column * self.count, 0, self.local, self.local)
        return [take_windows(self.emit, v, self.dim, self.axes, shards, None, self.cause) for v in columns]

    def _places(self, length: int, begin: Value) -> Value:
        type_ = TensorType(self._shape(length), self.element)
        places = self.emit.op("stablehlo.iota", [], [type_], iota_dimension=self.emit.i64(self.dim))
        return self.emit.binary("add", places, self.emit.broadcast_scalar(begin, type_))

    def _index(self) -> Value:
        """The original index of every element; padding has indices after the end."""
        places = self._places(self.column, self.emit.shard_offset(self.axes, self.local, self.element))
        if self.column == self.local:
            return places
        type_ = places.type
        steps = self.emit.op("stablehlo.iota", [], [type_], iota_dimension=self.emit.i64(self.dim))
        real = self.emit.compare(steps, "LT", self.emit.constant(type_, self.local))
        behind = self.emit.constant(type_, self.column * self.count)
        return self.emit.op("stablehlo.select", [real, places, behind], [type_])

    def _deal(self, value: Value) -> Value:
        """Element i of a column goes to column i modulo their count."""
        shape, rows = value.type.shape, self.column // self.count
        split = self.emit.reshape(value, (*shape[: self.dim], rows, self.count, *shape[self.dim + 1 :]))
        dealt = self.emit.all_to_all(split, self.dim + 1, self.dim, self.axes, self.cause)
        return self.emit.reshape(dealt, shape)

    def _deal_back(self, value: Value) -> Value:
        return self.emit.all_to_all(value, self.dim, self.dim, self.axes, self.cause)

    def _sort_halves(self, columns: list[Value]) -> list[Value]:
        """Sort every column together with the adjacent halves, and keep its part.

        Elements beyond the first and the last column have indices outside, so that they stay outside.
        """
        half = self.column // 2
        total = self.column * self.count
        near = Windows(total, -half, self.column, 2 * self.column)
        wide = [take_windows(self.emit, v, self.dim, self.axes, near, None, self.cause) for v in columns]
        begin = self.emit.shard_offset(self.axes, self.column, self.element)
        begin = self.emit.binary("subtract", begin, self.emit.constant(TensorType((), self.element), half))
        places = self._places(2 * self.column, begin)
        type_ = places.type
        index = wide.pop() if self.carries_index else self.emit.constant(type_, 0)
        inside = self.emit.binary(
            "and",
            self.emit.compare(places, "GE", self.emit.constant(type_, 0)),
            self.emit.compare(places, "LT", self.emit.constant(type_, total)),
        )
        index = self.emit.op("stablehlo.select", [inside, index, places], [type_])
        made = self._sorted([*wide, index])
        return [self._middle(value, half) for value in made]

    def _middle(self, value: Value, start: int) -> Value:
        type_ = value.type
        starts = [start if d == self.dim else 0 for d in range(type_.rank)]
        result = TensorType(self._shape(self.column), type_.element)
        return self.emit.op(
            "stablehlo.slice",
            [value],
            [result],
            start_indices=self.emit.i64s(starts),
            limit_indices=self.emit.i64s([a + n for a, n in zip(starts, result.shape, strict=True)]),
            strides=self.emit.i64s([1] * type_.rank),
        )

    def _sorted(self, columns: list[Value]) -> list[Value]:
        (block,) = self.op.ir.regions
        given = 2 * len(self.op.operands)

        def plain(arguments: Sequence[Value]) -> list[Value]:
            return inline_body(self.emit, block, arguments)

        def indexed(arguments: list[Value]) -> list[Value]:
            """Compare by the given order, then by index; elements outside only by index."""
            values, (left, right) = arguments[:given], arguments[given:]
            swapped = [values[i ^ 1] for i in range(given)]
            (less,), (more,) = plain(values), plain(swapped)
            emit, flag = self.emit, less.type
            before = emit.compare(left, "LT", right)
            decided = emit.op("stablehlo.select", [emit.binary("xor", less, more), less, before], [flag])
            real = emit.binary("and", self._is_real(left), self._is_real(right))
            return [emit.op("stablehlo.select", [real, decided, before], [flag])]

        return _sort(self.op, columns, self.dim, plain if len(columns) * 2 == given else indexed)

    def _is_real(self, index: Value) -> Value:
        """Whether indices are inside the dimension."""
        type_ = index.type
        low = self.emit.compare(index, "GE", self.emit.constant(type_, 0))
        return self.emit.binary("and", low, self.emit.compare(index, "LT", self.emit.constant(type_, self.size)))


class _Comparison(enum.Enum):
    """The class of a comparator."""

    UNKNOWN = "may be no order, as of NaN compared as a number"
    ORDER = "puts elements in an order in which different ones may be equal"
    EXACT = "puts elements in an order in which only identical ones are equal"


def _comparison(op: LocalOp) -> _Comparison:
    """Classify a comparator: an order consists of strict total comparisons and tests for equality."""
    (block,) = op.ir.regions
    content = list(block)
    for inner in content:
        if inner.name == "stablehlo.compare" and not _is_total(inner):
            return _Comparison.UNKNOWN
        if inner.name not in _IN_COMPARATORS:
            return _Comparison.UNKNOWN
    first, last = content[0], content[-1]
    arguments = set(block.arguments)
    if len(content) == 2 and set(first.operands) == arguments and first.results[0] == last.operands[0]:
        return _Comparison.EXACT if _direction(first) in ("LT", "GT") else _Comparison.UNKNOWN
    return _Comparison.ORDER


# Other operations in comparators: keys of elements, and combinations of tests.
_NAMES = "abs and bitcast_convert compare constant convert imag negate or real return select"
_IN_COMPARATORS = {f"stablehlo.{name}" for name in _NAMES.split()}


def _is_total(op: Operation) -> bool:
    """Whether a comparison is a strict total order: it orders NaN, and no value is before itself."""
    direction = _direction(op)
    if direction in ("EQ", "NE"):
        return True
    if direction not in ("LT", "GT"):
        return False
    integer = "i" in op.operands[0].type.element.split("f")[0]
    return integer or "TOTALORDER" in str(op.attributes.get("compare_type"))


def _direction(op: Operation) -> str:
    return str(op.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")


def top_k_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions except the last pass through; along that, the best of all shards are gathered."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [t.shape for t in info.results])
    for dim, size in enumerate(shape):
        if dim == len(shape) - 1:
            builder.factor([dim], [None, None], size, PERMUTATION)
        else:
            builder.factor([dim], [dim, dim], size)
    return builder.build()


def localize_top_k(op: LocalOp) -> None:
    """The best of each shard are gathered, and the best of these are the result.

    Elements are compared in the total order, in which positive NaN is above and negative NaN below everything. Of equal
    elements, the first comes first, which holds after gathering shards in order.
    """
    emit, operand = op.emit, op.info.operands[0]
    last = operand.rank - 1
    axes = op.operand_axes(0, last)
    if not axes:
        op.keep()
        return
    op.mask_operand(0, last, _least(emit, operand.element))
    k, local = op.info.results[0].shape[last], op.local_operand(0).shape
    best = min(k, local[last])
    values, indices = _top_k(emit, op.operands[0], best)
    positions = indices.type
    offset = emit.shard_offset(axes, local[last])
    indices = emit.binary("add", indices, emit.broadcast_scalar(offset, positions))
    cause = op.cause(f"'{op.info.name}' selects from a split dimension: the best of all shards are compared")
    values, indices = (emit.all_gather(value, last, axes, cause) for value in (values, indices))
    values, places = _top_k(emit, values, k)
    op.replace([values, _take_along_last(emit, indices, places)])


def _least(emit: Emitter, element: str) -> Value:
    """The smallest element in the total order: the negative NaN with most bits.

    Shorter floats have none, or are converted to longer ones in which it is positive.
    """
    scalar = TensorType((), element)
    if element in ("f64", "f32", "f16", "bf16"):
        bits = scalar.of_element(f"i{round(8 * element_bytes(element))}")
        return emit.op("stablehlo.bitcast_convert", [emit.constant(bits, -1)], [scalar])
    nan_is_least = element.startswith("f8") and element not in ("f8E5M2", "f8E8M0FNU")
    return emit.constant(scalar, -math.nan if nan_is_least else "lowest")


def _top_k(emit: Emitter, value: Value, k: int) -> list[Value]:
    """The k largest elements along the last dimension, and their positions (i32)."""
    type_ = value.type
    shape = (*type_.shape[:-1], k)
    results = [TensorType(shape, type_.element), TensorType(shape, "i32")]
    return emit.ops("chlo.top_k", [value], results, k=emit.i64(k))


def _take_along_last(emit: Emitter, value: Value, places: Value) -> Value:
    """`value[..., places]`, row by row."""
    type_, index = value.type, places.type
    rows = list(range(type_.rank - 1))
    numbers = (
        f"#stablehlo.gather<collapsed_slice_dims = [{type_.rank - 1}], operand_batching_dims = {rows}, "
        f"start_indices_batching_dims = {rows}, start_index_map = [{type_.rank - 1}], index_vector_dim = {type_.rank}>"
    )
    return emit.op(
        "stablehlo.gather",
        [value, places],
        [TensorType(index.shape, type_.element)],
        dimension_numbers=ir.Attribute.parse(numbers, emit.context),
        slice_sizes=emit.i64s([1] * type_.rank),
    )


def sort_flops(info: OpInfo) -> float:
    shape = info.operands[0].shape
    length = shape[info.integer("dimension", len(shape) - 1)] if shape else 1
    return math.prod(shape) * math.log2(max(length, 1)) if length > 1 else 0.0


_SORTED = Flops("sort", sort_flops)

OPS = op_table(
    [
        OpDef("stablehlo.sort", sort_rule, localize_sort, traits=Traits(flops=_SORTED, in_place=True)),
        OpDef("chlo.top_k", top_k_rule, localize_top_k, traits=Traits(flops=_SORTED)),
    ]
)
