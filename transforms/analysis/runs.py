"""Runs: sequences of repeated operations in a block, as in an unrolled loop."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gspmd.transforms.ir.operations import Block, Operation, Value

_MIN_PERIOD = 1
_MAX_PERIODS = 128  # the number of candidates
_MAX_RUNS = 512
CHANNEL = "channel_handle"  # which differ for every collective

MIN_KEPT = 2
"""The minimum number of layers kept at each end if the middle ones are folded."""


@dataclasses.dataclass(slots=True)
class LayerRun:
    """`count` repetitions of `period` operations, starting at operation `start`.

    `layers` are the layers of the repetitions; empty while unknown. A backward pass has them last to first, an update
    in the order of the parameters.
    """

    start: int
    period: int
    count: int
    layers: list[int] = dataclasses.field(default_factory=list)
    _row: dict[int, int] = dataclasses.field(default_factory=dict)

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count

    def by_layer(self, nowhere: int) -> list[LayerRun]:
        """Runs in which every repetition is one layer.

        Adjacent repetitions of one layer are merged; layers with fewer of them, or in `nowhere`, are left out. If a
        layer occurs again, another run begins.
        """
        groups = [(layer, len(list(group))) for layer, group in itertools.groupby(self.layers)]
        together = collections.Counter(length for layer, length in groups if layer != nowhere).most_common(1)
        found: list[LayerRun] = []
        start = self.start
        for layer, length in groups:
            if layer != nowhere and length == together[0][0]:
                last = found[-1] if found else None
                if last is not None and last.stop == start and layer not in last.layers:
                    last.layers.append(layer)
                    last.count += 1
                else:
                    found.append(LayerRun(start, length * self.period, 1, [layer]))
            start += length * self.period
        return [run for run in found if run.count > 1]

    def row(self, layer: int) -> int:
        """The repetition of a layer, if each is one layer."""
        if not self._row:
            self._row = {each: row for row, each in enumerate(self.layers)}
        return self._row[layer]

    def operations(self, layer: int) -> range:
        """The operation numbers of a layer."""
        start = self.start + self.row(layer) * self.period
        return range(start, start + self.period)


def inputs(op: Operation) -> list[Value]:
    """The operands of an operation, followed by the outside values that its regions use."""
    if not op.regions:
        return op.operands
    found = list(op.operands)
    for inner in op.walk():
        found += [value for value in inner.operands if _is_outside(value, op)]
    return found


def _is_outside(value: Value, op: Operation) -> bool:
    around: Block | None = value.block
    while around is not None and around is not op.block:
        owner = around.owner
        if owner is op:
            return False
        around = None if owner is None else owner.block
    return True


def fingerprint(op: Operation) -> tuple[Hashable, ...]:
    """A key that is equal for operations that differ at most in the outside values they use."""
    return _fingerprint(op, {})


def _fingerprint(op: Operation, inside: dict[Value, int]) -> tuple[Hashable, ...]:
    if op.source is not None:  # it has attributes that cannot be compared
        return (id(op),)
    said = op.attributes
    if CHANNEL in said:
        said = {name: attribute for name, attribute in said.items() if name != CHANNEL}
    results = op.results
    mine = (
        op.name,
        results[0].type if len(results) == 1 else tuple([result.type for result in results]),
        *[value.type for value in op.operands],
        frozenset(said.items()),
    )
    return (*mine, *[tuple(_content(region, inside)) for region in op.regions]) if op.regions else mine


def _content(region: Block, inside: dict[Value, int]) -> Iterator[Hashable]:
    for argument in region.arguments:
        inside[argument] = len(inside)
        yield argument.type
    for op in region:
        yield _fingerprint(op, inside)
        yield tuple([inside.get(value, -1) for value in op.operands])
        for result in op.results:
            inside[result] = len(inside)


def find_runs(ops: Sequence[Operation], least: int) -> list[LayerRun]:
    """Non-overlapping runs with at least this many repetitions, the longest first."""
    chosen: list[LayerRun] = []
    found = _runs([fingerprint(op) for op in ops], least)
    for run in sorted(found, key=lambda run: (-run.period * run.count, run.period, run.start))[:_MAX_RUNS]:
        if all(run.start >= other.stop or other.start >= run.stop for other in chosen):
            chosen.append(run)
    return chosen


def fewest_layers(kept: int) -> int:
    """The number of repetitions that leaves two layers between those kept at each end."""
    return 2 * kept + 2


def _runs(sequence: Sequence[Hashable], least: int) -> Iterator[LayerRun]:
    """Runs with at least this many repetitions, by period."""
    letters: dict[Hashable, int] = {}
    word = np.array([letters.setdefault(each, len(letters)) for each in sequence], np.int64)
    for period in _periods(word):
        same = np.concatenate([[False], word[:-period] == word[period:], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            count = (end - start) // period + 1
            if count >= least:
                yield LayerRun(start, period, count)


def _periods(word: npt.NDArray[np.int64]) -> list[int]:
    """Frequent distances between equal operations."""
    last: dict[int, int] = {}
    distances: collections.Counter[int] = collections.Counter()
    for index, letter in enumerate(word.tolist()):
        if letter in last:
            distances[index - last[letter]] += 1
        last[letter] = index
    often = ((distance * count, distance) for distance, count in distances.items() if distance >= _MIN_PERIOD)
    return [distance for _, distance in sorted(often, reverse=True)[:_MAX_PERIODS]]
