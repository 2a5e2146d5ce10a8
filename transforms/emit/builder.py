"""Creating StableHLO operations from Python values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_ELEMENTS
from gspmd.transforms.ir.operations import Attribute, Block, Location, Operation, Point, Value
from gspmd.transforms.ir.reducers import Number, reducer_operation, splat
from gspmd.transforms.ir.types import TensorType, Types, element_bytes

_LAYOUT = "LayoutConstraint"  # a custom call without effect that XLA has on every platform
Body = Callable[[list[Value]], Sequence[Value]]
"""A function from the arguments of a block to the values that it returns."""


class Builder:
    """Creates operations before `point`, a moving insertion point, at `location`."""

    def __init__(self, context: ir.Context) -> None:
        self.context = context
        self.point: Point = None  # type: ignore[assignment]
        self.location: Location = ir.Location.unknown(context)
        self._types = Types(context)
        self._windows: set[Value] = set()
        self.also: dict[str, Attribute] = {}  # attributes of all created operations

    def op(
        self, name: str, operands: Sequence[Value], results: Sequence[TensorType], **attributes: Attribute | None
    ) -> Value:
        """Create an operation with one result, and return the result."""
        return self.create(name, operands, results, attributes).result

    def ops(
        self, name: str, operands: Sequence[Value], results: Sequence[TensorType], **attributes: Attribute | None
    ) -> list[Value]:
        """Create an operation with any number of results, and return them."""
        return self.create(name, operands, results, attributes).results

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[TensorType],
        attributes: Mapping[str, Attribute | None],
        regions: Sequence[Block] = (),
    ) -> Operation:
        """Create an operation, with those attributes that are not None, and return it.

        Raises Unsupported for results with more elements than runtimes can count, which padding may cause.
        """
        for type_ in results:
            if math.prod(type_.shape) > MAX_ELEMENTS:
                raise Unsupported(
                    f"needs a value of {type_.brief} in between, which has more than {MAX_ELEMENTS} elements",
                    hint="split dimensions into even parts, or into fewer of them",
                )
        given = {k: v for k, v in attributes.items() if v is not None} | self.also
        return Operation(name, operands, results, given, self.location, regions).insert(self.point)

    def mlir_type(self, type_: TensorType) -> ir.Type:
        """The type as an MLIR type, for attributes."""
        return self._types.write(type_)

    def block(self, arguments: Sequence[TensorType], body: Body) -> Block:
        """A block that takes values of these types and returns the results of `body`."""
        block = Block(arguments, [self.location] * len(arguments))
        point, self.point = self.point, Point(block)
        also, self.also = self.also, {}
        self.ops("stablehlo.return", body(block.arguments), [])
        self.point, self.also = point, also
        return block

    def combining(self, element: str, combiner: str) -> Block:
        """The body of a reduction: a block that combines two scalars."""
        scalar = TensorType((), element)
        return self.block([scalar, scalar], lambda pair: [self.op(reducer_operation(combiner), pair, [scalar])])

    def sum_over(self, value: Value, dims: Sequence[int]) -> Value:
        """The sums over some dimensions."""
        shape, element = value.type.shape, value.type.element
        result = TensorType(tuple(n for d, n in enumerate(shape) if d not in dims), element)
        operands = [value, self.constant(TensorType((), element), 0)]
        attributes = {"dimensions": self.i64s(dims)}
        return self.create("stablehlo.reduce", operands, [result], attributes, [self.combining(element, "add")]).result

    def i64s(self, values: Sequence[int]) -> ir.Attribute:
        return ir.DenseI64ArrayAttr.get(list(values), self.context)

    def i64(self, value: int) -> ir.Attribute:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), value)

    def constant(self, type_: TensorType, value: Number) -> Value:
        """A splat constant; `value` is a number or a word for `splat`."""
        if type_.element.startswith("complex<"):
            real = 0 if value == "zero" else value
            if isinstance(real, str):
                raise Unsupported(f"complex numbers have no '{value}' value", code=Code.OPERATION)
            part = TensorType(type_.shape, type_.element[len("complex<") : -1])
            parts = [self.constant(part, real), self.constant(part, real * 0.0)]
            return self.op("stablehlo.complex", parts, [type_])
        return self.op("stablehlo.constant", [], [type_], value=splat(self._types.write(type_), value))

    def binary(self, name: str, left: Value, right: Value, type_: TensorType | None = None) -> Value:
        return self.op(f"stablehlo.{name}", [left, right], [type_ or left.type])

    def compare(self, left: Value, direction: str, right: Value) -> Value:
        """Elementwise comparison; `direction` is LT, GE and so on."""
        return self.op(
            "stablehlo.compare",
            [left, right],
            [TensorType(left.type.shape, "i1")],
            comparison_direction=ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>", self.context),
        )

    def all_of(self, tests: Sequence[Value]) -> Value:
        """The conjunction of one or more booleans."""
        return functools.reduce(lambda left, right: self.binary("and", left, right), tests)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        type_ = value.type
        if type_.shape == tuple(shape):
            return value
        return self.op("stablehlo.reshape", [value], [TensorType(tuple(shape), type_.element)])

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        type_ = value.type
        shape = tuple(type_.shape[p] for p in permutation)
        result = TensorType(shape, type_.element)
        return self.op("stablehlo.transpose", [value], [result], permutation=self.i64s(permutation))

    def element_of(self, table: npt.NDArray[np.int64], index: Value) -> Value:
        """The element of an i32 table at an index, a scalar."""
        content = ir.DenseElementsAttr.get(table.astype(np.int32), context=self.context)
        constant = self.op("stablehlo.constant", [], [TensorType(table.shape, "i32")], value=content)
        return self.reshape(self.dynamic_slice(constant, [index], (1,)), ())

    def partition_named(self, names: npt.NDArray[np.int64]) -> Value:
        """The id of each partition in a table, with the type of `stablehlo.partition_id`."""
        own = self.op("stablehlo.partition_id", [], [TensorType((), "ui32")])
        return self.convert(self.element_of(names, self.convert(own, "i32")), "ui32")

    def broadcast_scalar(self, value: Value, type_: TensorType) -> Value:
        return self.op("stablehlo.broadcast_in_dim", [value], [type_], broadcast_dimensions=self.i64s([]))

    def slice(self, value: Value, limits: Sequence[int], starts: Sequence[int] = ()) -> Value:
        """The slice of every dimension from its start, by default 0, to its limit."""
        type_ = value.type
        starts = starts or [0] * len(limits)
        shape = tuple(limit - start for start, limit in zip(starts, limits, strict=True))
        if type_.shape == shape:
            return value
        return self.op(
            "stablehlo.slice",
            [value],
            [TensorType(shape, type_.element)],
            start_indices=self.i64s(starts),
            limit_indices=self.i64s(limits),
            strides=self.i64s([1] * len(limits)),
        )

    def slice_dim(self, value: Value, dim: int, start: int, size: int) -> Value:
        """A slice of `size` elements of one dimension, beginning at `start`."""
        shape = value.type.shape
        limits = [start + size if d == dim else n for d, n in enumerate(shape)]
        return self.slice(value, limits, [start if d == dim else 0 for d in range(len(shape))])

    def dynamic_slice(self, value: Value, starts: Sequence[Value], shape: Sequence[int]) -> Value:
        """A dynamic slice of this shape; the starts must keep it in bounds.

        A barrier separates it from a dynamic slice of the user: XLA adds the starts of both without clamping the inner
        one.
        """
        if _starts_anywhere(value) and value not in self._windows:
            value = self.kept_apart(value)
        result = value.type.of_shape(tuple(shape))
        window = self.op("stablehlo.dynamic_slice", [value, *starts], [result], slice_sizes=self.i64s(result.shape))
        self._windows.add(window)
        return window

    def kept_apart(self, value: Value) -> Value:
        """The value behind an optimization barrier."""
        return self.op("stablehlo.optimization_barrier", [value], [value.type])

    def laid_out(self, value: Value, order: Sequence[int]) -> Value:
        """The value with this layout, the major dimension first, if XLA compiles the program."""
        index = ir.IndexType.get(self.context)
        minor_to_major = np.array([*order][::-1], np.int64)
        layouts = ir.ArrayAttr.get(
            [ir.DenseElementsAttr.get(minor_to_major, type=index, shape=[len(minor_to_major)])], self.context
        )
        return self.op(
            "stablehlo.custom_call",
            [value],
            [value.type],
            call_target_name=ir.StringAttr.get(_LAYOUT, self.context),
            operand_layouts=layouts,
            result_layouts=layouts,
        )

    def pad_to(self, value: Value, shape: Sequence[int]) -> Value:
        """Pad every dimension at its end with zeros to `shape`."""
        type_ = value.type
        if type_.shape == tuple(shape):
            return value
        zero = self.constant(TensorType((), type_.element), 0)
        rank = len(type_.shape)
        return self.op(
            "stablehlo.pad",
            [value, zero],
            [TensorType(tuple(shape), type_.element)],
            edge_padding_low=self.i64s([0] * rank),
            edge_padding_high=self.i64s([b - a for a, b in zip(type_.shape, shape, strict=True)]),
            interior_padding=self.i64s([0] * rank),
        )

    def convert(self, value: Value, element: str) -> Value:
        type_ = value.type
        if type_.element == element:
            return value
        return self.op("stablehlo.convert", [value], [TensorType(type_.shape, element)])


def _starts_anywhere(value: Value) -> bool:
    """Whether a value is a slice with a data-dependent start that can vary.

    XLA turns a gather of one index into such a slice, and looks through reshapes and transposes.
    """
    op = value.op
    while op is not None and op.name in ("stablehlo.reshape", "stablehlo.transpose"):
        op = op.operands[0].op
    if op is None or op.name not in ("stablehlo.dynamic_slice", "stablehlo.gather"):
        return False
    sizes = list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"]))
    if op.name == "stablehlo.gather" and math.prod(sizes) < math.prod(op.results[0].type.shape):
        return False
    whole = op.operands[0].type.shape
    return any(1 < window < size for window, size in zip(sizes, whole, strict=True))


def bytes_of(type_: TensorType) -> float:
    """The bytes of a value of this type."""
    return math.prod(type_.shape) * element_bytes(type_.element)
