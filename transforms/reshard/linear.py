"""Operations that may be applied to partial results before these are summed, as f(a) + f(b) = f(a + b)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir

from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.ir.op_info import combiner
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.reducers import is_identity

_IN_ALL = frozenset(f"stablehlo.{name}" for name in ("add", "subtract", "negate", "transpose", "reshape", "slice"))
_BY_A_CONSTANT = frozenset({"stablehlo.multiply", "stablehlo.divide"})
_SUM = "stablehlo.reduce"
_SCATTER = "stablehlo.scatter"
LINEAR = _IN_ALL | _BY_A_CONSTANT | {_SUM, _SCATTER}
"""Operations that can be linear; whether one is depends on its operands."""
NO_FEWER = _BY_A_CONSTANT | frozenset({"stablehlo.negate", "stablehlo.transpose", "stablehlo.reshape"})
"""Those that hand on as many elements of as many values as they are given."""


def linear_operands(op: Op, is_constant: Callable[[int], bool]) -> tuple[int, ...]:
    """The operands that an operation is linear in taken together, none if it is not.

    `is_constant` says whether a value is a constant.
    """
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
    if name == _SCATTER and len(op.results) == 1 and combiner(op.info) == "add":
        return (2,) if _is_zero(op.ir.operands[0]) and _pays_in_loop(op) else ()
    return ()


def _pays_in_loop(op: Op) -> bool:
    """Whether a loop adds the scattered updates to what it carries, and their sum is no larger than all of them.

    The sum is reduced once, after the loop. Anything else would reduce more than the updates.
    """
    uses = list(op.ir.results[0].uses)
    user = uses[0].owner.operation if len(uses) == 1 else None
    loop = op.ir.parent
    if user is None or user.name != "stablehlo.add" or loop is None or loop.operation.name != "stablehlo.while":
        return False
    if not any(isinstance(operand.owner, ir.Block) for operand in user.operands):
        return False
    trips = trip_count(loop.operation)
    return trips is not None and math.prod(op.info.results[0].shape) <= trips * math.prod(op.info.operands[2].shape)


def _is_zero(value: Any) -> bool:
    """Whether a value is known to be zero everywhere."""
    owner = value.owner
    if isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "stablehlo.broadcast_in_dim":
        value = owner.operation.operands[0]
    return is_identity(value, "add")


def _is_float(op: Op) -> bool:
    """Whether the result is a float.

    Integer divisions have a remainder, so they are not linear; integer multiplications may stay where they were
    written.
    """
    return op.info.results[0].element.startswith(("f", "bf"))
