"""Values of a wider element type than what they are converted from: that is moved, and converted again behind."""

from __future__ import annotations

from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.traits import MOVED


def widened_from(program: Program, value: int) -> int | None:
    """The narrower value that one is converted from, if it is."""
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
    """By value, the type that it is moved as."""
    types = list(program.value_type)
    for value in range(len(types)):  # in order of definition
        source = widened_from(program, value)
        if source is not None:
            types[value] = types[source]
    return types
