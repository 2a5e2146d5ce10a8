"""The fixpoint: steps are applied to all operations until nothing changes, level after level."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from gspmd.dialect.axes import overlap
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import CLOSED, TensorSharding
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.propagate.factors import LEVELS, StepResult, activity, propagate


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """An operation or an edge of control flow: a rule over slots.

    `op` is the index of the operation.
    """

    rule: int
    slots: tuple[int, ...]
    op: int


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One step of the derivation: at `level`, node `node` gave `slot` the sharding `after`."""

    slot: int
    before: int
    after: int
    node: int
    level: int
    priority: int


class Interner:
    """Shardings by number, so that functions of them are memoized with small keys."""

    def __init__(self) -> None:
        self.values: list[TensorSharding] = []
        self._numbers: dict[TensorSharding, int] = {}

    def __call__(self, sharding: TensorSharding) -> int:
        number = self._numbers.get(sharding)
        if number is None:
            number = self._numbers[sharding] = len(self.values)
            self.values.append(sharding)
        return number


class Solver:
    """Solves for one sharding of each slot.

    `state[slot]` is a number of `interner`; `history` lists every change in order; `lost` are slots and dimensions
    whose annotated axes an earlier priority has put on another dimension of the slot.

    `sweeps` counts the walks over the program. It is bounded: each sweep except the last of a level changes something,
    and each change splits a slot over more devices, at most as often as their number has prime factors.
    """

    def __init__(
        self,
        slot_types: Sequence[TensorType],
        initial: Sequence[TensorSharding],
        nodes: Sequence[Node],
        rules: Sequence[OpShardingRule],
    ) -> None:
        self.interner = Interner()
        self.nodes = nodes
        self.rules = rules
        size_of = {t: math.prod(t.shape) * element_bytes(t.element) if t.shape else 0.0 for t in set(slot_types)}
        self.slot_bytes = [size_of[t] for t in slot_types]
        self.annotated = list(initial)
        self.state = [self.interner(s) for s in initial]
        self.history: list[Change] = []
        # A step depends on the rule and the sizes of the tensors; nodes with equal ones share results.
        kinds: dict[tuple[int, tuple[float, ...]], int] = {}
        self._sizes = [tuple([self.slot_bytes[s] for s in node.slots]) for node in nodes]
        self._kinds = [
            kinds.setdefault((node.rule, sizes), len(kinds)) for node, sizes in zip(nodes, self._sizes, strict=True)
        ]
        self.lost: list[tuple[int, int]] = []
        self.sweeps = 0
        self._users: list[list[int]] = [[] for _ in slot_types]
        for index, node in enumerate(nodes):
            for slot in set(node.slots):
                self._users[slot].append(index)
        self._activities = [[activity(rule, level) for level in range(len(LEVELS))] for rule in rules]
        # A step depends on the level only through the rule's part in it; levels with equal parts share results.
        self._aliases = [[parts.index(part) for part in parts] for parts in self._activities]
        self._memo: dict[tuple[int, ...], tuple[tuple[int, ...], bool]] = {}
        self._contested: set[int] = set()

    def solve(self) -> None:
        """Run to the fixpoint: priorities, then levels, each first without and then with conflict resolution."""
        priorities = sorted({dim.priority or 0 for s in self.annotated for dim in s.dims} | {0})
        for priority in priorities:
            if len(priorities) > 1:
                self._reveal(priority)
            for level in range(len(LEVELS)):
                for aggressive in (False, True):
                    self._fixpoint(level, aggressive, priority)

    def _reveal(self, priority: int) -> None:
        """Let annotated dimensions of this priority take part; those of later ones do not yet.

        An axis that an earlier priority has put on the tensor is lost to the later dimension: see `lost`.
        """
        for slot, sharding in enumerate(self.annotated):
            if not any(dim.priority for dim in sharding.dims):
                continue
            now = self.interner.values[self.state[slot]]
            dims = list(now.dims)
            for index, dim in enumerate(sharding.dims):
                level = dim.priority or 0
                if level > priority:
                    dims[index] = CLOSED
                elif level == priority and level > 0:
                    others = [a for d, other in enumerate(dims) if d != index for a in other.axes]
                    taken = overlap(dim.axes, others)
                    dims[index] = CLOSED if taken else dim
                    if taken:
                        self.lost.append((slot, index))
            self.state[slot] = self.interner(dataclasses.replace(sharding, dims=tuple(dims)))

    def _fixpoint(self, level: int, aggressive: bool, priority: int) -> None:
        """Forward and backward sweeps over changed operations, until nothing changes.

        It starts from the operations to which the level is new, or whose conflicts were left open.
        """
        nodes, kinds, state, users = self.nodes, self._kinds, self.state, self._users
        dirty = self._first(level, aggressive)
        memo, aliases = self._memo, [alias[level] for alias in self._aliases]
        forward = True
        while any(dirty):
            self.sweeps += 1
            order = range(len(nodes)) if forward else range(len(nodes) - 1, -1, -1)
            for index in order:
                if not dirty[index]:
                    continue
                dirty[index] = 0
                node = nodes[index]
                before = tuple([state[s] for s in node.slots])
                key = (kinds[index], aliases[node.rule], *before)
                after, contested = memo.get(key) or self._undisputed(key, index, before, level)
                if contested:
                    if aggressive:
                        after = self._settled(index, before, level)
                    else:
                        self._contested.add(index)
                if after == before:
                    continue
                for slot, old, new in zip(node.slots, before, after, strict=True):
                    if new != old and state[slot] == old:
                        state[slot] = new
                        self.history.append(Change(slot, old, new, index, level, priority))
                        for user in users[slot]:
                            dirty[user] = 1
            forward = not forward

    # ---- steps ----

    def _first(self, level: int, aggressive: bool) -> bytearray:
        dirty = bytearray(len(self.nodes))
        if aggressive:
            for index in self._contested:
                dirty[index] = 1
            self._contested.clear()
            return dirty
        new = [bool(level == 0 or a[level] != a[level - 1]) for a in self._activities]
        for index, node in enumerate(self.nodes):
            dirty[index] = new[node.rule]
        return dirty

    def _undisputed(
        self, key: tuple[int, ...], index: int, before: tuple[int, ...], level: int
    ) -> tuple[tuple[int, ...], bool]:
        """The state after a step that leaves conflicts, and whether there are any; memoized by `key`."""
        step = self._step(index, before, level)
        found = self._memo[key] = self._numbers(before, step), step.contested
        return found

    def _settled(self, index: int, before: tuple[int, ...], level: int) -> tuple[int, ...]:
        """The state after a step that settles conflicts."""
        key = (self._kinds[index], -1 - self._aliases[self.nodes[index].rule][level], *before)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._numbers(before, self._step(index, before, level, aggressive=True)), False
        return found[0]

    def _step(self, index: int, before: tuple[int, ...], level: int, aggressive: bool = False) -> StepResult:
        rule = self.nodes[index].rule
        shardings = tuple(self.interner.values[i] for i in before)
        active = self._activities[rule][level]
        if active is None:
            return StepResult(shardings, False)
        return propagate(self.rules[rule], shardings, self._sizes[index], active, aggressive)

    def _numbers(self, before: tuple[int, ...], step: StepResult) -> tuple[int, ...]:
        values, intern = self.interner.values, self.interner
        return tuple(
            number if new is values[number] else intern(new) for number, new in zip(before, step.shardings, strict=True)
        )
