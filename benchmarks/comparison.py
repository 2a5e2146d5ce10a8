"""What two completions of one program disagree on, and what either choice costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import completions
from completions import ARGUMENT, RESULT, Completion, Name
from jaxlib.mlir import ir

from gspmd.collectives import collectives_of
from gspmd.dialect.notation import print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.pass_manager import PassManager
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import source_location


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """Values beside each other on which a peer decides differently.

    `extra_bytes` is what a device sends more in one call of the program if these values alone
    have the peer's shardings.
    """

    names: tuple[Name, ...]
    ours: str
    theirs: str
    where: str
    extra_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A program as gspmd completes it, beside the completion of one peer.

    `values` counts the values that either of the two splits, `differing` those on which they differ, and `regions`
    are where they do, if these are priced. `our_bytes` and `their_bytes` are what a device sends in one call when the
    same partitioner (`gspmd-reshard`, `gspmd-localize`) follows either completion.
    """

    peer: str
    values: int
    differing: int
    regions: tuple[Region, ...]
    our_bytes: int
    their_bytes: int


class Comparer:
    """Compares completions of one annotated module with ours."""

    def __init__(self, text: str) -> None:
        self.module = completions.annotated(text)
        self.ours = completions.of_gspmd(self.module)
        self._completed = completions.copy_of(self.module)
        PassManager(["gspmd-propagate"]).run(self._completed)
        self._graph = _Neighbours(self.module)
        self.our_bytes = self._bytes(self.ours)

    def peers(self) -> Iterator[tuple[str, Completion]]:
        """What the peers complete, those that can read the program."""
        yield "Shardy", completions.of_shardy(self.module)
        found = completions.of_xla(self.module)
        if found is not None:
            yield "XLA", found

    def compare(self, peer: str, theirs: Completion, by_region: bool = True) -> Comparison:
        """Value by value, without constants, of which every use has its own.

        With `by_region`, it prices every region in which they differ, which takes one partitioning each.
        """
        names = [n for n in {**self.ours, **theirs} if n in self._graph.slots]
        differing = [n for n in names if self.ours.get(n) != theirs.get(n)]
        regions = []
        for group in self._graph.connected(differing) if by_region else ():
            swapped = {n: s for n, s in self.ours.items() if n not in group}
            swapped.update({n: theirs[n] for n in group if n in theirs})
            first = min(group, key=self._graph.order)
            extra = self._bytes(swapped) - self.our_bytes
            by_us, by_peer = (_text(completion.get(first)) for completion in (self.ours, theirs))
            regions.append(Region(tuple(sorted(group, key=str)), by_us, by_peer, self._graph.place(first), extra))
        mine = {n: s for n, s in self.ours.items() if n not in self._graph.slots}
        their_bytes = self._bytes({**mine, **{n: s for n, s in theirs.items() if n in self._graph.slots}})
        return Comparison(peer, len(names), len(differing), tuple(regions), self.our_bytes, their_bytes)

    def _bytes(self, completion: Completion) -> int:
        """What a device sends in one call of the program when it is partitioned so."""
        module = completions.copy_of(self._completed)
        completions.write(module, completion)
        mesh = AnnotatedModule(model_of(module)).mesh
        PassManager(["gspmd-reshard", "gspmd-localize", "gspmd-optimize"]).run(module)
        return sum(c.bytes * (c.count or 1) for c in collectives_of(module, mesh))


def _text(sharding: TensorSharding | None) -> str:
    return "replicated" if sharding is None else print_dims(sharding)


class _Neighbours:
    """Which values an operation or an edge of control flow connects. `slots` are those that are compared."""

    def __init__(self, module: ir.Module) -> None:
        program = Program(model_of(module))
        self.slots = {Name(ARGUMENT, i): program.slot_of(v) for i, v in enumerate(program.body.arguments)}
        self._op: dict[int, Any] = {}
        self._edges: list[list[int]] = []
        for op in program.ops:
            if op.results and not completions.is_constant(op.ir):
                number = completions.number_of(op.ir)
                self.slots.update({Name(number, index): slot for index, slot in enumerate(op.result_slots)})
                self._op[number] = op.ir
            if not op.regions:
                self._edges.append(op.operand_slots + op.result_slots)
            pairs = [(op.operand_slots, op.result_slots)] if op.info.name == "stablehlo.while" else []
            pairs += [(region.returned_slots, op.result_slots) for region in op.regions]
            self._edges += [[a, b] for left, right in pairs for a, b in zip(left, right, strict=False)]
        for index, slot in enumerate(program.body.returned_slots):
            beyond = -1 - index
            self.slots[Name(RESULT, index)] = beyond
            self._edges.append([slot, beyond])

    def connected(self, names: Iterable[Name]) -> list[set[Name]]:
        """The names in groups that are beside each other."""
        by_slot: dict[int, set[Name]] = {}
        for name in names:
            by_slot.setdefault(self.slots[name], set()).add(name)
        leader = {slot: slot for slot in by_slot}

        def find(slot: int) -> int:
            while leader[slot] != slot:
                slot = leader[slot]
            return slot

        for edge in self._edges:
            inside = [slot for slot in edge if slot in leader]
            for slot in inside[1:]:
                leader[find(slot)] = find(inside[0])
        groups: dict[int, set[Name]] = {}
        for slot, members in by_slot.items():
            groups.setdefault(find(slot), set()).update(members)
        return list(groups.values())

    @staticmethod
    def order(name: Name) -> tuple[int, int]:
        """Arguments first, then operations, then results."""
        return (name.op if isinstance(name.op, int) else {ARGUMENT: -1, RESULT: 1 << 30}[name.op], name.index)

    def place(self, name: Name) -> str:
        """What makes the value, and the line of the model that it comes from."""
        if not isinstance(name.op, int):
            return f"{name.op} {name.index}"
        op = self._op[name.op]
        where = source_location(op.location)
        line = ""
        if where is not None:
            line = f" (line {where.line})" if where.file == "-" else f" ({Path(where.file).name}:{where.line})"
        return f"{op.name.removeprefix('stablehlo.')}{line}"
