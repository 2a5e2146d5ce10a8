"""Small collectives over the same devices, whose cost is mostly latency, combined into one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator

from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.optimize.concatenated import as_one
from gspmd.transforms.optimize.order_in_block import can_move, in_order, producers_after, used, users_before
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.passes import option

_KINDS = ("all_reduce", "all_gather", "reduce_scatter")
_SHAPING = frozenset(
    {
        "stablehlo.broadcast_in_dim",
        "stablehlo.constant",
        "stablehlo.convert",
        "stablehlo.reshape",
        "stablehlo.slice",
        "stablehlo.transpose",
    }
)


@dataclasses.dataclass(frozen=True)
class CombineCollectives(CollectivePass):
    """Combine small all-reduces, all-gathers or reduce-scatters over the same groups into one.

    None of them depends on another. The combined collective replaces the last of them, and the consumers of its results
    move after it. An all-gather replaces the first of them instead, if the operations that must then move before it
    only change shapes.
    """

    argument = "gspmd-combine-collectives"
    summary = "Combine small collectives over the same devices into one"
    details = ("The same bytes are sent; the values are copied once before and once after.",)

    combine_up_to_bytes: int = option(
        64 << 10, "bytes of all values of a combined collective, before splitting or after gathering"
    )
    combine_each_bytes: int = option(64 << 10, "larger values, before splitting or after gathering, are not combined")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        blocks: dict[Block, dict[Operation, LocalCollective]] = {}
        for collective in program.collectives(*_KINDS):
            if collective.whole_bytes <= self.combine_each_bytes and program.is_along_axes(collective):
                blocks.setdefault(collective.op.neighbours(), {})[collective.op] = collective
        for block, candidates in blocks.items():
            for batch in _Batches(program, candidates, self.combine_up_to_bytes).of(block):
                _combine(program, batch)


def _key(collective: LocalCollective) -> tuple[Hashable, ...] | None:
    """A key that collectives which can be combined share; None for an unknown reduction."""
    combiner = collective.combiner if collective.kind != "all_gather" else ""
    if combiner is None:
        return None
    element = collective.operand.type.element
    return collective.kind, combiner, element, collective.groups


@dataclasses.dataclass(slots=True)
class _Batch:
    """Collectives that can be combined. `after` are the batches, as bits, on which any of them depends.

    `first`: all can move to the first of them. `last`: every consumer of a result can move after the last of them.
    """

    number: int
    first: bool
    last: bool = True
    members: list[LocalCollective] = dataclasses.field(default_factory=list)
    bytes: float = 0.0
    after: int = 0


class _Batches:
    """The batches of one block. No batch may depend on its own results, not even through other batches."""

    def __init__(self, program: DeviceProgram, candidates: dict[Operation, LocalCollective], limit: int) -> None:
        self._program, self._candidates, self._limit = program, candidates, limit
        self._all: list[_Batch] = []
        self._open: dict[tuple[Hashable, ...], _Batch] = {}
        self._needs: dict[Value, int] = {}  # the batches, as bits, from which a value is computed

    def of(self, block: Block) -> list[_Batch]:
        """The batches of more than one, in program order."""
        for op in block:
            needs = 0
            for value in used(op):
                needs |= self._needs.get(value, 0)
            collective = self._candidates.get(op)
            if collective is not None:
                needs = self._add(collective, needs)
            elif needs and not can_move(op):
                self._pin(needs)
            if needs:
                self._needs.update((result, needs) for result in op.results)
        return [batch for batch in self._all if len(batch.members) > 1]

    def _add(self, collective: LocalCollective, needs: int) -> int:
        """Add the collective to a batch; returns the batches from which its result is computed."""
        key = _key(collective)
        if key is None:
            return needs
        batch = self._open.get(key)
        refused = None if batch is None else self._refuses(batch, collective, needs)
        if batch is None or refused:
            if refused:
                self._program.decline(collective.op, "combined with earlier ones", refused)
            batch = self._open[key] = _Batch(len(self._all), collective.kind == "all_gather")
            self._all.append(batch)
        elif batch.first:
            batch.first = _comes_before(collective, batch.members[0].op)
        batch.members.append(collective)
        batch.bytes += collective.whole_bytes
        batch.after |= needs
        return needs | 1 << batch.number

    def _refuses(self, batch: _Batch, collective: LocalCollective, needs: int) -> str:
        """Why the collective, which follows the members, cannot join them; empty if it can."""
        if batch.bytes + collective.whole_bytes > self._limit:
            return f"together they would have more than {self._limit} bytes"
        if self._closure(needs) >> batch.number & 1:
            return "it depends on a result of these"
        if not batch.last and not (batch.first and _comes_before(collective, batch.members[0].op)):
            return "a result of these is used before it"
        return ""

    def _closure(self, needs: int) -> int:
        """These batches and all batches on which they depend."""
        found, new = 0, needs
        while new:
            found |= new
            new = functools.reduce(lambda bits, batch: bits | batch.after, self._of_bits(new), 0) & ~found
        return found

    def _of_bits(self, bits: int) -> Iterator[_Batch]:
        while bits:
            lowest = bits & -bits
            yield self._all[lowest.bit_length() - 1]
            bits ^= lowest

    def _pin(self, needs: int) -> None:
        """Note that an operation that cannot move depends on these batches."""
        for batch in self._of_bits(self._closure(needs)):
            batch.last = False


def _comes_before(collective: LocalCollective, first: Operation) -> bool:
    """Whether the producers of the operand precede `first`, except for changes of shape."""
    return all(op.name in _SHAPING for op in producers_after(collective.operand, first))


def _combine(program: DeviceProgram, batch: _Batch) -> None:
    members = batch.members
    standing = in_order(member.op for member in members)  # making room for other batches may have changed the order
    anchor = standing[0 if batch.first else -1]
    if not _make_room(batch, anchor):
        return
    causes = dict.fromkeys(member.cause.text for member in members)
    made = as_one(program.emitter(anchor), members, Cause("; ".join(causes), anchor.location))
    for member, value in zip(members, made, strict=True):
        member.result.replace_all_uses_with(value)
        member.op.erase()
    program.changed()


def _make_room(batch: _Batch, anchor: Operation) -> bool:
    """Move producers of operands before `anchor`, or consumers of results after it; returns whether all can move."""
    if batch.first:
        moved: dict[Operation, None] = {}
        for member in batch.members:
            moved |= producers_after(member.operand, anchor)
    else:
        moved = users_before([member.result for member in batch.members], anchor)
    operations = in_order(moved)
    if not all(map(can_move, operations)):
        return False
    for op in operations if batch.first else reversed(operations):
        if batch.first:
            op.move(Point.at(anchor))
        else:
            op.move(Point.after(anchor))
    return True
