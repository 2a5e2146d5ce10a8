"""Small collectives over the same devices combined into one, because latency is what they cost."""

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

    None of them needs another's result. The combined one stands where the last of them stood, and what uses its results
    stands after it. An all-gather stands where the first of them stood, if all that must then come before it are
    changes of shape.
    """

    argument = "gspmd-combine-collectives"
    summary = "Combine small collectives over the same devices into one"
    details = ("What is sent stays the same; the values are copied once more before and after.",)

    combine_up_to_bytes: int = option(64 << 10, "bytes of all values of a combined collective together, when whole")
    combine_each_bytes: int = option(64 << 10, "larger values, when whole, are left alone")
    combine_at_least: int = option(2, "fewer small collectives in a block are left alone")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        blocks: dict[Block, dict[Operation, LocalCollective]] = {}
        for collective in program.collectives(*_KINDS):
            if collective.whole_bytes <= self.combine_each_bytes and program.is_along_axes(collective):
                blocks.setdefault(collective.op.neighbours(), {})[collective.op] = collective
        for block, candidates in blocks.items():
            if len(candidates) >= self.combine_at_least:
                for batch in _Batches(program, candidates, self.combine_up_to_bytes).of(block):
                    _combine(program, batch)


def _key(collective: LocalCollective) -> tuple[Hashable, ...] | None:
    """The key that combinable collectives share; None for a reduction by an unknown function."""
    combiner = collective.combiner if collective.kind != "all_gather" else ""
    if combiner is None:
        return None
    element = collective.operand.type.element
    return collective.kind, combiner, element, collective.groups


@dataclasses.dataclass(slots=True)
class _Batch:
    """Collectives that can be one. `after` are the batches, as bits, whose results any of them needs.

    `first`: all can stand where the first of them stands. `last`: nothing that has to stay where it is uses a result.
    """

    number: int
    first: bool
    last: bool = True
    members: list[LocalCollective] = dataclasses.field(default_factory=list)
    bytes: float = 0.0
    after: int = 0


class _Batches:
    """The batches of collectives in a block that can be combined: none depends on another of its batch."""

    def __init__(self, program: DeviceProgram, candidates: dict[Operation, LocalCollective], limit: int) -> None:
        self._program, self._candidates, self._limit = program, candidates, limit
        self._all: list[_Batch] = []
        self._open: dict[tuple[Hashable, ...], _Batch] = {}
        self._needs: dict[Value, int] = {}  # the batches, as bits, that a value is computed from

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
        """Put the collective into a batch, and give what its result needs."""
        key = _key(collective)
        if key is None:
            return needs
        batch = self._open.get(key)
        refused = None if batch is None else self._refuses(batch, collective, needs)
        if batch is None or refused:
            if refused:
                self._program.decline(collective.op, "combined with the ones before", refused)
            batch = self._open[key] = _Batch(len(self._all), collective.kind == "all_gather")
            self._all.append(batch)
        elif batch.first:
            batch.first = _comes_before(collective, batch.members[0].op)
        batch.members.append(collective)
        batch.bytes += collective.whole_bytes
        batch.after |= needs
        return needs | 1 << batch.number

    def _refuses(self, batch: _Batch, collective: LocalCollective, needs: int) -> str:
        """Why the collective, which stands after the members, cannot join them; empty if it can."""
        if batch.bytes + collective.whole_bytes > self._limit:
            return f"together they would have more than {self._limit} bytes"
        if self._closure(needs) >> batch.number & 1:
            return "it needs a result of these"
        if not batch.last and not (batch.first and _comes_before(collective, batch.members[0].op)):
            return "a result of these is used before"
        return ""

    def _closure(self, needs: int) -> int:
        """These batches and all whose results they need."""
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
        """Something that stays where it is depends on these batches."""
        for batch in self._of_bits(self._closure(needs)):
            batch.last = False


def _comes_before(collective: LocalCollective, first: Operation) -> bool:
    """Whether all that makes the operand, except changes of shape, stands before `first`."""
    return all(op.name in _SHAPING for op in producers_after(collective.operand, first))


def _combine(program: DeviceProgram, batch: _Batch) -> None:
    members = batch.members
    standing = in_order(member.op for member in members)  # which making room for others may have changed
    place = standing[0 if batch.first else -1]
    if not _make_room(batch, place):
        return
    causes = dict.fromkeys(member.cause.text for member in members)
    made = as_one(program.emitter(place), members, Cause("; ".join(causes), place.location))
    for member, value in zip(members, made, strict=True):
        member.result.replace_all_uses_with(value)
        member.op.erase()
    program.changed()


def _make_room(batch: _Batch, place: Operation) -> bool:
    """Move what makes the operands before `place`, or what uses the results after it; whether all can be moved."""
    if batch.first:
        moved: dict[Operation, None] = {}
        for member in batch.members:
            moved |= producers_after(member.operand, place)
    else:
        moved = users_before([member.result for member in batch.members], place)
    operations = in_order(moved)
    if not all(map(can_move, operations)):
        return False
    for op in operations if batch.first else reversed(operations):
        if batch.first:
            op.move(Point.at(place))
        else:
            op.move(Point.after(place))
    return True
