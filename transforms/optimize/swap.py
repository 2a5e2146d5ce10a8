"""Products whose reduced results are transposed, multiplied in the other order instead."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.optimize.products import DOT, ProductDims
from gspmd.transforms.optimize.program import Collective, CollectivePass, DeviceProgram, integers, only_user, owner
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.op_info import TensorType

_TRANSPOSE = "stablehlo.transpose"
_WHAT = "transposed before its sum is taken"


@dataclasses.dataclass(frozen=True)
class SwapProducts(CollectivePass):
    """Gradients of weights are products, transposed. With a reduction between the two, compilers do not see that the

    product in the other order needs no transpose, and lay out what follows, loops and results included, otherwise
    than it comes in.
    """

    argument = "gspmd-swap-products"
    summary = "Multiply in the other order what is transposed after it is reduced"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        for collective in program.collectives("all_reduce", "reduce_scatter"):
            dot, transpose = owner(collective.operand), only_user(collective.result)
            if dot is None or dot.name != DOT or transpose is None or transpose.name != _TRANSPOSE:
                continue
            dims = ProductDims.of(dot)
            if integers(transpose.attributes["permutation"]) != dims.swap:
                program.decline(transpose, _WHAT, "the product in the other order has its dimensions otherwise")
            elif only_user(collective.operand) is None:
                program.decline(transpose, _WHAT, "the product is used before the sum is taken, too")
            elif "algorithm" in dot.attributes:
                program.decline(transpose, _WHAT, "the product's algorithm is one for its operands in this order")
            elif collective.combiner is not None and program.is_along_axes(collective):
                self._swap(program, collective, dot, dims, transpose)

    def _swap(
        self, program: DeviceProgram, collective: Collective, dot: Any, dims: ProductDims, transpose: Any
    ) -> None:
        emit = program.emitter(collective.op, dot.location)
        product, combiner = _swapped(emit, dot, dims), collective.combiner or ""
        emit.location = collective.op.location
        if collective.kind == "all_reduce":
            value = emit.all_reduce(product, collective.axes, combiner, collective.cause)
        else:
            dim = dims.swap.index(collective.dimension("scatter_dimension"))
            value = emit.reduce_scatter(product, dim, collective.axes, combiner, collective.cause)
        transpose.results[0].replace_all_uses_with(value)
        transpose.erase()
        collective.erase()
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
