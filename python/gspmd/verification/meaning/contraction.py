"""Products that are summed up."""

from __future__ import annotations

from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.ir.operations import Operation
from gspmd.verification.attributes import notes
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.values import SymbolicValue

_DEFAULT = "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"


def product(machine: Execution, op: Operation, left: SymbolicValue, right: SymbolicValue) -> SymbolicValue:
    """The product of elements, in the type of the result and with the precision of the operation."""
    algebra, element = machine.algebra, op.results[0].type.element
    sides = [algebra.elementwise(("stablehlo.convert",), element, [side]) for side in (left, right)]
    precision = notes(op, {"precision_config": _DEFAULT, "algorithm": ""})
    if any(text == "[]" for _, text in precision):
        precision = ()
    return algebra.elementwise(("stablehlo.multiply", *precision), element, sides)


def _dot_general(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batching = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    contracted = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    return _contracted(machine, op, values, batching, contracted)


def _dot(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """The product of matrices or vectors: the last dimension of one is contracted with the first of the other."""
    return _contracted(machine, op, values, ([], []), ([len(values[0].shape) - 1], [0]))


def _contracted(
    machine: Execution,
    op: Operation,
    values: list[SymbolicValue],
    batching: tuple[list[int], list[int]],
    contracted: tuple[list[int], list[int]],
) -> list[SymbolicValue]:
    result = op.results[0].type.shape
    sizes = [values[0].shape[d] for d in contracted[0]]
    shape = (*result, *sizes)
    free = [
        [d for d in range(len(value.shape)) if d not in batching[side] and d not in contracted[side]]
        for side, value in enumerate(values)
    ]
    begins = len(batching[0]), len(batching[0]) + len(free[0])
    sides = []
    for side, value in enumerate(values):
        names = {old: new for new, old in enumerate(batching[side])}
        names |= {old: begins[side] + i for i, old in enumerate(free[side])}
        names |= {old: len(result) + i for i, old in enumerate(contracted[side])}
        sides.append(machine.algebra.relabelled(value, shape, names))
    made = product(machine, op, *sides)
    for _ in sizes:
        made = machine.algebra.total("add", made, len(made.shape) - 1)
    return [made]


MEANINGS: dict[str, Meaning] = {"stablehlo.dot_general": _dot_general, "stablehlo.dot": _dot}
