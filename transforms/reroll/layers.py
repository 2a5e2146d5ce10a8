"""Layers: what the runs of a function repeat together, and how layers depend on each other.

A layer of an unrolled model lies in several runs: its forward pass in one, its backward pass in another, in which
layers come last to first, its update in a third. What a run uses of another one ties the two to each other. Every value
of a layer has a key, which tells which of the layer's values it is and is the same for all layers.

Operations, and the values that they use and make, are numbers here: those of arguments come first.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gspmd.transforms.analysis.runs import LayerRun, fewest_layers, find_runs, inputs
from gspmd.transforms.ir.operations import Operation, Value

_MAX_TOGETHER = 4
_NOWHERE = -(1 << 40)  # the layer of what belongs to none

Key: TypeAlias = Hashable
"""The position of a value in its layer, the same for all layers."""

RunKey: TypeAlias = int | tuple[str, Key, int]
"""The number of a run, or what stands for one: the operations that bring into form what has this key, by name."""


class LayerPlace(NamedTuple):
    """A value of a layer: its position, and the layer."""

    key: Key
    layer: int


class _Tie(NamedTuple):
    """Each repetition of a run uses a value that a repetition of its `owner` makes; `rows` has -1 for none."""

    run: int
    owner: int
    rows: tuple[int, ...]


def corresponds(
    value: Value, other: Value, places: dict[Value, LayerPlace], layer: int, between: tuple[int, int]
) -> bool:
    """Whether what `layer` uses is to it as the other value is to the next layer.

    Both may also use the same value, unless it belongs to one of the layers `between`.
    """
    one, next_ = places.get(value), places.get(other)
    if value is other:
        return one is None or not between[0] <= one.layer <= between[1]
    return (
        one is not None
        and next_ is not None
        and one.key == next_.key
        and next_.layer == one.layer + 1
        and abs(one.layer - layer) <= 1
    )


def find_layers(
    ops: Sequence[Operation], arguments: Sequence[Value], kept: Sequence[int], least: int
) -> tuple[Layers, int] | None:
    """Layers that depend on each other in the same way, and the first of the numbers `kept` that is possible.

    Without the first and the last so many there are at least two of them, and `least` operations.
    """
    found = find_runs(ops, fewest_layers(kept[0])) if len(ops) >= least else []
    for each in kept:
        for together in range(1, _MAX_TOGETHER + 1):
            if not found or found[0].count < together * fewest_layers(each):
                break
            layers = Layers(ops, arguments, found, together)
            missing = layers.last - layers.first + 1 - 2 * each
            if missing < 2 or missing * sum(run.period for run in layers.runs) < least:
                continue
            if layers.repeat(layers.first + each - 1, layers.last - each + 1):
                return layers, each
    return None


class Layers:
    """The layers `first` to `last` of a block, which all of its runs have; there may be none."""

    def __init__(
        self, ops: Sequence[Operation], arguments: Sequence[Value], found: Sequence[LayerRun], together: int
    ) -> None:
        self.ops = ops
        self.values: list[Value] = list(arguments)
        self._number()
        self.runs = self._tied([dataclasses.replace(run, layers=[]) for run in found], together)
        self.first, self.last = self._common()
        self.key = np.full(len(self.values), -1)
        self.layer = np.full(len(self.values), _NOWHERE)
        self.layer_of_op = np.full(len(ops), _NOWHERE)
        self._key_results()
        self._key_arguments(len(arguments))

    def _number(self) -> None:
        numbers = {value: number for number, value in enumerate(self.values)}
        used, first_used, first_made = [], [0], [len(numbers)]
        for op in self.ops:
            used += [numbers[value] for value in inputs(op)]
            first_used.append(len(used))
            for result in op.results:
                numbers[result] = len(numbers)
            first_made.append(len(numbers))
        self.values = list(numbers)
        self.used, self.first_used, self.first_made = np.array(used, np.int64), first_used, first_made

    def used_in(self, run: LayerRun) -> npt.NDArray[np.int64]:
        """The values that a run uses: a row for each repetition, its inputs in order."""
        return self.used[self.first_used[run.start] : self.first_used[run.stop]].reshape(run.count, -1)

    # ---- which layers ----

    def _tied(self, runs: Sequence[LayerRun], together: int) -> list[LayerRun]:
        """The longest run and those that are tied to it, of which so many repetitions are a layer, by layers."""
        if not runs:
            return []
        runs[0].layers = [k // together for k in range(runs[0].count)]
        of_run = collections.defaultdict[int, list[tuple[int, _Tie, int]]](list)
        for order, (tie, values) in enumerate(self._ties(runs)):
            for number in (tie.run, tie.owner):
                of_run[number].append((order, tie, values))
        # The tie that says most is followed first, also where it leads on from what others have led to.
        ties: list[tuple[int, int, _Tie]] = []
        found = 0
        while True:
            for order, tie, values in of_run[found]:
                if known := self._known_by(runs, tie):
                    heapq.heappush(ties, (-values * known, order, tie))
            while ties and runs[ties[0][2].run].layers and runs[ties[0][2].owner].layers:
                heapq.heappop(ties)
            if not ties:
                break
            _, _, tie = heapq.heappop(ties)
            run, other = runs[tie.run], runs[tie.owner]
            if other.layers:
                found, run.layers = tie.run, [_NOWHERE if row < 0 else other.layers[row] for row in tie.rows]
            else:
                found, other.layers = tie.owner, [_NOWHERE] * other.count
                for layer, row in zip(run.layers, tie.rows, strict=True):
                    if row >= 0:
                        other.layers[row] = layer
        return [part for run in runs if run.layers for part in run.by_layer(_NOWHERE)]

    @staticmethod
    def _known_by(runs: Sequence[LayerRun], tie: _Tie) -> int:
        """The number of repetitions of a run without layers that would get a layer from the other run."""
        mine, its = runs[tie.run].layers, runs[tie.owner].layers
        if bool(mine) == bool(its):
            return 0
        if its:
            return sum(row >= 0 and its[row] != _NOWHERE for row in tie.rows)
        return sum(row >= 0 and layer != _NOWHERE for layer, row in zip(mine, tie.rows, strict=True))

    def _ties(self, runs: Sequence[LayerRun]) -> list[tuple[_Tie, int]]:
        """The offsets at which runs use each other's values, with the number of these; arguments come first."""
        home, repetition = self._homes(runs)
        ties = collections.Counter[_Tie]()
        of_arguments: set[_Tie] = set()
        for number, run in enumerate(runs):
            for column in self.used_in(run).T:
                owners = home[column]
                for owner in set(owners.tolist()) - {-1, number}:
                    used = np.where(owners == owner, repetition[column], -1)
                    tie = _Tie(number, owner, tuple(used.tolist()))
                    ties[tie] += 1
                    if column[owners == owner][0] < self.first_made[0]:
                        of_arguments.add(tie)
        return sorted(ties.items(), key=lambda entry: entry[0] not in of_arguments)

    def _homes(self, runs: Sequence[LayerRun]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The run that makes a value, or is the first to use an argument, and which of its repetitions."""
        home, repetition = np.full(len(self.values), -1), np.zeros(len(self.values), np.int64)
        for number, run in enumerate(runs):
            made = slice(self.first_made[run.start], self.first_made[run.stop])
            home[made] = number
            repetition[made] = np.repeat(np.arange(run.count), (made.stop - made.start) // run.count)
        for number, run in enumerate(runs):
            used = self.used_in(run)
            rows = np.broadcast_to(np.arange(run.count)[:, None], used.shape)
            new = (used < self.first_made[0]) & (home[used] == -1)
            repetition[used[new]] = rows[new]
            home[used[new]] = number
        return home, repetition

    def _common(self) -> tuple[int, int]:
        """The longest stretch of layers that all runs have."""
        common = set.intersection(*[set(run.layers) for run in self.runs]) if self.runs else set()
        found = (0, -1)
        for first in common:
            if first - 1 not in common:
                last = first
                while last + 1 in common:
                    last += 1
                found = max(found, (first, last), key=lambda ends: ends[1] - ends[0])
        return found

    def _key_results(self) -> None:
        keys = 0
        for run in self.runs:
            made = slice(self.first_made[run.start], self.first_made[run.stop])
            each = (made.stop - made.start) // run.count
            self.key[made] = np.tile(np.arange(keys, keys + each), run.count)
            self.layer[made] = np.repeat(run.layers, each)
            self.layer_of_op[run.start : run.stop] = np.repeat(run.layers, run.period)
            keys += each
        self.num_keys = keys

    def _key_arguments(self, count: int) -> None:
        """Arguments that the layers use one each belong to these."""
        if self.last < self.first:
            return
        for run in self.runs:
            rows = self._rows(run, self.first, self.last)
            for column in self.used_in(run)[rows].T[(self.used_in(run)[rows] < count).all(0)]:
                if (self.key[column] == -1).all() and len(set(column.tolist())) == len(column):
                    self.key[column] = self.num_keys
                    self.layer[column] = np.arange(self.first, self.last + 1)
                    self.num_keys += 1

    @staticmethod
    def _rows(run: LayerRun, low: int, high: int) -> list[int]:
        """The repetitions for layers from `low` to `high`."""
        return [run.row(layer) for layer in range(low, high + 1)]

    # ---- how they depend on each other ----

    def repeat(self, low: int, high: int) -> bool:
        """Whether layers from `low` to `high` all depend on others in the same way."""
        for run in self.runs:
            used = self.used_in(run)[self._rows(run, low, high)]
            key, layer = self.key[used], self.layer[used]
            fixed = (used[:-1] == used[1:]) & ((layer[:-1] < low) | (layer[:-1] > high))
            distance = layer - np.arange(low, high + 1)[:, None]
            moves = (key[:-1] == key[1:]) & (key[:-1] >= 0) & (distance[:-1] == distance[1:])
            if not (fixed | (moves & (abs(distance[:-1]) <= 1))).all():
                return False
        return True

    def are_used_within(self, low: int, high: int, last: int) -> bool:
        """Whether what layers between `low` and `high` have is used by layers from `low` to `high`, and by `last`."""
        user = np.repeat(np.arange(len(self.ops)), np.diff(self.first_used))
        layer = self.layer[self.used]
        between = (low < layer) & (layer < high) & (user != last)
        users = self.layer_of_op[user[between]]
        return bool(((low <= users) & (users <= high)).all())

    def place(self, number: int) -> LayerPlace | None:
        """The place of a value."""
        return LayerPlace(int(self.key[number]), int(self.layer[number])) if self.key[number] >= 0 else None
