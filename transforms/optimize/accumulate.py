"""Sums that a loop accumulates, reduced once after the loop: the gradients of microbatches, above all."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.notation import print_axes
from gspmd.dialect.own_attributes import KEPT_BY_FIRST
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.types import element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.optimize.delay import is_linear
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective, splat_number
from gspmd.transforms.parsing.attribute_text import text_of

_MAX_STEPS = 64  # operations looked at for one value that a loop carries
_WHAT = "moved behind the loop"


@dataclasses.dataclass(frozen=True)
class ReduceAfterLoops(CollectivePass):
    """Reduce once, after a loop, what the loop adds up.

    A loop that adds reduced values to what it carries adds them unreduced instead; their sum is reduced after it. A
    sum that is only taken apart again, of a loop or not, is left unreduced.
    """

    argument = "gspmd-reduce-after-loops"
    summary = "Reduce what a loop accumulates once, after the loop"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None or not program.collectives("all_reduce"):
            return
        for loop in reversed(program.loops()):  # what an inner loop leaves may be accumulated by the outer one
            last = loop.regions[1].terminator
            for index, value in enumerate(last.operands):
                reductions = _addends(program, loop, last, index, value)
                if reductions:
                    _move(program, loop, index, reductions)
        for op in program.kept_by_first():
            _leave_apart(program, op, text_of(op.attributes[KEPT_BY_FIRST]))


def _leave_apart(program: DeviceProgram, op: Operation, axes: str) -> None:
    """Where the first device along axes keeps a sum over these, and the others zeros, let each keep its summand."""
    _, kept, _ = op.operands
    reduction = None if kept.op is None else _reduction_of(program, kept.op, op)
    if reduction is not None and program.mesh is not None and print_axes(reduction.axes, program.mesh) == axes:
        reduction.result.replace_all_uses_with(reduction.operand)
        reduction.erase()
        op.replace([kept])
        program.changed()


def _addends(
    program: DeviceProgram, loop: Operation, last: Operation, index: int, value: Value
) -> list[LocalCollective]:
    """The reductions whose sum a loop adds to what it carries there; none if it does something else."""
    carried = loop.regions[1].arguments[index]
    found: list[LocalCollective] = []
    pending, count, seen_carried = [(value, last, False)], 0, 0
    while pending:
        current, user, negated = pending.pop()
        count += 1
        if current == carried:
            seen_carried += 1
            if negated:
                return []
            continue
        op = current.op
        if op is None or op.block != last.block or count > _MAX_STEPS or not current.is_used_once:
            return []
        if traits_of(op.name).is_sum:
            pending.append((op.operands[0], op, negated))
            pending.append((op.operands[1], op, negated != (op.name == "stablehlo.subtract")))
            continue
        reduction = _reduction_of(program, op, user)
        if reduction is None:
            return []
        found.append(reduction)
    why = _reason_against(loop, index, carried, found) if seen_carried == 1 and found else ""
    if why:
        program.decline(found[0].op, _WHAT, why)
    return [] if why or seen_carried != 1 else found


def _reduction_of(program: DeviceProgram, op: Operation, user: Operation) -> LocalCollective | None:
    """The reduction that the operation's result is a linear image of."""
    for _ in range(_MAX_STEPS):
        if op.results[0].only_user is not user:
            return None
        if op.name == "stablehlo.all_reduce" and len(op.operands) == 1:
            reduction = LocalCollective(op, "all_reduce", program.mesh)
            return reduction if reduction.combiner == "add" and reduction.axes else None
        operand = next((o for o in op.operands if is_linear(op, o) or _is_widened(op)), None)
        before = None if operand is None else operand.op
        if before is None or before.block != op.block:
            return None
        op, user = before, op
    return None


def _is_widened(op: Operation) -> bool:
    """Whether a float becomes a wider one, which rounds sums less."""
    if op.name != "stablehlo.convert":
        return False
    before, after = op.operands[0].type.element, op.results[0].type.element
    floats = before.startswith(("f", "bf")) and after.startswith("f")
    return floats and element_bytes(after) > element_bytes(before)


def _reason_against(loop: Operation, index: int, carried: Value, found: list[LocalCollective]) -> str:
    if len(carried.uses()) > 1 or loop.regions[0].arguments[index].is_used:
        return "the sum is used in the loop"
    if any(reduction.groups != found[0].groups for reduction in found):
        return "what is added is reduced over different axes"
    return ""


def _move(program: DeviceProgram, loop: Operation, index: int, reductions: list[LocalCollective]) -> None:
    emit = program.emitter(loop)
    initial, total = loop.operands[index], loop.results[index]
    loop.operands[index] = emit.constant(initial.type, 0)
    first = reductions[0]
    emit.point = Point.after(loop)
    value = emit.all_reduce(total, first.axes, "add", first.cause)
    reduced = value.op
    if splat_number(initial) != 0:
        value = emit.binary("add", initial, value)
    total.replace_all_uses_with(value, [reduced])
    for reduction in reductions:
        reduction.result.replace_all_uses_with(reduction.operand)
        reduction.erase()
    program.changed()
