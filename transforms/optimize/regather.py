"""Gather values again for later uses if keeping them takes too much memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set

import numpy as np
import numpy.typing as npt

from gspmd.transforms.analysis.buffers import Buffers, bytes_of_value
from gspmd.transforms.analysis.memory import moments_of
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import Body, Op, Program
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram
from gspmd.transforms.passes import option, same_option


@dataclasses.dataclass(frozen=True)
class Regather(CollectivePass):
    """Gather values again before later uses if keeping them takes more memory than there is.

    With a target, that is its memory, in which everything else has to fit, too. `keep_gathered_bytes` limits the
    gathered values alone. Where the program is above the limit, values gathered outside of loops are dropped first,
    and of these the ones needed last.
    """

    argument = "gspmd-regather"
    summary = "Gather values again if keeping them for later uses would take too much memory"
    details = ("This sends more and saves memory. It undoes merges of gathers by gspmd-merge-collectives.",)

    keep_gathered_bytes: int = option(
        0,
        "gathered bytes that a device may keep for later uses; 0 for what fits into the memory of the target, if known",
    )
    target: str = same_option(CollectiveMatmul, "target")

    @property
    def counts_layers(self) -> bool:
        return bool(self.keep_gathered_bytes or self.target)  # all that a device holds counts

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        limit = self.keep_gathered_bytes or planned_for(self.target, program.mesh).memory_bytes
        gathers = {gather.op for gather in program.collectives("all_gather")} if limit else set()
        if not gathers:
            return
        gaps = _Gaps(Program(program.module), gathers)
        found = gaps.found()
        if not found:
            return
        held = gaps.kept(found) if self.keep_gathered_bytes else gaps.live()
        for gap in _dropped(found, held, limit):
            gaps.gather_again(program, gap)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """A use of a gathered value by `user`, directly or through views and fused operations.

    `value` is the operand at `position`. `at` is the operation of the gather's own block in which the use is, and None
    for the end of the block.
    """

    user: Operation
    position: int
    value: int
    at: Op | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Gap:
    """A gap between two uses of the gathered value `value`, from moment `begin` to before moment `end`.

    Moments are the indices of operations. `depth` is the number of blocks around the gather, and `later` are the uses
    from the end of the gap on.
    """

    value: int
    bytes: int
    begin: int
    end: int
    depth: int
    later: Sequence[_Use]


class _Gaps:
    """The gaps between the uses of the gathers of a program."""

    def __init__(self, program: Program, gathers: Set[Operation]) -> None:
        self._program = program
        self._gathers = gathers
        self._buffers = Buffers(program)
        self._block: dict[int, Body] = {}  # of gathered values
        self._depth: dict[int, int] = {}
        self._uses: dict[int, list[_Use]] = {}
        self._read(program.body, [], [])

    def _read(self, body: Body, blocks: list[Body], path: list[Op]) -> None:
        """Note gathers and their uses in a block, which is inside of `blocks`, at the operations `path` of these."""
        blocks = [*blocks, body]
        for op in body.ops:
            if self._buffers.is_virtual(op):
                continue
            self._note(op.ir, op.operands, blocks, [*path, op])
            if op.ir in self._gathers:
                self._block[op.results[0]], self._depth[op.results[0]] = body, len(blocks)
                self._uses[op.results[0]] = []
            for region in op.regions:
                self._read(region, blocks, [*path, op])
        self._note(body.terminator, body.returned, blocks, path)

    def _note(self, user: Operation, operands: Sequence[int], blocks: list[Body], path: list[Op]) -> None:
        for position, operand in enumerate(operands):
            for source in self._buffers.sources([operand]):
                if source in self._uses:
                    number = blocks.index(self._block[source])
                    at = path[number] if number < len(path) else None
                    self._uses[source].append(_Use(user, position, operand, at))

    def found(self) -> list[_Gap]:
        """All gaps that hold anything."""
        gaps = []
        for value, uses in self._uses.items():
            size = bytes_of_value(self._program, value)
            for number in range(1, len(uses)):
                last, use = uses[number - 1].at, uses[number].at
                if last is use:
                    continue
                assert last is not None, "only the last use of a value is at the end of its block"
                begin, end = _last(last) + 1, self._moment(value, use)
                if begin < end:
                    gaps.append(_Gap(value, size, begin, end, self._depth[value], uses[number:]))
        return gaps

    def _moment(self, value: int, use: Op | None) -> int:
        return _last(self._block[value].ops[-1]) + 1 if use is None else use.index

    def kept(self, gaps: Sequence[_Gap]) -> npt.NDArray[np.float64]:
        """The gathered bytes that are kept at every moment."""
        held = np.zeros(len(self._program.ops) + 1)
        for gap in gaps:
            held[gap.begin : gap.end] += gap.bytes
        return held

    def live(self) -> npt.NDArray[np.float64]:
        """All live bytes at every moment."""
        held = np.zeros(len(self._program.ops) + 1)
        for moment in moments_of(self._program, self._buffers):
            held[moment.op] = max(held[moment.op], moment.held)
        return held

    def gather_again(self, program: DeviceProgram, gap: _Gap) -> None:
        """Emit a gather for the uses after a gap, behind a barrier that waits for other operands of the first user."""
        gather = self._program.ops[self._program.value_def[gap.value]].ir
        first = gap.later[0].at
        before = self._block[gap.value].terminator if first is None else first.ir
        emit = program.emitter(before, gather.location)
        operands = [gather.operands[0], *self._waited(gap, first)]
        value = emit.ops("stablehlo.optimization_barrier", operands, [value.type for value in operands])[0]
        copy = gather.clone().insert(emit.point)
        copy.operands[0] = value
        copy.attributes["channel_handle"] = emit.next_channel()
        for use in gap.later:
            if use.user.operands[use.position] == self._program.value_ir[use.value]:
                use.user.operands[use.position] = self._from_copy(use.value, gap.value, copy.results[0], use.user)
        program.changed()

    def _waited(self, gap: _Gap, first: Op | None) -> list[Value]:
        """The last value in memory that the block computes for the first user; none if there is none."""
        block, program = self._block[gap.value], self._program
        others = [
            value
            for value in self._buffers.sources(block.returned if first is None else first.operands)
            if value != gap.value and program.value_def[value] >= 0 and program.value_ir[value].block is block.ir
        ]
        return [program.value_ir[max(others, key=program.value_def.__getitem__)]] if others else []

    def _from_copy(self, value: int, gathered: int, copy: Value, user: Operation) -> Value:
        """A value that views and fused operations make of the gathered value, made of its copy before a user."""
        if value == gathered:
            return copy
        made = self._program.value_ir[value]
        if gathered not in self._buffers.sources([value]):
            return made
        op = self._program.ops[self._program.value_def[value]]
        operands = [self._from_copy(operand, gathered, copy, user) for operand in op.operands]
        clone = op.ir.clone(dict(zip(op.ir.operands, operands, strict=True))).insert(Point.at(user))
        return clone.results[op.results.index(value)]


def _last(op: Op) -> int:
    """The largest index in an operation and its regions."""
    inner = [_last(body.ops[-1]) for body in op.regions if body.ops]
    return max([op.index, *inner])


def _dropped(gaps: Sequence[_Gap], held: npt.NDArray[np.float64], limit: float) -> list[_Gap]:
    """The gaps in which values are not kept, so that as little as possible is held above the limit."""
    order = sorted(gaps, key=lambda gap: (gap.depth, -gap.end))
    begins, ends = (np.array([getattr(gap, name) for gap in order]) for name in ("begin", "end"))
    kept = np.ones(len(order), bool)
    for moment in range(len(held)):
        while held[moment] > limit:
            over = np.flatnonzero(kept & (begins <= moment) & (moment < ends))
            if not over.size:
                break
            gap = order[over[0]]
            kept[over[0]] = False
            held[gap.begin : gap.end] -= gap.bytes
    # From the last gap of a gather to its first, because a gap changes only the uses after it.
    return sorted((gap for gap, keeps in zip(order, kept, strict=True) if not keeps), key=lambda gap: -gap.end)
