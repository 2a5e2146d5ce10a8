"""From an annotated program to the solver's nodes."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.sharding import TensorSharding, unknown
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, GROUP, MANUAL, PROPAGATION_BARRIER, WHILE, Body, Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import source_location
from gspmd.transforms.propagate.iterations import iterated_dims
from gspmd.transforms.propagate.solver import Node


@dataclasses.dataclass(slots=True)
class Graph:
    """The slots and nodes of the solver.

    Slots beyond the program's own stand for @main's results (`result_slots`), whose shardings may be asked for, and for
    the operands of manual computations as these take them (`entry_slots`, by the index of the operation). `taken` maps
    the slot of an argument inside to that of the operand as it is taken; `leaders` maps the slot of a group's member to
    the one that is solved for, and `asked` that of what a loop carries to the constrained one that is carried on to it.
    """

    slot_types: list[TensorType]
    initial: list[TensorSharding]
    nodes: list[Node]
    result_slots: list[int]
    entry_slots: dict[int, list[int]]
    taken: dict[int, int]
    leaders: dict[int, int] = dataclasses.field(default_factory=dict)
    asked: dict[int, int] = dataclasses.field(default_factory=dict)

    def leader(self, slot: int) -> int:
        """The slot that is solved for instead of this one; itself if it is in no group."""
        return self.leaders.get(slot, slot)

    def decider(self, slot: int) -> int:
        """The slot whose final sharding this one has."""
        return self.taken.get(slot, self.leader(slot))


class GraphBuilder:
    """Collects nodes and initial shardings."""

    def __init__(self, annotated: AnnotatedProgram, rules: RuleBook) -> None:
        self.annotated = annotated
        self.rules = rules
        program = annotated.program
        self.types = list(program.slot_type)
        blank: dict[int, TensorSharding] = {}
        self.initial = []
        for type_ in self.types:
            rank = len(type_.shape)
            if rank not in blank:
                blank[rank] = unknown(annotated.mesh, rank)
            self.initial.append(blank[rank])
        self.nodes: list[Node] = []
        self.entries: dict[int, list[int]] = {}
        self._constrained = set[int]()
        self.asked: dict[int, int] = {}
        self.iterated = iterated_dims(program)

    def build(self) -> Graph:
        program = self.annotated.program
        for value, sharding in zip(program.body.arguments, self.annotated.arguments, strict=True):
            if sharding is not None:
                self.initial[program.slot_of(value)] = sharding
        for op in program.ops:
            self._add(op)
        for op in program.ops:
            if op.info.name == WHILE:
                self._carry_as_asked(op)
        results = []
        for slot, sharding in zip(program.body.returned_slots, self.annotated.results, strict=True):
            asked = sharding or unknown(self.annotated.mesh, len(self.types[slot].shape))
            results.append(self._beyond(slot, asked))
            self._join(slot, results[-1], len(program.ops))
        arguments = {
            program.slot_of(argument): slot
            for index, slots in self.entries.items()
            for argument, slot in zip(program.ops[index].regions[0].arguments, slots, strict=True)
        }
        return Graph(self.types, self.initial, self.nodes, results, self.entries, arguments, asked=self.asked)

    def _beyond(self, slot: int, sharding: TensorSharding) -> int:
        """A new slot of the same type."""
        self.types.append(self.types[slot])
        self.initial.append(sharding)
        return len(self.types) - 1

    def _join(self, left: int, right: int, op: int) -> None:
        shape = self.types[left].shape
        if shape:
            self.nodes.append(Node(self.rules.identity(shape), (left, right), op))

    def _enter(self, inside: int, outside: int, counts: tuple[int, ...], op: int) -> None:
        """Connect a value inside a manual computation with the global one outside."""
        shape = self.types[inside].shape
        if shape:
            self.nodes.append(Node(self.rules.entering(shape, counts), (inside, outside), op))

    def _add(self, op: Op) -> None:
        shardings = self.annotated.of_op(op)
        if shardings is not None:
            self._annotate(op, shardings)
        name = op.info.name
        if name == CONSTRAINT:
            self._constrained.update(op.result_slots)
        if name in (CONSTRAINT, BARRIER):
            for left, right in zip(op.operand_slots, op.result_slots, strict=True):
                self._join(left, right, op.index)
        elif name == WHILE:
            for left, right in zip(op.operand_slots, op.result_slots, strict=True):
                self._join(left, right, op.index)
            self._join_returned(op.regions[1], op)
        elif name == MANUAL:
            self._add_manual(op)
        elif op.regions:
            for region in op.regions:
                self._join_returned(region, op)
        elif not op.splittable and name not in (GROUP, PROPAGATION_BARRIER):
            rule = self._rule(op)
            self.nodes.append(Node(rule, tuple(op.operand_slots + op.result_slots), op.index))

    def _carry_as_asked(self, loop: Op) -> None:
        """Apply a constraint on a value that a loop body returns to the carry of the loop."""
        given = self.annotated.of_op(loop) or (None,) * len(loop.results)
        for said, slot, returned in zip(given, loop.result_slots, loop.regions[1].returned_slots, strict=True):
            if said is None and returned in self._constrained:
                self.initial[slot] = self.initial[returned]
                self.asked[slot] = returned

    def _rule(self, op: Op) -> int:
        iterated = self.iterated.get(op.result_slots[0]) if op.result_slots else None
        row = OPS.get(op.info.name) if iterated else None
        around = row.in_loops(op.info, iterated) if iterated and row and row.in_loops else None
        return self.rules.of_op(op.info, op.ir) if around is None else self.rules.number(around)

    def _join_returned(self, block: Body, op: Op) -> None:
        for left, right in zip(block.returned_slots, op.result_slots, strict=True):
            self._join(left, right, op.index)

    def _add_manual(self, op: Op) -> None:
        """Free axes flow between operands and arguments, and between returned values and results."""
        region, block = self.annotated.region(op), op.regions[0]
        entries = self.entries[op.index] = []
        for use, argument, sharding in zip(op.operand_slots, block.arguments, region.in_shardings, strict=True):
            entries.append(self._beyond(use, region.law(sharding)))
            self._join(use, entries[-1], op.index)
            inside = self.annotated.program.slot_of(argument)
            self.initial[inside] = region.inside(sharding)
            self._enter(inside, entries[-1], region.counts(sharding), op.index)
        for returned, result, sharding in zip(block.returned_slots, op.result_slots, region.out_shardings, strict=True):
            self.initial[result] = region.law(sharding)
            self._enter(returned, result, region.counts(sharding), op.index)

    def _annotate(self, op: Op, shardings: tuple[TensorSharding, ...]) -> None:
        where = source_location(op.ir.location)
        if len(shardings) != len(op.results):
            raise AnnotationError(
                f"has {len(shardings)} shardings for {len(op.results)} results",
                op=op.info.name,
                location=where,
                code=Code.RANK,
            )
        for slot, sharding, type_ in zip(op.result_slots, shardings, op.info.results, strict=True):
            sharding.check_rank(type_.rank)
            if sharding.unreduced:
                raise Unsupported(
                    "has an unreduced result", op=op.info.name, location=where, hint="run gspmd-ingest first"
                )
            self.initial[slot] = sharding
