"""Creating StableHLO operations from Python values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ir.op_info import TensorType, element_bytes
from gspmd.transforms.ir.reducers import splat


class Builder:
    """Creates operations before `point`, a moving insertion point, at `location`."""

    def __init__(self, context: ir.Context) -> None:
        self.context = context
        self.point: Any = None
        self.location: Any = ir.Location.unknown(context)
        self._types: dict[TensorType, Any] = {}
        self._windows: set[Any] = set()
        self.also: dict[str, Any] = {}  # attributes of whatever is created

    def mlir_type(self, type_: TensorType) -> Any:
        found = self._types.get(type_)
        if found is None:
            shape = "x".join(map(str, type_.shape))
            text = f"tensor<{shape}x{type_.element}>" if shape else f"tensor<{type_.element}>"
            found = self._types[type_] = ir.Type.parse(text if type_.is_tensor else type_.element, self.context)
        return found

    def op(self, name: str, operands: Sequence[Any], results: Sequence[TensorType], **attributes: Any) -> Any:
        """Create an operation; returns its result, or the list of results when there is not just one."""
        created = ir.Operation.create(
            name,
            results=[self.mlir_type(t) for t in results],
            operands=list(operands),
            attributes={k: v for k, v in attributes.items() if v is not None} | self.also,
            loc=self.location,
            ip=self.point,
        )
        return created.results[0] if len(results) == 1 else list(created.results)

    def op_with_regions(self, name: str, operands: Sequence[Any], results: Sequence[TensorType], regions: int) -> Any:
        """Create an operation with so many regions, which have no blocks yet, and return it."""
        return ir.Operation.create(
            name,
            results=[self.mlir_type(t) for t in results],
            operands=list(operands),
            regions=regions,
            loc=self.location,
            ip=self.point,
        )

    def i64s(self, values: Sequence[int]) -> Any:
        return ir.DenseI64ArrayAttr.get(list(values), self.context)

    def i64(self, value: int) -> Any:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), value)

    def constant(self, type_: TensorType, value: Any) -> Any:
        """A uniform constant; `value` is a number or a word that `splat` knows."""
        if type_.element.startswith("complex<"):
            if isinstance(value, str) and value != "zero":
                raise Unsupported(f"complex numbers have no '{value}' value", code=Code.OPERATION)
            part = TensorType(type_.shape, type_.element[len("complex<") : -1])
            real = 0 if value == "zero" else value
            parts = [self.constant(part, real), self.constant(part, real * 0.0)]
            return self.op("stablehlo.complex", parts, [type_])
        return self.op("stablehlo.constant", [], [type_], value=splat(self.mlir_type(type_), value))

    def binary(self, name: str, left: Any, right: Any, type_: TensorType | None = None) -> Any:
        return self.op(f"stablehlo.{name}", [left, right], [type_ or read_type(left)])

    def compare(self, left: Any, direction: str, right: Any) -> Any:
        """Elementwise comparison; `direction` is LT, GE and so on."""
        return self.op(
            "stablehlo.compare",
            [left, right],
            [TensorType(read_type(left).shape, "i1")],
            comparison_direction=ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>", self.context),
        )

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        type_ = read_type(value)
        if type_.shape == tuple(shape):
            return value
        return self.op("stablehlo.reshape", [value], [TensorType(tuple(shape), type_.element)])

    def transpose(self, value: Any, permutation: Sequence[int]) -> Any:
        type_ = read_type(value)
        shape = tuple(type_.shape[p] for p in permutation)
        result = TensorType(shape, type_.element)
        return self.op("stablehlo.transpose", [value], [result], permutation=self.i64s(permutation))

    def element_of(self, table: npt.NDArray[np.int64], index: Any) -> Any:
        """The i32 in a table at an index, a scalar i32."""
        content = ir.DenseElementsAttr.get(table.astype(np.int32), context=self.context)
        constant = self.op("stablehlo.constant", [], [TensorType(table.shape, "i32")], value=content)
        return self.reshape(self.dynamic_slice(constant, [index], (1,)), ())

    def broadcast_scalar(self, value: Any, type_: TensorType) -> Any:
        return self.op("stablehlo.broadcast_in_dim", [value], [type_], broadcast_dimensions=self.i64s([]))

    def slice(self, value: Any, limits: Sequence[int], starts: Sequence[int] = ()) -> Any:
        """The part of every dimension from its start, by default 0, to its limit."""
        type_ = read_type(value)
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

    def slice_dim(self, value: Any, dim: int, start: int, size: int) -> Any:
        """`size` elements of one dimension from `start` on."""
        shape = read_type(value).shape
        limits = [start + size if d == dim else n for d, n in enumerate(shape)]
        return self.slice(value, limits, [start if d == dim else 0 for d in range(len(shape))])

    def dynamic_slice(self, value: Any, starts: Sequence[Any], shape: Sequence[int]) -> Any:
        """A window of this shape; starts must leave it inside.

        A slice of the user's stays apart from it: XLA adds up the starts of both without limiting the inner one.
        """
        if _starts_anywhere(value) and value not in self._windows:
            value = self.kept_apart(value)
        result = read_type(value)._replace(shape=tuple(shape))
        window = self.op("stablehlo.dynamic_slice", [value, *starts], [result], slice_sizes=self.i64s(result.shape))
        self._windows.add(window)
        return window

    def kept_apart(self, value: Any) -> Any:
        """The value, which the compiler does not look through from here."""
        return self.op("stablehlo.optimization_barrier", [value], [read_type(value)])

    def pad_to(self, value: Any, shape: Sequence[int]) -> Any:
        """Extend every dimension at its end to `shape`; what is added is zero."""
        type_ = read_type(value)
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

    def convert(self, value: Any, element: str) -> Any:
        type_ = read_type(value)
        if type_.element == element:
            return value
        return self.op("stablehlo.convert", [value], [TensorType(type_.shape, element)])


def _starts_anywhere(value: Any) -> bool:
    """Whether a value is a slice whose start depends on data, and part of a dimension that it could begin elsewhere in.

    XLA makes such a slice of a gather of one index, and looks through reshapes and transposes.
    """
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.operation.name in ("stablehlo.reshape", "stablehlo.transpose"):
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.operation.name not in ("stablehlo.dynamic_slice", "stablehlo.gather"):
        return False
    sizes = list(ir.DenseI64ArrayAttr(owner.operation.attributes["slice_sizes"]))
    if owner.operation.name == "stablehlo.gather" and math.prod(sizes) < math.prod(read_type(owner.results[0]).shape):
        return False
    whole = read_type(owner.operands[0]).shape
    return any(1 < window < size for window, size in zip(sizes, whole, strict=True))


def read_type(value: Any) -> TensorType:
    """The current type of an MLIR tensor value."""
    type_ = ir.RankedTensorType(value.type)
    return TensorType(tuple(type_.shape), str(type_.element_type))


def bytes_of(type_: TensorType) -> float:
    """Bytes of one value of this type."""
    return math.prod(type_.shape) * element_bytes(type_.element)
