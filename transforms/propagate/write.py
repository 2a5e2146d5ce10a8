"""Write the solution into the IR."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.notation import print_dim, print_dims
from gspmd.dialect.own_attributes import GIVEN
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.manual import ManualRegion
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import CONSTRAINT, MANUAL, Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.propagate.graph import Graph
from gspmd.transforms.propagate.solver import Solver


@dataclasses.dataclass(frozen=True, slots=True)
class LostSplit:
    """A value of `op`, or an argument or result of @main, that is split less than annotated or derived."""

    op: Operation
    why: str


def settle(annotated: AnnotatedProgram, graph: Graph, solver: Solver) -> tuple[LostSplit, ...]:
    """Set the slots that are not solved for, and make values that cross into manual computations even.

    Slots with a leader, and arguments of manual computations, get the sharding of these. Returns the annotations that
    are lost by that, or to earlier priorities.
    """
    losses = _lost_annotations(annotated, graph, solver)

    def cut(region: ManualRegion, slot: int, op: Op, what: str) -> TensorSharding:
        found = solver.interner.values[solver.state[slot]]
        even = region.even(found, graph.slot_types[slot].shape)
        solver.state[slot] = solver.interner(even)
        if even.dim_axes() != found.dim_axes():
            shape = list(graph.slot_types[slot].shape)
            wanted = print_dims(found.closed())
            why = f"{what} of shape {shape} is split as {print_dims(even)}, as {wanted} would need padding"
            losses.append(LostSplit(op.ir, why))
        return even

    for slot, leader in graph.leaders.items():
        solver.state[slot] = solver.state[leader]
    for index, entries in graph.entry_slots.items():
        op = annotated.program.ops[index]
        region = annotated.region(op)
        for number, (argument, entry) in enumerate(zip(op.regions[0].arguments, entries, strict=True)):
            inside = region.inside(cut(region, entry, op, f"operand {number}"))
            solver.state[annotated.program.slot_of(argument)] = solver.interner(inside)
        for number, slot in enumerate(op.result_slots):
            cut(region, slot, op, f"result {number}")
    return tuple(losses)


def _lost_annotations(annotated: AnnotatedProgram, graph: Graph, solver: Solver) -> list[LostSplit]:
    if not solver.lost:
        return []
    program = annotated.program
    places: dict[int, tuple[Operation, str]] = {
        program.slot_of(value): (program.function, f"argument {number}")
        for number, value in enumerate(program.body.arguments)
    }
    places.update({slot: (program.function, f"result {number}") for number, slot in enumerate(graph.result_slots)})
    for op in program.ops:
        for number, slot in enumerate(op.result_slots):
            places.setdefault(slot, (op.ir, f"result {number}"))
    for index, entries in graph.entry_slots.items():
        op = program.ops[index]
        for number, (entry, argument) in enumerate(zip(entries, op.regions[0].arguments, strict=True)):
            for slot in (entry, program.slot_of(argument)):
                places.setdefault(slot, (op.ir, f"operand {number}"))
    losses = []
    for slot, dim in solver.lost:
        place, what = places[slot]
        asked = solver.annotated[slot].dims[dim]
        losses.append(
            LostSplit(
                place,
                f"{what}: dimension {dim}, annotated {print_dim(asked, annotated.mesh)}, is not split: "
                "an earlier priority has put these axes on another dimension",
            )
        )
    return losses


def write_shardings(annotated: AnnotatedProgram, graph: Graph, solver: Solver) -> None:
    """Put a closed `sdy.sharding` on every operation with a split result and on @main's signature.

    Uses of one constant with different shardings get a copy each.
    """
    program, codec = annotated.program, annotated.codec
    closed = [s.closed() for s in solver.interner.values]
    state = solver.state
    for op in program.ops:
        if op.splittable:
            continue
        numbers = [state[s] for s in op.result_slots]
        shardings = tuple([closed[n] for n in numbers])
        if op.info.name == MANUAL:
            entries = [state[s] for s in graph.entry_slots[op.index]]
            op.ir.attributes["in_shardings"] = codec.write_list(tuple([closed[n] for n in entries]))
            op.ir.attributes["out_shardings"] = codec.write_list(shardings)
            continue
        if op.info.name == CONSTRAINT:
            given = op.ir.attributes["sharding"]
            if any(dim.is_open for dim in codec.read(given).dims):
                op.ir.attributes[GIVEN] = given
        annotated.set_of_op(op, shardings)
    _Splitter(annotated, solver, closed).run()
    annotated.set_free_ends()
    annotated.set_signature(*boundary_shardings(annotated, graph, solver))


def boundary_shardings(
    annotated: AnnotatedProgram, graph: Graph, solver: Solver
) -> tuple[list[TensorSharding], list[TensorSharding]]:
    """The shardings of @main's arguments and results, which may be coarser than those inside: see `_boundary`."""
    program = annotated.program

    def cut(slots: list[int], given: list[TensorSharding | None]) -> list[TensorSharding]:
        return [
            _boundary(solver.interner.values[solver.state[s]].closed(), asked, graph.slot_types[s])
            for s, asked in zip(slots, given, strict=True)
        ]

    arguments = cut([program.slot_of(v) for v in program.body.arguments], annotated.arguments)
    return arguments, cut(graph.result_slots, annotated.results)


def _boundary(chosen: TensorSharding, given: TensorSharding | None, type_: TensorType) -> TensorSharding:
    """The sharding at the program's boundary: an annotation is kept, a derived one is made even."""
    even = chosen.evenly(type_.shape)
    if even is chosen or given is None:
        return even
    ends = zip(chosen.dim_axes(), given.dim_axes(), even.dim_axes(), strict=True)
    return chosen.with_axes(tuple(axes if axes == asked else cut for axes, asked, cut in ends))


class _Splitter:
    """Gives constants the shardings of their uses."""

    def __init__(self, annotated: AnnotatedProgram, solver: Solver, closed: list[TensorSharding]) -> None:
        self.program = annotated.program
        self.codec = annotated.codec
        self.state = solver.state
        self.closed = closed
        self.made: dict[tuple[int, int], Value | None] = {}
        self.taken: set[int] = set()

    def run(self) -> None:
        for op in self.program.ops:
            self._rewire(op.ir, op.operands, op.operand_slots)
        for block in self.program.blocks():
            self._rewire(block.terminator, block.returned, block.returned_slots)

    def _rewire(self, user: Operation, operands: list[int], slots: list[int]) -> None:
        for index, (value, slot) in enumerate(zip(operands, slots, strict=True)):
            definer = self.program.value_def[value]
            if definer >= 0 and self.program.ops[definer].splittable:
                source = self._version(self.program.ops[definer], self.state[slot])
                if source is not None:
                    user.operands[index] = source

    def _version(self, op: Op, number: int) -> Value | None:
        """The operation's result with that sharding: itself for the first one asked for (None), else a copy."""
        key = (op.index, number)
        if key in self.made:
            return self.made[key]
        sharding = self.closed[number]
        target = op.ir
        if op.index in self.taken:
            target = op.ir.clone().insert(Point.at(op.ir))
        if not sharding.is_replicated():
            target.attributes["sdy.sharding"] = self.codec.write_list((sharding,))
        elif "sdy.sharding" in target.attributes:
            del target.attributes["sdy.sharding"]
        self.made[key] = None if op.index not in self.taken else target.results[0]
        self.taken.add(op.index)
        return self.made[key]
