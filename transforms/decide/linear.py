"""Operations that may be applied to partial results before these are summed, as f(a) + f(b) = f(a + b)."""

from __future__ import annotations

from collections.abc import Callable

from gspmd.transforms.ir.op_info import combiner
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.reducers import is_identity, is_one_number, is_zero
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.traits import Traits


def linear_operands(op: Op, is_constant: Callable[[int], bool], assume_finite: bool = False) -> tuple[int, ...]:
    """The operands that an operation is linear in taken together, none if it is not.

    `is_constant` says whether a value is a constant. With `assume_finite`, summands may be scaled with a number that is
    known only when the program runs: scaled with infinity, summands of opposite signs add up to NaN.
    """
    traits = traits_of(op.info.name)
    for together in traits.linear:
        others = [index for index in range(len(op.operands)) if index not in together]
        if not others:
            return together
        if op.info.body:
            return together if _adds_to_zeros(op, traits) else ()
        if traits.looks_up or traits.update is not None:  # the others say where
            return together
        scales = all(
            is_constant(op.operands[index]) or (assume_finite and is_one_number(op.ir.operands[index]))
            for index in others
        )
        if _is_float(op) and scales and not any(is_constant(op.operands[index]) for index in together):
            return together
    return ()


def _adds_to_zeros(op: Op, traits: Traits) -> bool:
    """Whether a single result is what a reducer adds to zeros."""
    if len(op.results) != 1 or combiner(op.info) != "add":
        return False
    if traits.update is not None:
        return is_zero(op.ir.operands[0])
    return is_identity(op.ir.operands[1], "add")


def _is_float(op: Op) -> bool:
    """Whether the result is a float.

    Integer divisions have a remainder, so they are not linear; integer multiplications may stay where they were
    written.
    """
    return op.info.results[0].element.startswith(("f", "bf"))
