"""Gathered values that are not kept for later uses, but gathered again, where keeping them takes too much memory."""

from __future__ import annotations

import dataclasses

from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.passes import option


@dataclasses.dataclass(frozen=True)
class Regather(CollectivePass):
    """Gather again, where it is used later, what would take too much memory to keep until then.

    Where the results of gathers that a block keeps between two uses are more than `keep_gathered_bytes`, those needed
    last are not kept.
    """

    argument = "gspmd-regather"
    summary = "Gather again what would take too much memory to keep for later uses"
    details = ("More is sent, and less is held: gathers move back and forth between this and gspmd-merge-collectives.",)

    keep_gathered_bytes: int = option(0, "gathered bytes that a device may keep for later uses; 0 for any number")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None or not self.keep_gathered_bytes:
            return
        blocks: list[tuple[Block, list[LocalCollective]]] = []
        for gather in program.collectives("all_gather"):
            known = next((members for block, members in blocks if block == gather.op.block), None)
            if known is None:
                blocks.append((gather.op.neighbours(), [gather]))
            else:
                known.append(gather)
        for block, gathers in blocks:
            for gap in _dropped(_gaps(block, gathers), self.keep_gathered_bytes):
                _gather_again(program, gap)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Gap:
    """A gather's result, of `bytes`, is not used after operation `begin` of the block and before `end`.

    `later` are the uses from there on, each an operation and the number of an operand; `user` is operation `end`, the
    last of whose other operands is `waited`, None if there is none.
    """

    gather: LocalCollective
    bytes: float
    begin: int
    end: int
    user: Operation
    later: tuple[tuple[Operation, int], ...]
    waited: Value | None


def _gaps(block: Block, gathers: list[LocalCollective]) -> list[_Gap]:
    """The gathered values that can be reused, in program order."""
    operations = list(block)
    places = {value: place for place, op in enumerate(operations) for value in op.results}
    found = []
    for gather in gathers:
        uses = []
        for use in gather.result.uses():
            op = use.op
            uses.append((_place_of(op.within(block), operations, places), op, use.position))
        uses.sort(key=lambda use: (use[0], use[2]))
        size = bytes_of(gather.result.type)
        for index in range(1, len(uses)):
            begin, end = uses[index - 1][0], uses[index][0]
            if end > begin + 1:
                later = tuple((op, number) for _, op, number in uses[index:])
                others = [value for value in operations[end].operands if value != gather.result and value in places]
                waited = max(others, key=lambda value: places[value], default=None)
                found.append(_Gap(gather, size, begin, end, operations[end], later, waited))
    return sorted(found, key=lambda gap: gap.begin)


def _place_of(op: Operation, operations: list[Operation], places: dict[Value, int]) -> int:
    """The position of an operation in its block."""
    if len(op.results):
        return places[op.results[0]]
    return next(place for place, other in enumerate(operations) if other == op)


def _dropped(gaps: list[_Gap], allowed_bytes: int) -> list[_Gap]:
    """The gaps over which values are not kept: of those open at once the ones that end last, as far as it takes."""
    dropped: list[_Gap] = []
    kept: list[_Gap] = []
    for gap in gaps:
        kept = [*(other for other in kept if other.end > gap.begin), gap]
        kept.sort(key=lambda other: other.end)
        while sum(other.bytes for other in kept) > allowed_bytes:
            dropped.append(kept.pop())
    # From the last gap of a gather to its first: each leaves what is used before to those before it.
    return sorted(dropped, key=lambda gap: -gap.end)


def _gather_again(program: DeviceProgram, gap: _Gap) -> None:
    """A gather of its own for the uses after a gap, held back until the operation there has its other operands."""
    emit = program.emitter(gap.user, gap.gather.op.location)
    held = [gap.gather.operand, *([] if gap.waited is None else [gap.waited])]
    types = [value.type for value in held]
    value = emit.ops("stablehlo.optimization_barrier", held, types)[0]
    copy = gap.gather.op.clone().insert(emit.point)
    copy.operands[0] = value
    copy.attributes["channel_handle"] = emit.next_channel()
    for op, number in gap.later:
        if op.operands[number] == gap.gather.result:
            op.operands[number] = copy.results[0]
    program.changed()
