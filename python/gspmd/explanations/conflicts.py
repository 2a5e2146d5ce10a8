"""Conflicts between the propagated shardings of an operation's tensors, their resolution and their cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gspmd.collectives import Collective, collective_operations, time_of
from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.location_marks import PLACE
from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.placement import factor_axes
from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.derivations import Derivation, Explainer
from gspmd.transforms.decide import Decided
from gspmd.transforms.decide.alternatives import Alternatives
from gspmd.transforms.ir.operations import Location, Operation
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.reshard import Decision


@dataclasses.dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a conflict: its propagated sharding (`before`) and its reasons, and the one that runs (`after`).

    `type` is None if the operation is not part of the user's program.
    """

    place: str
    value: str
    type: TensorType | None
    before: TensorSharding
    after: TensorSharding
    derivations: tuple[Derivation, ...]

    @property
    def has(self) -> str:
        """The propagated sharding, in Shardy's notation."""
        return print_dims(self.before)

    @property
    def runs_as(self) -> str:
        """The sharding that the operation runs with, and the axes over which it is partial."""
        return _form(self.after)

    def to_dict(self) -> dict[str, Any]:
        fields = {f: getattr(self, f) for f in ("place", "value", "has", "runs_as")}
        return {**fields, "derivations": [d.to_dict() for d in self.derivations]}


@dataclasses.dataclass(frozen=True, slots=True)
class Alternative:
    """A priced candidate for the operation: shardings of operands and results, bytes that a device sends, seconds."""

    operand_shardings: tuple[TensorSharding, ...]
    result_shardings: tuple[TensorSharding, ...]
    bytes: int
    time_s: float
    chosen: bool

    @property
    def operands(self) -> tuple[str, ...]:
        """The shardings of operands in Shardy's notation, and the axes over which they are partial."""
        return tuple(map(_form, self.operand_shardings))

    @property
    def results(self) -> tuple[str, ...]:
        """The same for results."""
        return tuple(map(_form, self.result_shardings))

    def to_dict(self) -> dict[str, Any]:
        return {f: getattr(self, f) for f in ("operands", "results", "bytes", "time_s", "chosen")}


@dataclasses.dataclass(frozen=True, slots=True)
class Conflict:
    """An operation that cannot run with the propagated shardings of its tensors.

    `reasons` describe the disagreement. `collectives` are those that the operation needs: none if slicing suffices, or
    if an operand was already resharded for an earlier operation. `bytes` is what a device sends for it in one call of
    the program, and `time_s` estimates the time of that. `alternatives` are the candidates that were compared, the
    cheapest first; their `time_s` includes compute and memory traffic, as in the objective of `gspmd-decide`. `numbers`
    are the indices of the collectives in the partitioned program.
    """

    operation: str
    value: str
    location: SourceLocation | None
    reasons: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    collectives: tuple[Collective, ...]
    bytes: int
    time_s: float
    alternatives: tuple[Alternative, ...]
    numbers: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; locations are `file:line:column` or null."""

        def where(location: SourceLocation | None) -> str | None:
            return str(location) if location else None

        return {
            "operation": self.operation,
            "value": self.value,
            "location": where(self.location),
            "reasons": list(self.reasons),
            "tensors": [tensor.to_dict() for tensor in self.tensors],
            "collectives": [{**dataclasses.asdict(c), "location": where(c.location)} for c in self.collectives],
            "bytes": self.bytes,
            "time_s": self.time_s,
            "alternatives": [alternative.to_dict() for alternative in self.alternatives],
        }


def mark_places(explainer: Explainer) -> None:
    """Number operations and terminators in their locations, which the collectives made for them inherit."""
    operations = [op.ir for op in explainer.program.ops] + [block.terminator for block in explainer.blocks]
    for index, op in enumerate(operations):
        PLACE.set(op, index)


def place_of(location: Location) -> int | None:
    """The number that `mark_places` assigned."""
    return next(iter(PLACE.numbers(location)), None)


def find_conflicts(
    explainer: Explainer, decided: Decided, moved: Sequence[Decision], module: Operation, hardware: Hardware
) -> tuple[Conflict, ...]:
    """The conflicts of a partitioned module, the most expensive first. Each collective belongs to exactly one.

    `moved` lists the reshards of operands and results. Times are for `hardware`; those of alternatives follow the
    objective.
    """
    made: dict[int | None, dict[int, Collective]] = {}
    times_s: dict[int | None, float] = {}
    mesh = explainer.completion.annotated.mesh
    for number, (op, collective) in enumerate(collective_operations(module, mesh)):
        place = place_of(op.location)
        made.setdefault(place, {})[number] = collective
        once = time_of(op, collective, mesh, hardware)
        times_s[place] = times_s.get(place, 0.0) + once * (collective.count or 1)
    decisions: dict[int | None, list[Decision]] = {}
    for decision in moved:
        decisions.setdefault(place_of(decision.location), []).append(decision)
    finder = _ConflictFinder(explainer, decided)
    found = [
        finder.conflict(place, decisions.get(place, []), made.get(place, {}), times_s.get(place, 0.0))
        for place in sorted({*made, *decisions}, key=lambda p: -1 if p is None else p)
    ]
    return tuple(sorted(found, key=lambda conflict: -conflict.time_s))


_Why: TypeAlias = tuple[tuple[Tensor, ...], tuple[str, ...], tuple[Alternative, ...]]
_NO_WHY: _Why = ((), ("why is not explained",), ())


class _ConflictFinder:
    def __init__(self, explainer: Explainer, decided: Decided) -> None:
        self.explainer = explainer
        self.mesh = explainer.completion.annotated.mesh
        self._planner = Planner(self.mesh)
        self._ways = Alternatives(decided.problem, decided.solution.states)
        places = decided.problem.values.consumers.values()
        self._op_at = {place_of(place.op.ir.location): place.op for place in places if place.op is not None}

    def conflict(
        self, place: int | None, decisions: list[Decision], made: Mapping[int, Collective], time_s: float
    ) -> Conflict:
        collectives = list(made.values())
        operation, value, location = self._subject(place)
        tensors, reasons, alternatives = self.explainer.unexplained.attempt(
            f"why {operation or 'this'} {value} communicates", lambda: self._why(place, decisions, collectives), _NO_WHY
        )
        sent = sum(c.bytes * (c.count or 1) for c in collectives)
        return Conflict(
            operation=operation,
            value=value,
            location=location,
            reasons=reasons,
            tensors=tensors,
            collectives=tuple(collectives),
            bytes=sent,
            time_s=time_s,
            alternatives=alternatives,
            numbers=tuple(made),
        )

    def _why(self, place: int | None, decisions: list[Decision], collectives: list[Collective]) -> _Why:
        """The tensors that disagree, the reasons, and what else could have been done."""
        tensors: list[Tensor] = []
        reasons: list[str] = []
        for decision in decisions:
            tensors.extend(self._tensors(place, decision))
            reasons.extend(self._reasons(decision))
            reasons.extend(self._elsewhere(place, decision, collectives))
        if not decisions:
            reasons = list(dict.fromkeys(c.cause for c in collectives))
        alternatives = self._alternatives(self._op_at.get(place)) if decisions else ()
        return tuple(tensors), tuple(reasons), alternatives

    def _subject(self, place: int | None) -> tuple[str, str, SourceLocation | None]:
        """The name, result and location of the operation with that number."""
        if place is None:
            return "", "", None
        if place < len(self.explainer.ops):
            named = self.explainer.ops[place]
            return named.name, named.value, named.location
        if place == len(self.explainer.ops):
            return "func.return", "", None
        owner = self._owner(place)
        named = self.explainer.ops[owner]
        return f"return in {named.name}", named.value, named.location

    def _owner(self, place: int) -> int:
        """The operation that encloses the block with that number."""
        block = self.explainer.blocks[place - len(self.explainer.ops)]
        return next(op.index for op in self.explainer.program.ops if block in op.regions)

    # ---- what disagrees ----

    def _tensors(self, place: int | None, decision: Decision) -> Iterator[Tensor]:
        values, slots = self._values(place)
        first = decision.operand if decision.rule is None else 0
        operands = len(decision.info.operands) if decision.info else first + 1
        for index, (have, runs) in enumerate(zip(decision.have, decision.runs, strict=True), first):
            name = f"operand {index}" if index < operands else f"result {index - operands}"
            derivations = self.explainer.derivations(slots[index], have) if index < len(slots) else ()
            known = index < len(values)
            value = self.explainer.value_names[values[index]] if known else ""
            type_ = self.explainer.program.value_type[values[index]] if known else None
            yield Tensor(name, value, type_, have, runs, derivations)

    def _values(self, place: int | None) -> tuple[list[int], list[int]]:
        """The values and slots of an operation's operands and results, or of the values that a block returns."""
        explainer = self.explainer
        if place is None:
            return [], []
        if place < len(explainer.ops):
            op = explainer.program.ops[place]
            values, slots = op.operands + op.results, op.operand_slots + op.result_slots
        else:
            block = explainer.blocks[place - len(explainer.ops)]
            values, slots = block.returned, block.returned_slots
        return values, slots

    def _reasons(self, decision: Decision) -> Iterator[str]:
        if decision.rule is None or decision.info is None:
            have, need = decision.have[0], decision.runs[0]
            yield f"operand {decision.operand} is {print_dims(have)} but is needed as {print_dims(need)}"
            return
        rule, operands = decision.rule, len(decision.info.operands)
        if any(sharding.unreduced for sharding in decision.runs[:operands]):
            partial = print_axes(decision.runs[0].unreduced, self.mesh)
            yield f"operands are partial over {partial}; the sum is taken after the operation"
            return
        split = [factor_axes(rule, t, sharding) for t, sharding in enumerate(decision.have)]
        merged: dict[int, Axes] = {}
        for factor, kind in enumerate(rule.kinds):
            views: dict[Axes, list[str]] = {}
            for tensor, axes in enumerate(split):
                dim = next((d for d, factors in enumerate(rule.tensors[tensor]) if factor in factors), None)
                if dim is not None:
                    views.setdefault(axes.get(factor, ()), []).append(_dimension(dim, tensor, operands))
            wanted = {axes: where for axes, where in views.items() if axes}
            if not wanted:
                continue
            if len(views) > 1:
                yield " but ".join(f"{' and '.join(where)} is {self._over(axes)}" for axes, where in views.items())
            first, where = next(iter(wanted.items()))
            if kind is NEED_REPLICATION:
                yield f"{' and '.join(where)} cannot be split, but is {self._over(first)}"
            elif kind is REDUCTION:
                leaves = "leaves" if overlap(first, decision.runs[-1].unreduced) else "would leave"
                yield f"a reduction over {' and '.join(where)}, {self._over(first)}, {leaves} partial results"
            for other, theirs in merged.items():
                if overlap(first, theirs):
                    place = next(iter(self._places(rule, other, operands)))
                    yield f"{where[0]} and {place} both want {print_axes(first, self.mesh)}"
            merged[factor] = first

    def _elsewhere(self, place: int | None, decision: Decision, collectives: list[Collective]) -> Iterator[str]:
        """Communication for other operations that this one shares."""
        if collectives or place is None:
            return
        operands = len(decision.info.operands) if decision.info else 1
        if any(sharding.unreduced for sharding in decision.runs[operands:]):
            yield "its partial results are summed after a later operation"
        program = self.explainer.program
        block = self.explainer.blocks[place - len(program.ops)] if place >= len(program.ops) else None
        values = block.returned if block else program.ops[place].operands
        first = decision.operand if decision.rule is None else 0
        pairs = zip(decision.have[:operands], decision.runs[:operands], strict=True)
        for index, (have, runs) in enumerate(pairs, first):
            definer = program.value_def[values[index]]
            if have == runs or runs.unreduced or (definer >= 0 and program.ops[definer].splittable):
                continue
            path = self._planner.plan(program.value_type[values[index]], have, runs)
            if any(step.kind != "all_slice" for step in path.steps):
                yield f"operand {index} was already resharded for an earlier operation"

    @staticmethod
    def _places(rule: OpShardingRule, factor: int, operands: int) -> Iterator[str]:
        for tensor, dims in enumerate(rule.tensors):
            for dim, factors in enumerate(dims):
                if factor in factors:
                    yield _dimension(dim, tensor, operands)

    def _over(self, axes: Axes) -> str:
        return f"split over {print_axes(axes, self.mesh)}" if axes else "not split"

    # ---- alternatives ----

    def _alternatives(self, op: Op | None) -> tuple[Alternative, ...]:
        if op is None:
            return ()
        count = len(op.operands)
        return tuple(
            Alternative(way.shardings[:count], way.shardings[count:], round(way.bytes), way.time_s, way.is_chosen)
            for way in self._ways.of(op)
        )


def _form(sharding: TensorSharding) -> str:
    """`[{"x"}, {}]`, with the axes over which it is partial."""
    partial = f", partial over {print_axes(sharding.unreduced, sharding.mesh)}" if sharding.unreduced else ""
    return print_dims(sharding) + partial


def _dimension(dim: int, tensor: int, operands: int) -> str:
    tensor_name = f"operand {tensor}" if tensor < operands else f"result {tensor - operands}"
    return f"dimension {dim} of {tensor_name}"
