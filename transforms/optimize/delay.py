"""Reductions moved behind sums and linear operations, so that what is added is reduced once."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import canonical, overlap
from gspmd.transforms.optimize.program import (
    Collective,
    CollectivePass,
    DeviceProgram,
    only_user,
    owner,
    result_of,
    splat_number,
    users,
)
from gspmd.transforms.support.builder import read_type

SUMS = ("stablehlo.add", "stablehlo.subtract")
_MOVES = ("stablehlo.transpose", "stablehlo.reshape")
_STEPS = 32  # operations that are looked through behind a reduction


@dataclasses.dataclass(frozen=True)
class DelayReductions(CollectivePass):
    """Where sums over the same devices are added, behind operations that are linear in them, the addends are added

    first and reduced once. A sum that is summed over other axes is reduced over both at once.
    """

    argument = "gspmd-delay-reductions"
    summary = "Reduce sums of reductions, and reductions of reductions, once"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        work = program.collectives("all_reduce")
        known = {reduce.result: reduce for reduce in work}  # by value: what operations hash to changes with them
        while work:
            reduce = work.pop()
            if not reduce.is_gone:
                made = _delay(program, reduce, known)
                if made is not None:
                    known[made.result] = made
                    work.append(made)


def _delay(program: DeviceProgram, reduce: Collective, known: dict[Any, Collective]) -> Collective | None:
    """The reduction that takes the place of this one and of another, if there is one."""
    path, end = _linear_path(reduce)
    if end is None or (end.name not in SUMS and result_of(end) not in known):
        return None
    if end.block != reduce.op.block or reduce.combiner != "add" or not reduce.axes:
        return None
    if end.name in SUMS:
        return _reduce_sum(program, reduce, path, end, known)
    outer = known[result_of(end)]
    return _reduce_both(program, reduce, outer, known) if outer.combiner == "add" else None


def _linear_path(reduce: Collective) -> tuple[list[Any], Any]:
    """Linear operations that alone use the reduction, and what uses the last of them."""
    path: list[Any] = []
    value = reduce.result
    while len(path) < _STEPS:
        following = only_user(value)
        if following is None or not is_linear(following, value):
            return path, following
        path.append(following)
        value = following.results[0]
    return path, None


def is_linear(op: Any, value: Any) -> bool:
    """Whether a unary operation, or a product with a finite constant, gives the sum of its results on addends."""
    name = op.name
    if name in _MOVES or name == "stablehlo.negate":
        return True
    floats = read_type(value).element.startswith(("f", "bf"))
    if name == "stablehlo.multiply":
        factor = op.operands[1] if op.operands[0] == value else op.operands[0]
        return factor != value and _is_finite_splat(factor)
    return name == "stablehlo.divide" and floats and op.operands[0] == value and _is_finite_splat(op.operands[1])


def _is_finite_splat(value: Any) -> bool:
    number = splat_number(value)
    return number is not None and math.isfinite(number) and number != 0


def _reduce_sum(
    program: DeviceProgram, reduce: Collective, path: list[Any], end: Any, known: dict[Any, Collective]
) -> Collective | None:
    left, right = end.operands
    mine = path[-1].results[0] if path else reduce.result
    if left == right:
        return None  # one reduction already
    other = _reduction_before(right if left == mine else left, known)
    if other is None:
        return None
    if other.groups != reduce.groups or other.combiner != "add":
        program.decline(end, "reduced once", "its operands are reduced over different axes")
        return None
    shared = _shared_between(other, end)
    if shared:
        program.decline(end, "reduced once", shared)
        return None
    for collective in (reduce, other):
        collective.result.replace_all_uses_with(collective.operand)
    value = _reduce_after(program, end, reduce)
    for collective in (reduce, other):
        del known[collective.result]
        collective.erase()
    program.changed()
    return value


def _reduction_before(value: Any, known: dict[Any, Collective]) -> Collective | None:
    """The reduction that the value is a linear image of."""
    for _ in range(_STEPS):
        op = owner(value)
        if op is None:
            return None
        if value in known:
            return known[value]
        operand = next((o for o in op.operands if is_linear(op, o)), None)
        if operand is None:
            return None
        value = operand
    return None


def _shared_between(other: Collective, end: Any) -> str:
    """Why the other reduction is needed elsewhere; nothing if it is not."""
    path, found = _linear_path(other)
    if found is not None and found == end:
        return "" if other.op.block == end.block else "one operand is reduced outside the loop"
    where = path[-1].results[0] if path else other.result
    count = len(users(where))
    return f"one of its operands has {count} users" if count > 1 else "its operands are reduced in different blocks"


def _reduce_after(program: DeviceProgram, end: Any, reduce: Collective) -> Collective:
    """Reduce what `end` computes from addends."""
    emit = program.emitter(end)
    emit.point = ir.InsertionPoint.after(end)
    partial = end.results[0]
    value = emit.all_reduce(partial, reduce.axes, "add", reduce.cause)
    partial.replace_all_uses_except(value, [owner(value)])
    return Collective(owner(value), "all_reduce", program.mesh)


def _reduce_both(
    program: DeviceProgram, reduce: Collective, outer: Collective, known: dict[Any, Collective]
) -> Collective | None:
    """One reduction over the axes of both; the outer one's other operands are the same everywhere."""
    if overlap(reduce.axes, outer.axes) or not (program.is_along_axes(reduce) and program.is_along_axes(outer)):
        return None
    assert program.mesh is not None
    axes = canonical(program.mesh.sorted(reduce.axes + outer.axes))
    reduce.result.replace_all_uses_with(reduce.operand)
    emit = program.emitter(outer.op)
    value = emit.all_reduce(outer.operand, axes, "add", outer.cause)
    outer.result.replace_all_uses_with(value)
    for collective in (reduce, outer):
        del known[collective.result]
        collective.erase()
    program.changed()
    return Collective(owner(value), "all_reduce", program.mesh)
