"""Operations that may be applied to partial results before these are summed, as f(a) + f(b) = f(a + b)."""

from __future__ import annotations

from collections.abc import Callable

from gspmd.transforms.support.identity import is_identity
from gspmd.transforms.support.op_info import combiner
from gspmd.transforms.support.program import Op

_IN_ALL = frozenset(f"stablehlo.{name}" for name in ("add", "subtract", "negate", "transpose", "reshape", "slice"))
_BY_A_CONSTANT = frozenset({"stablehlo.multiply", "stablehlo.divide"})
_SUM = "stablehlo.reduce"
LINEAR = _IN_ALL | _BY_A_CONSTANT | {_SUM}
"""Operations that can be linear; whether one is depends on its operands."""


def linear_operands(op: Op, is_constant: Callable[[int], bool]) -> tuple[int, ...]:
    """The operands that an operation is linear in taken together, none if it is not; `is_constant` tells of a value."""
    name = op.info.name
    if name in _IN_ALL:
        return tuple(range(len(op.operands)))
    if name in _BY_A_CONSTANT and _is_float(op):
        constant = [is_constant(value) for value in op.operands]
        if constant == [False, True]:
            return (0,)
        return (1,) if constant == [True, False] and name == "stablehlo.multiply" else ()
    if name == _SUM and len(op.results) == 1 and combiner(op.info) == "add":
        return (0,) if is_identity(op.ir.operands[1], "add") else ()
    return ()


def _is_float(op: Op) -> bool:
    """Whole numbers are divided with a remainder, and what multiplies them may be left to where it was written."""
    return op.info.results[0].element.startswith(("f", "bf"))
