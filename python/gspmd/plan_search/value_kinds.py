"""A program as few kinds of values and few kinds of steps between them: what an integer program can decide upon.

Values of one shape whose dimensions have the same colors are of one kind, and are split alike; arguments of one role
are a kind of their own. Elementwise operations on one kind are no steps: they only count as work on it. Operations with
the same rule on the same kinds are one step, so layers that repeat, in a loop or one after the other, are one.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping

from gspmd.costs.buffers import Buffers, bytes_of_value
from gspmd.costs.memory import ARGUMENT, aliases_of, largest_moments
from gspmd.costs.operations import flops_of
from gspmd.costs.work import work_of
from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, OpShardingRule
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.inner_roles import kind_of
from gspmd.plan_search.role import Roles
from gspmd.suggestions.operation_times import bytes_of, runs_of
from gspmd.suggestions.tied_dimensions import TiedDimensions
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.signature import dictionaries
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.propagate.solver import Node

_SMALL = 1e-4  # the part of the largest traffic below which how a value is split does not matter
_MOMENTS = 5  # at which memory is looked at


@dataclasses.dataclass(frozen=True, slots=True)
class ValueKind:
    """Values that are split alike: their shape, their colors, and the number of the role where they are arguments."""

    shape: tuple[int, ...]
    colors: tuple[int, ...]
    role: int | None = None


@dataclasses.dataclass(slots=True)
class StepUse:
    """What a step takes or makes: the tensor at a position of its rule, of a kind.

    `runs` is how often it has to be brought to where it is needed, of `bytes` on average where it is whole; `new_runs`
    counts only values that no step before this one moves.
    """

    position: int
    kind: int
    is_result: bool
    runs: float = 0.0
    new_runs: float = 0.0
    total_bytes: float = 0.0
    slots: dict[int, None] = dataclasses.field(default_factory=dict)

    @property
    def bytes(self) -> float:
        return self.total_bytes / self.runs if self.runs else 0.0


@dataclasses.dataclass(slots=True)
class Step:
    """Operations with one rule on the same kinds. `compute_s` are the seconds of their arithmetic on one device.

    `contracts` says that they sum products: how they are split is a decision of its own. What others do follows from
    how the largest of their tensors is split.
    """

    rule: OpShardingRule
    uses: list[StepUse]
    contracts: bool
    compute_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class HeldMoment:
    """Bytes of each kind that are in memory at one time on a device that has everything whole, and of the rest."""

    bytes: Mapping[int, float]
    rest: float
    is_start: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class KindsOfProgram:
    """The kinds of a program's values, the steps, the seconds of other work on each kind, and what is held when.

    The first of `held` is when the program begins, with its arguments alone. `of_slot` has the kinds of slots.
    """

    kinds: tuple[ValueKind, ...]
    steps: tuple[Step, ...]
    work_s: Mapping[int, float]
    held: tuple[HeldMoment, ...]
    of_slot: Mapping[int, int]


def kinds_of_program(explained: Explanation, roles: Roles, tied: TiedDimensions, hardware: Hardware) -> KindsOfProgram:
    """Read the kinds of an explained program that is not partitioned yet."""
    return _KindReader(explained, roles, tied, hardware).read()


def with_peak(model: KindsOfProgram, whole_bytes: float) -> KindsOfProgram:
    """The model with as much held at most as the finished program holds where nothing is split.

    Later passes free some of what the program makes, but nothing of its arguments.
    """
    held = max(model.held, key=lambda moment: sum(moment.bytes.values()))
    made = sum(size for kind, size in held.bytes.items() if model.kinds[kind].role is None)
    freed = sum(held.bytes.values()) + held.rest - whole_bytes
    if freed <= 0 or freed >= made:
        return model
    part = 1 - freed / made
    moments = tuple(
        dataclasses.replace(
            moment,
            bytes={n: size * (part if model.kinds[n].role is None else 1.0) for n, size in moment.bytes.items()},
        )
        for moment in model.held
    )
    return dataclasses.replace(model, held=moments)


class _KindReader:
    def __init__(self, explained: Explanation, roles: Roles, tied: TiedDimensions, hardware: Hardware) -> None:
        self.completion = explained.explainer.completion
        self.program = self.completion.annotated.program
        self.graph, self.rules = self.completion.graph, self.completion.rules.rules
        self.roles, self.tied, self.hardware = roles, tied, hardware
        self.runs = runs_of(self.program)
        self.buffers = Buffers(self.program)
        self.numbers: dict[ValueKind, int] = {}
        self.of_slot: dict[int, int] = {}
        self._number_arguments()
        self._joined: dict[int, int] = {}

    def read(self) -> KindsOfProgram:
        steps = self._steps()
        work_s = self._work()
        held = self._held()
        return KindsOfProgram(tuple(self.numbers), tuple(steps), work_s, tuple(held), dict(self.of_slot))

    # ---- kinds ----

    def _number_arguments(self) -> None:
        """Arguments, and results that are to become them in the next step, are split as their role is."""
        arguments, free = self.program.body.arguments, defaultdict[object, list[int]](list)
        for number, role in enumerate(self.roles.roles):
            kind = self._kind(ValueKind(role.type.shape, role.colors, number)) if role.arguments else -1
            for argument in role.arguments:
                self.of_slot[self.program.slot_of(arguments[argument])] = kind
        by_number = sorted((n, number) for number, role in enumerate(self.roles.roles) for n in role.arguments)
        for _, number in by_number:
            role = self.roles.roles[number]
            if role.is_state:
                free[role.type].append(self._kind(ValueKind(role.type.shape, role.colors, number)))
        for slot in self.graph.result_slots:
            same = free.get(self.graph.slot_types[slot])
            if same:
                self.of_slot[slot] = same.pop(0)

    def _kind(self, kind: ValueKind) -> int:
        return self.numbers.setdefault(kind, len(self.numbers))

    def kind(self, slot: int) -> int:
        """The number of a slot's kind."""
        found = self.of_slot.get(slot)
        if found is None:
            type_ = self.graph.slot_types[slot]
            found = self.of_slot[slot] = self._kind(ValueKind(*kind_of(self.tied, slot, type_)))
        return found

    def _root(self, slot: int) -> int:
        """One slot for all that elementwise operations lead to from each other."""
        while slot in self._joined:
            slot = self._joined[slot]
        return slot

    # ---- steps ----

    def _steps(self) -> list[Step]:
        sizes = [bytes_of(type_) if type_.shape else 0.0 for type_ in self.graph.slot_types]
        most = max((sizes[s] * self._runs(node) for node in self.graph.nodes for s in node.slots), default=0.0)
        nodes = []
        for node in self.graph.nodes:
            kept = [p for p, slot in enumerate(node.slots) if sizes[slot] * self._runs(node) >= _SMALL * most > 0]
            rule = self.rules[node.rule]
            if self._is_elementwise(node, rule, kept):
                for position in kept[1:]:
                    left, right = self._root(node.slots[kept[0]]), self._root(node.slots[position])
                    if left != right:
                        self._joined[left] = right
            elif len(kept) > 1 or self._contracts(node, rule):
                nodes.append((node, rule, kept))
        steps: dict[tuple[object, ...], Step] = {}
        moved: set[tuple[int, bool]] = set()
        for node, rule, kept in nodes:
            key = node.rule, tuple((p, self.kind(node.slots[p])) for p in kept)
            step = steps.get(key)
            if step is None:
                count = len(rule.operands)
                uses = [StepUse(p, self.kind(node.slots[p]), p >= count) for p in kept]
                step = steps[key] = Step(rule, uses, self._contracts(node, rule))
            self._add(step, node, sizes, moved)
        return list(steps.values())

    def _add(self, step: Step, node: Node, sizes: list[float], moved: set[tuple[int, bool]]) -> None:
        """Count one more operation of a step."""
        runs = self._runs(node)
        if step.contracts and node.op < len(self.program.ops):
            info = self.program.ops[node.op].info
            counted = flops_of(info)
            step.compute_s += runs * (counted[1] if counted else 0.0) / self.hardware.flops_of(info.operands[0].element)
        for use in step.uses:
            slot = node.slots[use.position]
            if slot not in use.slots:
                use.slots[slot] = None
                use.runs += runs
                use.total_bytes += runs * sizes[slot]
                if (self._root(slot), use.is_result) not in moved:
                    moved.add((self._root(slot), use.is_result))
                    use.new_runs += runs

    def _runs(self, node: Node) -> float:
        return self.runs.get(node.op, 1.0)

    def _is_elementwise(self, node: Node, rule: OpShardingRule, kept: list[int]) -> bool:
        """Whether all large tensors are of one kind and split alike, at no cost."""
        if len({self.kind(node.slots[p]) for p in kept}) > 1 or len({rule.tensors[p] for p in kept}) > 1:
            return False
        return all(kind not in (NEED_REPLICATION, REDUCTION) for kind in rule.kinds)

    def _contracts(self, node: Node, rule: OpShardingRule) -> bool:
        return REDUCTION in rule.kinds and sum(bool(operand) for operand in rule.operands) > 1

    # ---- other work ----

    def _work(self) -> dict[int, float]:
        """The seconds of operations that are no contractions, by the kind of the largest tensor that they touch."""
        found: dict[int, float] = defaultdict(float)
        contracting = {node.op for node in self.graph.nodes if self._contracts(node, self.rules[node.rule])}
        for work in work_of(self.program, self.buffers, self.completion.annotated).operations:
            slots = self._slots(self.program.ops[work.op])
            if work.op not in contracting and slots:
                largest = max(slots, key=lambda slot: bytes_of(self.graph.slot_types[slot]))
                time_s = max(
                    work.flops / self.hardware.flops_of(work.element or "f32"),
                    work.traffic_bytes / self.hardware.memory_bytes_per_s,
                )
                found[self.kind(largest)] += work.runs * time_s
        return dict(found)

    def _slots(self, op: Op) -> list[int]:
        slots: Iterable[int] = (*op.operand_slots, *op.result_slots)
        return [slot for slot in slots if self.graph.slot_types[slot].shape]

    # ---- memory ----

    def _held(self) -> list[HeldMoment]:
        """What is in memory at the beginning, and when it is most."""
        body = self.program.body
        attributes = dictionaries(main_function(self.program.module), "arg_attrs", len(body.arguments))
        sizes = [[bytes_of_value(self.program, v) for v in values] for values in (body.arguments, body.returned)]
        found = []
        for held in largest_moments(self.program, self.buffers, aliases_of(attributes, *sizes), _MOMENTS):
            by_kind: dict[int, float] = defaultdict(float)
            rest = 0.0
            for each in held:
                if self.program.value_type[each.value].shape:
                    by_kind[self.kind(self.program.slot_of(each.value))] += each.bytes
                else:
                    rest += each.bytes
            found.append(HeldMoment(by_kind, rest, all(each.kind == ARGUMENT for each in held)))
        return found
