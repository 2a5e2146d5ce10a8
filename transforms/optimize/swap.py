"""Swap the operands of dots whose results, or reduce-scattered sums, are transposed."""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.optimize.products import DOT, ProductDims
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective, integers

_SCATTER = "stablehlo.reduce_scatter"


@dataclasses.dataclass(frozen=True)
class SwapProducts(CollectivePass):
    """Swap the operands of a transposed dot, also if its sum is reduce-scattered before the transpose.

    Gradients of weights are transposed dots. With a reduce-scatter in between, or a batch of one, compilers do not
    notice that swapped operands need no transpose. They then choose other layouts for all consumers, loops and results
    included. An all-reduce accepts any layout, so a transpose after it costs nothing.
    """

    argument = "gspmd-swap-products"
    summary = "Swap the operands of matmuls whose result is transposed, also after a reduce-scatter"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        for transpose in program.transposes():
            before = transpose.operands[0].op
            scatter = (
                LocalCollective(before, "reduce_scatter", program.mesh) if before and before.name == _SCATTER else None
            )
            dot = before if scatter is None else scatter.operand.op
            if dot is None or dot.name != DOT or transpose.operands[0].only_user is None:
                continue
            dims = ProductDims.of(dot)
            if integers(transpose.attributes["permutation"]) != dims.swap:
                self._decline(
                    program, scatter, transpose, "swapping the operands does not give this order of dimensions"
                )
            elif dot.results[0].only_user is None:
                self._decline(program, scatter, transpose, "the product is also used before its sum is taken")
            elif "algorithm" in dot.attributes:
                self._decline(
                    program, scatter, transpose, "the algorithm of the product depends on the order of its operands"
                )
            elif scatter is None or (scatter.combiner is not None and program.is_along_axes(scatter)):
                _swap(program, dot, dims, scatter, transpose)

    @staticmethod
    def _decline(program: DeviceProgram, scatter: LocalCollective | None, transpose: Operation, why: str) -> None:
        """Remark on a declined swap; without a reduce-scatter, compilers swap on their own."""
        if scatter is not None:
            program.decline(transpose, "transposed before its sum is taken", why)


def _swap(
    program: DeviceProgram, dot: Operation, dims: ProductDims, scatter: LocalCollective | None, transpose: Operation
) -> None:
    emit = program.emitter(dot, dot.location)
    value = _swapped(emit, dot, dims)
    if scatter is not None:
        emit = program.emitter(scatter.op)
        dim = dims.swap.index(scatter.dimension("scatter_dimension"))
        value = emit.reduce_scatter(value, dim, scatter.axes, scatter.combiner or "", scatter.cause)
    transpose.results[0].replace_all_uses_with(value)
    for op in (transpose, *(() if scatter is None else (scatter.op,)), dot):
        op.erase()
    program.changed()


def _swapped(emit: Emitter, dot: Operation, dims: ProductDims) -> Value:
    """The dot with its operands swapped."""
    left, right = dot.operands
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=[b for _, b in dims.batch],
        rhs_batching_dimensions=[a for a, _ in dims.batch],
        lhs_contracting_dimensions=[b for _, b in dims.contracting],
        rhs_contracting_dimensions=[a for a, _ in dims.contracting],
        context=emit.context,
    )
    attributes: dict[str, ir.Attribute] = dict(dot.attributes)
    attributes["dot_dimension_numbers"] = numbers
    if "precision_config" in attributes:
        attributes["precision_config"] = ir.ArrayAttr.get(
            [*reversed(list(attributes["precision_config"]))], emit.context
        )
    result = dot.results[0].type
    shape = tuple(result.shape[d] for d in dims.swap)
    return emit.op(DOT, [right, left], [TensorType(shape, result.element)], **attributes)
