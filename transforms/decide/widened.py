"""Values converted from a narrower element type: the narrow operand is resharded, and converted again afterwards."""

from __future__ import annotations

from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.traits import MOVED


def widened_from(program: Program, value: int) -> int | None:
    """The operand of the conversion that widens a value; None if the value is no such result."""
    definer = program.value_def[value]
    if definer < 0:
        return None
    op = program.ops[definer]
    traits = traits_of(op.info.name)
    if not traits.elementwise or traits.view or traits.flops is not MOVED:
        return None
    before, after = op.info.operands[0], op.info.results[0]
    return op.operands[0] if element_bytes(before.element) < element_bytes(after.element) else None


def moved_types(program: Program) -> list[TensorType]:
    """By value, the type in which it is resharded."""
    types = list(program.value_type)
    for value in range(len(types)):  # in order of definition
        source = widened_from(program, value)
        if source is not None:
            types[value] = types[source]
    return types
