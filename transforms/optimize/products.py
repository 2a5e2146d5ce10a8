"""Dots: the kinds of their dimensions, their time, and the same dot of slices of the operands."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.op_info import InfoReader
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.ops.contraction import dot_flops

DOT = "stablehlo.dot_general"


@dataclasses.dataclass(frozen=True, slots=True)
class ProductDims:
    """The kinds of a dot's dimensions: pairs of lhs and rhs dimensions, and the free dimensions of each operand."""

    batch: tuple[tuple[int, int], ...]
    contracting: tuple[tuple[int, int], ...]
    free: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, dot: Operation) -> ProductDims:
        numbers = stablehlo.DotDimensionNumbers(dot.attributes["dot_dimension_numbers"])
        batch = tuple(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
        contracting = tuple(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
        free = []
        for side in (0, 1):
            taken = {pair[side] for pair in batch + contracting}
            free.append(tuple(d for d in range(dot.operands[side].type.rank) if d not in taken))
        return cls(batch, contracting, (free[0], free[1]))

    def of_operand(self, side: int, dim: int) -> tuple[int | None, int | None]:
        """The dimensions of the other operand and of the result that correspond to a dimension of an operand."""
        for index, pair in enumerate(self.batch):
            if pair[side] == dim:
                return pair[1 - side], index
        for pair in self.contracting:
            if pair[side] == dim:
                return pair[1 - side], None
        before = len(self.batch) + (len(self.free[0]) if side else 0)
        return None, before + self.free[side].index(dim)

    def of_result(self, dim: int) -> tuple[int | None, int | None]:
        """The dimensions of both operands that correspond to a dimension of the result."""
        if dim < len(self.batch):
            return self.batch[dim]
        dim -= len(self.batch)
        if dim < len(self.free[0]):
            return self.free[0][dim], None
        return None, self.free[1][dim - len(self.free[0])]

    @property
    def swap(self) -> tuple[int, ...]:
        """The permutation of the result that swapping the operands causes."""
        batch, left, right = len(self.batch), len(self.free[0]), len(self.free[1])
        return (*range(batch), *range(batch + left, batch + left + right), *range(batch, batch + left))


class Arithmetic(NamedTuple):
    """A number of multiplications and additions of elements of one type."""

    flops: float
    element: str

    @classmethod
    def of(cls, dot: Operation) -> Arithmetic:
        """The arithmetic of a dot."""
        info = InfoReader()(dot, tuple(value.type for value in dot.operands))
        return cls(dot_flops(info), info.operands[0].element)

    def seconds(self, hardware: Hardware) -> float:
        """Seconds on a device."""
        return self.flops / hardware.flops_of(self.element)


def product_of_parts(emit: Emitter, dot: Operation, left: Value, right: Value) -> Value:
    """The same dot of slices of its operands."""
    dims = ProductDims.of(dot)
    shapes = [left.type.shape, right.type.shape]
    shape = [shapes[0][pair[0]] for pair in dims.batch]
    shape += [shapes[side][d] for side in (0, 1) for d in dims.free[side]]
    attributes = dict(dot.attributes)
    result = TensorType(tuple(shape), dot.results[0].type.element)
    return emit.op(DOT, [left, right], [result], **attributes)
