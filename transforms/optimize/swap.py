"""Dots that are transposed, or whose reduce-scattered sums are, with their operands in the other order instead."""

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
    """Compute a transposed dot in the other order, also where its sum is reduce-scattered in between.

    Gradients of weights are transposed dots. With a reduce-scatter in between, or a batch of one, compilers do not see
    that the dot in the other order needs no transpose, and lay out what follows, loops and results included, otherwise
    than it comes in. An all-reduce takes values in any layout: there the transpose costs nothing.
    """

    argument = "gspmd-swap-products"
    summary = "Swap the operands of matmuls whose result is transposed, also behind a reduce-scatter"

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
                    program, scatter, transpose, "the product in the other order has its dimensions otherwise"
                )
            elif dot.results[0].only_user is None:
                self._decline(program, scatter, transpose, "the product is used before the sum is taken, too")
            elif "algorithm" in dot.attributes:
                self._decline(
                    program, scatter, transpose, "the product's algorithm is one for its operands in this order"
                )
            elif scatter is None or (scatter.combiner is not None and program.is_along_axes(scatter)):
                _swap(program, dot, dims, scatter, transpose)

    @staticmethod
    def _decline(program: DeviceProgram, scatter: LocalCollective | None, transpose: Operation, why: str) -> None:
        """Without a sum in between, compilers do what can be done."""
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
    """The dot with its operands in the other order."""
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
