"""Move permutes from the end of a loop's body to its start, where they overlap with independent compute."""

from __future__ import annotations

import dataclasses

import numpy as np

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective


@dataclasses.dataclass(frozen=True)
class MovePermutes(CollectivePass):
    """Permute a loop carry at the start of the next iteration instead of at the end of this one.

    Before the loop, an additional permute applies the inverse to the initial value. No permute is added after the loop,
    so the carry must not be used there.
    """

    argument = "gspmd-move-permutes"
    summary = "Move permutes from the end of a loop's body to its start"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        permutes = {permute.op: permute for permute in program.collectives("collective_permute")}
        for loop in program.loops() if permutes else ():
            last = loop.regions[1].terminator
            for index, value in enumerate(last.operands):
                made = value.op
                permute = permutes.get(made) if made is not None else None
                if made is None or permute is None or made.block != last.block or value.only_user is not last:
                    continue
                why = _reason_against(program, loop, index, permute)
                if why:
                    program.decline(permute.op, "moved to the start of the loop", why)
                else:
                    _move(program, loop, last, index, permute)


def _reason_against(program: DeviceProgram, loop: Operation, index: int, permute: LocalCollective) -> str:
    devices = program.mesh.size if program.mesh else 0
    if loop.results[index].is_used:
        return "the permuted value is used after the loop"
    if loop.regions[0].arguments[index].is_used:
        return "the loop's condition depends on it"
    if len(permute.pairs) < devices:
        return "some devices receive nothing, so that it has no inverse before the loop"
    if len(permute.result.uses()) > 1:
        return "the loop carries its result more than once"
    return ""


def _move(program: DeviceProgram, loop: Operation, last: Operation, index: int, permute: LocalCollective) -> None:
    pairs = np.array(permute.pairs, np.int64)
    emit = program.emitter(loop, permute.op.location)
    backwards = pairs[:, ::-1][pairs[:, 1].argsort()]
    loop.operands[index] = emit.collective_permute(loop.operands[index], backwards, permute.axes, permute.cause)
    body = loop.regions[1]
    argument = body.arguments[index]
    emit = program.emitter(next(iter(body)), permute.op.location)
    moved = emit.collective_permute(argument, pairs, permute.axes, permute.cause)
    argument.replace_all_uses_with(moved, [moved.op])
    last.operands[index] = permute.operand
    permute.op.erase()
    program.changed()
