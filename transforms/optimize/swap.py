"""Products whose scattered sums are transposed, multiplied in the other order instead."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.optimize.products import DOT, ProductDims
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, integers, only_user, owner
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.op_info import TensorType

_TRANSPOSE = "stablehlo.transpose"
_WHAT = "transposed before its sum is taken"


@dataclasses.dataclass(frozen=True)
class SwapProducts(CollectivePass):
    """Gradients of weights are products, transposed. With a reduce-scatter between the two, compilers do not see that

    the product in the other order needs no transpose, and lay out what follows, loops and results included, otherwise
    than it comes in. An all-reduce takes values in any layout: there the transpose costs nothing.
    """

    argument = "gspmd-swap-products"
    summary = "Multiply in the other order what is transposed after its sum is scattered"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        for scatter in program.collectives("reduce_scatter"):
            dot, transpose = owner(scatter.operand), only_user(scatter.result)
            if dot is None or dot.name != DOT or transpose is None or transpose.name != _TRANSPOSE:
                continue
            dims = ProductDims.of(dot)
            if integers(transpose.attributes["permutation"]) != dims.swap:
                program.decline(transpose, _WHAT, "the product in the other order has its dimensions otherwise")
            elif only_user(scatter.operand) is None:
                program.decline(transpose, _WHAT, "the product is used before the sum is taken, too")
            elif "algorithm" in dot.attributes:
                program.decline(transpose, _WHAT, "the product's algorithm is one for its operands in this order")
            elif scatter.combiner is not None and program.is_along_axes(scatter):
                emit = program.emitter(scatter.op, dot.location)
                product = _swapped(emit, dot, dims)
                emit.location = scatter.op.location
                dim = dims.swap.index(scatter.dimension("scatter_dimension"))
                value = emit.reduce_scatter(product, dim, scatter.axes, scatter.combiner, scatter.cause)
                transpose.results[0].replace_all_uses_with(value)
                transpose.erase()
                scatter.erase()
                dot.erase()
                program.changed()


def _swapped(emit: Emitter, dot: Any, dims: ProductDims) -> Any:
    """The product with its operands in the other order."""
    left, right = dot.operands
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=[b for _, b in dims.batch],
        rhs_batching_dimensions=[a for a, _ in dims.batch],
        lhs_contracting_dimensions=[b for _, b in dims.contracting],
        rhs_contracting_dimensions=[a for a, _ in dims.contracting],
        context=emit.context,
    )
    attributes: dict[str, Any] = {name: dot.attributes[name] for name in dot.attributes}
    attributes["dot_dimension_numbers"] = numbers
    if "precision_config" in attributes:
        attributes["precision_config"] = ir.ArrayAttr.get(
            [*reversed(list(attributes["precision_config"]))], emit.context
        )
    result = read_type(dot.results[0])
    shape = tuple(result.shape[d] for d in dims.swap)
    return emit.op(DOT, [right, left], [TensorType(shape, result.element)], **attributes)
