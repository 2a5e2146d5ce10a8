"""The derivations of axes: the steps of the solver, traced back to an annotation.

The solver records the changes with their times and nodes. The source of an axis is recomputed here on demand, from the
rule and the shardings of the node's other tensors at that time.
"""

from __future__ import annotations

import bisect
import dataclasses

from gspmd.dialect.axes import Axis, atoms, is_within, split_at
from gspmd.dialect.limits import MAX_TOLD_STEPS
from gspmd.dialect.placement import FactorAxes, factor_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.propagate.factors import activity
from gspmd.transforms.propagate.solver import Change, Node, Solver

_ANNOTATED = -1
_NEVER = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True)
class AxisPosition:
    """An axis on a dimension of a slot."""

    slot: int
    dim: int
    axis: Axis


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """One step: at `change`, tensor `target` of the node got the axis of `place` from `given`, on tensor `source`.

    Tensors are numbered as in the node: operands, then results.
    """

    place: AxisPosition
    change: Change
    target: int
    source: int
    given: AxisPosition


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """The links from a place back to `origin`, which is annotated. No links: the place is annotated.

    A long chain has only the links near the place; `left_out` is the number of further links to the origin.
    """

    links: tuple[Link, ...]
    origin: AxisPosition
    left_out: int = 0


class Derivations:
    """The chains of a solved program. Every place has at most one step, which is memoized."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._values = solver.interner.values
        self._changes: list[list[int]] = [[] for _ in solver.state]
        for index, change in enumerate(solver.history):
            self._changes[change.slot].append(index)
        self._arrivals: dict[AxisPosition, int] = {}
        self._steps: dict[AxisPosition, Link | tuple[AxisPosition, ...] | None] = {}
        self._ends: dict[AxisPosition, tuple[int, AxisPosition]] = {}
        self._factors: dict[tuple[int, int, TensorSharding], FactorAxes] = {}

    def chains(self, place: AxisPosition) -> list[Chain]:
        """The chains of an axis of a place: one, several if its parts have different sources, none if unknown."""
        found = []
        open_: list[tuple[tuple[Link, ...], int, AxisPosition]] = [((), 0, place)]
        while open_:
            links, left_out, at = open_.pop()
            walked = list(links)
            while len(walked) < MAX_TOLD_STEPS and isinstance(step := self._step(at), Link):
                walked.append(step)
                at = step.given
            more, at = self._end(at)
            left_out += more
            parts = self._step(at)
            if parts is None:
                found.append(Chain(tuple(walked), at, left_out))
            elif not isinstance(parts, Link):
                open_.extend((tuple(walked), left_out, part) for part in reversed(parts))
        return found

    def _end(self, place: AxisPosition) -> tuple[int, AxisPosition]:
        """The origin of a place and the number of links to it; memoized for all places in between."""
        way: list[AxisPosition] = []
        at = place
        while at not in self._ends and isinstance(step := self._step(at), Link):
            way.append(at)
            at = step.given
        count, end = self._ends.get(at, (0, at))
        for passed in reversed(way):
            count += 1
            self._ends[passed] = (count, end)
        return count, end

    # ---- one step ----

    def _step(self, place: AxisPosition) -> Link | tuple[AxisPosition, ...] | None:
        """The source of an axis: a link, several parts, None for an annotation, or no parts if not from the solver.

        Later stages change shardings, too.
        """
        if place not in self._steps:
            self._steps[place] = self._find(place)
        return self._steps[place]

    def _find(self, place: AxisPosition) -> Link | tuple[AxisPosition, ...] | None:
        arrival = self._arrival(place)
        if arrival == _ANNOTATED:
            return None
        if arrival == _NEVER:
            return ()
        change = self._solver.history[arrival]
        node = self._solver.nodes[change.node]
        parts = self._parts(place, change, node)
        if len(parts) > 1:
            return tuple(dataclasses.replace(place, axis=axis) for axis in parts)
        found = self._source(place, arrival, node)
        return () if found is None else found

    def _parts(self, place: AxisPosition, change: Change, node: Node) -> tuple[Axis, ...]:
        """The axis with the cuts of the sharding before the change, of the annotation and of the factors."""
        lists = [
            (place.axis,),
            self._values[change.before].dims[place.dim].axes,
            self._solver.annotated[place.slot].dims[place.dim].axes,
        ]
        for tensor, slot in enumerate(node.slots):
            if slot == place.slot:
                lists.extend(self._factor_axes(node, tensor, self._values[change.after]).values())
        try:
            return split_at((place.axis,), atoms(lists))
        except ValueError:  # parts that do not nest cut nothing
            return (place.axis,)

    def _source(self, place: AxisPosition, arrival: int, node: Node) -> Link | None:
        """The tensor from which the step took the axis, by the same rules as `factors.propagate`."""
        change = self._solver.history[arrival]
        rule = self._solver.rules[node.rule]
        active = activity(rule, change.level)
        start = self._run_start(arrival)
        best: tuple[tuple[float, ...], Link] | None = None
        for target, slot in enumerate(node.slots):
            factor = self._factor_of(node, target, place, self._values[change.after]) if slot == place.slot else None
            if factor is None or active is None:
                continue
            for source, given_slot in enumerate(node.slots):
                if not (active.from_operands if source < len(rule.operands) else active.from_results):
                    continue
                dim = next((d for d, factors in enumerate(rule.tensors[source]) if factor in factors), None)
                if dim is None:
                    continue
                given = AxisPosition(given_slot, dim, place.axis)
                since = self._arrival(given, change.priority)
                if since >= arrival:
                    continue
                offered = self._factor_axes(node, source, self._state_at(given_slot, start)).get(factor, ())
                size = self._solver.slot_bytes[given_slot]
                # Of the tensors that had the axis before this run of the node, the one with the most axes, then the
                # largest.
                rank = (since >= start, -len(offered), -size, source, target)
                if best is None or rank < best[0]:
                    best = rank, Link(place, change, target, source, given)
        return best[1] if best else None

    def _factor_of(self, node: Node, tensor: int, place: AxisPosition, sharding: TensorSharding) -> int | None:
        """The factor split by the axis, on one of the node's tensors."""
        factors = self._solver.rules[node.rule].tensors[tensor][place.dim]
        split = self._factor_axes(node, tensor, sharding)
        return next((f for f in factors if is_within(place.axis, split.get(f, ()))), None)

    def _factor_axes(self, node: Node, tensor: int, sharding: TensorSharding) -> FactorAxes:
        key = (node.rule, tensor, sharding)
        found = self._factors.get(key)
        if found is None:
            found = self._factors[key] = factor_axes(self._solver.rules[node.rule], tensor, sharding)
        return found

    # ---- when ----

    def _arrival(self, place: AxisPosition, priority: int | None = None) -> int:
        """The index of the first change after which the axis is there, -1 if it was annotated.

        With `priority`, annotations that take part only later do not count.
        """
        annotated = self._solver.annotated[place.slot].dims[place.dim]
        if is_within(place.axis, annotated.axes):
            return _ANNOTATED if priority is None or (annotated.priority or 0) <= priority else _NEVER
        found = self._arrivals.get(place)
        if found is None:
            found = _NEVER
            for index in self._changes[place.slot]:
                after = self._values[self._solver.history[index].after]
                if is_within(place.axis, after.dims[place.dim].axes):
                    found = index
                    break
            self._arrivals[place] = found
        return found

    def _run_start(self, index: int) -> int:
        """The first of the consecutive changes of one run of a node."""
        history = self._solver.history
        node, slots = history[index].node, {history[index].slot}
        while index and history[index - 1].node == node and history[index - 1].slot not in slots:
            index -= 1
            slots.add(history[index].slot)
        return index

    def _state_at(self, slot: int, index: int) -> TensorSharding:
        """The sharding of a slot at the change with this index."""
        changes = self._changes[slot]
        position = bisect.bisect_left(changes, index)
        if position < len(changes):
            return self._values[self._solver.history[changes[position]].before]
        return self._values[self._solver.state[slot]]
