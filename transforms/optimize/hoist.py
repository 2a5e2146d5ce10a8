"""Collectives that give the same in every iteration of a loop, moved before it."""

from __future__ import annotations

import dataclasses

from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import BARRIER
from gspmd.transforms.ops import traits_of, traits_of_op
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.passes import option

_MAX_CHAIN = 64  # operations that are moved along with a collective


@dataclasses.dataclass(frozen=True)
class HoistCollectives(CollectivePass):
    """Run collectives of loop-invariant values once, before the loop.

    Their results then live as long as the loop; `hoist_max_bytes` bounds how much that is for one loop.
    """

    argument = "gspmd-hoist-collectives"
    summary = "Move collectives of loop-invariant values before the loop"

    hoist_max_bytes: int = option(64 << 20, "bytes of results a device may hold during one loop for this")

    def apply(self, program: DeviceProgram) -> None:
        loops = program.loops()
        if not loops:
            return
        inside: dict[Operation, list[LocalCollective]] = {loop: [] for loop in loops}
        for collective in program.collectives():
            loop = collective.op.parent
            if loop is not None and loop in inside:
                inside[loop].append(collective)
        for loop in reversed(loops):  # what leaves an inner loop may leave the outer one
            moved = _Loop(program, loop).hoist(inside[loop], self.hoist_max_bytes)
            around = loop.parent
            if around in inside:
                inside[around] += moved


def _only_forms(name: str) -> bool:
    """Whether an operation gives all elements of its operand another shape or type."""
    return traits_of(name).rearranges or name == "stablehlo.convert"


def _may_move(op: Operation) -> bool:
    """Whether an operation may run before the loop with the collective; a barrier says that it is to stay."""
    return traits_of_op(op).pure and op.name != BARRIER and not op.regions


class _Loop:
    """A while loop, and which values its body and condition are given unchanged in every iteration."""

    def __init__(self, program: DeviceProgram, loop: Operation) -> None:
        self._program = program
        self._loop = loop
        self._blocks = list(loop.regions)

    def hoist(self, collectives: list[LocalCollective], max_bytes: int) -> list[LocalCollective]:
        if not collectives:
            return []
        moved: list[LocalCollective] = []
        held = 0.0
        for collective in collectives:
            chain = self._chain(collective.op)
            if isinstance(chain, str):
                if chain:
                    self._program.decline(collective.op, "moved out of the loop", chain)
                continue
            size = bytes_of(collective.result.type)
            if held + size > max_bytes:
                why = f"its result of {size:.0f} bytes would be held during the loop, and {max_bytes} are allowed"
                self._program.decline(collective.op, "moved out of the loop", why)
                continue
            held += size
            for op in chain:
                self._move(op)
            moved.append(collective)
            self._program.changed()
        return moved

    def _chain(self, op: Operation) -> list[Operation] | str:
        """The operations inside the loop that the collective needs, itself last, or why one has to stay."""
        chain: dict[Operation, None] = {}
        state: dict[Operation, bool] = {}  # False: being looked at
        stack = [op]
        while stack:
            top = stack[-1]
            if top in chain:
                stack.pop()
                continue
            if top in state:
                chain[top] = None
                stack.pop()
                continue
            state[top] = False
            if top != op and (not _may_move(top) or len(state) > _MAX_CHAIN):
                return ""
            for operand in top.operands:
                operand = self._program.before_loop(operand)
                made = operand.op
                if made is None:
                    if operand.owner in self._blocks:
                        return self._varying(op)
                elif made.block in self._blocks and made not in chain:
                    stack.append(made)
        return list(chain)

    def _varying(self, op: Operation) -> str:
        """What is said of a collective that depends on the iteration."""
        source = op.operands[0].op
        while source is not None and _only_forms(source.name):
            source = source.operands[0].op
        if op.name != "stablehlo.all_gather" or source is None or not traits_of(source.name).looks_up:
            return ""
        table = source.operands[0]
        if not self._inside(self._program.before_loop(table)):
            return "it gathers a slice that every iteration takes anew, so that only one is held at a time"
        return ""

    def _inside(self, value: Value) -> bool:
        made = value.op
        block = value.owner if made is None else made.block
        return block in self._blocks

    def _move(self, op: Operation) -> None:
        for index, operand in enumerate(op.operands):
            before = self._program.before_loop(operand)
            if before is not operand and operand.op is None and operand.owner in self._blocks:
                op.operands[index] = before
        op.move(Point.at(self._loop))
