"""Operations that may be applied to summands before their reduction, because f(a) + f(b) = f(a + b)."""

from __future__ import annotations

from collections.abc import Callable

from gspmd.transforms.ir.op_info import combiner
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.reducers import is_identity, is_one_number, is_zero
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.traits import Traits


def linear_operands(op: Op, is_constant: Callable[[int], bool], assume_finite: bool = False) -> tuple[int, ...]:
    """The operands in which an operation is jointly linear; none if it is not linear.

    `is_constant` says whether a value is a constant. With `assume_finite`, summands may be scaled by a runtime value:
    infinity would turn summands of opposite signs into NaN.
    """
    traits = traits_of(op.info.name)
    for together in traits.linear:
        others = [index for index in range(len(op.operands)) if index not in together]
        if not others:
            return together
        if op.info.body:
            return together if _adds_to_zeros(op, traits) else ()
        if traits.looks_up or traits.update is not None:  # the other operands are positions
            return together
        scales = all(
            is_constant(op.operands[index]) or (assume_finite and is_one_number(op.ir.operands[index]))
            for index in others
        )
        if _is_float(op) and scales and not any(is_constant(op.operands[index]) for index in together):
            return together
    return ()


def _adds_to_zeros(op: Op, traits: Traits) -> bool:
    """Whether a single result is a sum that starts from zeros."""
    if len(op.results) != 1 or combiner(op.info) != "add":
        return False
    if traits.update is not None:
        return is_zero(op.ir.operands[0])
    return is_identity(op.ir.operands[1], "add")


def _is_float(op: Op) -> bool:
    """Whether the result is a float.

    Integer division has a remainder, so it is not linear. Moving sums past integer multiplications has no benefit.
    """
    return op.info.results[0].element.startswith(("f", "bf"))
