"""The candidate annotations, ranked by the decision problem of the program.

When a program is partitioned, arguments without an annotation are split over no more devices than by propagation. For
each role, the problem is solved with the sharding of only that role as a variable, which gives the cost of annotating
it. Candidates for values inside are their shardings in these solutions. Other shardings, and dimensions that no axis
divides, have no such price and come last.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.plan_problem import Mask, PlanProblem, PlanSolution
from gspmd.plan_search.roles import DecidedRole
from gspmd.suggestions.annotating import GivenValue, ValueAnnotation
from gspmd.transforms.decide.objective import BYTES_ALONE

_WAYS = 2  # shardings of each role that are tried, the best first
_INSIDE = 3  # solutions whose shardings of values inside become candidates
_S_PER_BYTE = 1e-5  # of live memory, to save it: more than any reshard takes, less than the price of the impossible
_SINGLE = 4  # largest kind whose values are also tried one by one


@dataclasses.dataclass(frozen=True, slots=True)
class PromisingAnnotation:
    """A candidate, and the cost of the program with it by the problem: seconds, or bytes."""

    annotation: ValueAnnotation
    cost: float


class Candidates:
    """The candidates for reducing a figure of a program: `time`, `bytes` or `memory`.

    `known` is the partitioned program, and `problem` the one with arguments as variables.
    """

    def __init__(self, known: Explanation, problem: PlanProblem, save: str) -> None:
        self._known, self._problem, self._save = known, problem, save
        values = ((known.names.place_of(name), name) for name in known.explainer.value_names)
        self._names = {place: name for place, name in values if place is not None}
        self._roles = problem.roles.roles
        self._now = {number: self._as_it_is(known, role) for number, role in enumerate(self._roles) if role.arguments}

    def all(self) -> list[PromisingAnnotation]:
        """All candidates, the most promising first."""
        base = self._solved(None, [])
        found, solutions = [], [(self._cost(base), base)]
        for number, role in enumerate(self._roles):
            banned: list[TensorSharding] = [self._now[number]] if number in self._now else []
            for _ in range(_WAYS if self._problem.is_open(number) else 0):
                choice = self._solved(number, banned)
                sharding = choice.state[number]
                if sharding is None or sharding in banned:
                    break
                banned.append(sharding)
                solutions.append((self._cost(choice), choice))
                found.append(PromisingAnnotation(self._argument(role, sharding), self._cost(choice)))
        solutions.sort(key=lambda each: each[0])
        for cost, choice in [*solutions[:_INSIDE], (self._cost(base), base)]:
            found += [PromisingAnnotation(each, cost) for each in self._inside(choice)]
        found += [PromisingAnnotation(each, math.inf) for each in self._others()]
        best: dict[ValueAnnotation, PromisingAnnotation] = {}
        for candidate in sorted(found, key=lambda each: (each.cost, each.annotation.value.operation is not None)):
            best.setdefault(candidate.annotation, candidate)
        return list(best.values())

    def _solved(self, free: int | None, banned: list[TensorSharding]) -> PlanSolution:
        """The best solution that changes only one role, whose sharding may not be one of the banned ones."""
        hardware = BYTES_ALONE.hardware if self._save == "bytes" else None
        price_s = _S_PER_BYTE if self._save == "memory" else 0.0
        return self._problem.choose(self._mask(free, banned), price_s, hardware)

    def _mask(self, free: int | None, banned: list[TensorSharding]) -> Mask:
        numbers = {role: number for number, role in enumerate(self._roles)}

        def may_be(role: DecidedRole, sharding: TensorSharding) -> bool:
            number = numbers[role]
            if number == free:
                return all(sharding.dim_axes() != each.dim_axes() for each in banned)
            return sharding.dim_axes() == self._now[number].dim_axes()

        return may_be

    def _cost(self, choice: PlanSolution) -> float:
        return choice.held_bytes if self._save == "memory" else choice.cost_s

    def _as_it_is(self, known: Explanation, role: DecidedRole) -> TensorSharding:
        """The sharding of a role in the partitioned program."""
        explainer, solver = known.explainer, known.explainer.completion.solver
        slot = explainer.program.slot_of(explainer.program.body.arguments[role.arguments[0]])
        completed = solver.interner.values[solver.state[slot]].closed()
        decided = explainer.refined.get(slot)
        return completed if decided is None else completed.with_axes(decided)

    # ---- annotations ----

    def _argument(self, role: DecidedRole, sharding: TensorSharding) -> ValueAnnotation:
        explainer, values = self._known.explainer, []
        for number, label in zip(role.arguments, role.names, strict=True):
            name = explainer.value_names[explainer.program.body.arguments[number]]
            said = role.label if len(role.arguments) > 1 and not role.label.startswith("%") else label
            values.append(GivenValue(None, number, name, "" if said.startswith("%") else said, None, role.type.shape))
        return ValueAnnotation(values[0], sharding, tuple(values[1:]))

    def _inside(self, choice: PlanSolution) -> Iterator[ValueAnnotation]:
        """Kinds of values inside that are split in a solution, and single values of small kinds."""
        for role, sharding in zip(self._roles, choice.state, strict=True):
            if role.values and sharding is not None and sharding.used_axes():
                yield from self._values(role, sharding)

    def _values(self, role: DecidedRole, sharding: TensorSharding) -> Iterator[ValueAnnotation]:
        values = [dataclasses.replace(value, name=self._names.get(value.place, value.name)) for value in role.values]
        yield ValueAnnotation(values[0], sharding, tuple(values[1:]))
        for value in values if 1 < len(values) <= _SINGLE else ():
            yield ValueAnnotation(value, sharding)

    def _others(self) -> Iterator[ValueAnnotation]:
        """Values inside, and arguments that no axis divides, with one axis on one dimension."""
        mesh = self._problem.mesh
        for number, role in enumerate(self._roles):
            for dimension, size in enumerate(role.type.shape):
                for axis in (axis for axis in mesh.all_axes() if 1 < axis.size <= size):
                    dims = tuple((axis,) if n == dimension else () for n in range(role.type.rank))
                    sharding = replicated(mesh, role.type.rank).with_axes(dims)
                    if role.values:
                        yield from self._values(role, sharding)
                    elif size % axis.size and self._problem.is_open(number):
                        yield self._argument(role, sharding)
