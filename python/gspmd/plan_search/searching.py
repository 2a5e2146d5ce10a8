"""The search itself: from known ways to split a model, one decision after the other, each priced by partitioning."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.costs.text import time_text
from gspmd.costs.work import work_of
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported, UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axis_name
from gspmd.dialect.progress import following, tell
from gspmd.explanations.explanation import explain
from gspmd.plan_search.judging import check_judge, compiled_outcome
from gspmd.plan_search.meshes import meshes_to_try, put_mesh
from gspmd.plan_search.plan import ArgumentDecision, PlanFile, ShardingPlan
from gspmd.plan_search.pricing import Helpers, PlanPrices, Question, State, rank
from gspmd.plan_search.role import Roles
from gspmd.plan_search.roles import find_roles, tied_of
from gspmd.plan_search.starts import (
    AS_IT_IS,
    TENSOR,
    TWO_DIMENSIONAL,
    neighbors,
    starts,
    tensor_parallel,
    two_dimensional,
)
from gspmd.reading import read_program
from gspmd.runtime.executable_module import is_partitioned
from gspmd.suggestions.suggesting import Suggestion, base_of, suggest
from gspmd.transforms.machine.target_file import read_hardware, read_target
from gspmd.transforms.machine.targets import NEUTRAL
from gspmd.transforms.ops.custom_rules import RuleSource

TIME_LIMIT_S = 60.0
"""Seconds after which a search ends with the best that it has, where nothing else is said."""
_WORTH = 1 - 1e-4  # what is less by a smaller part is equal
_MESHES_SEARCHED = 2  # of many, those that begin best
# The parts of the time limit by which these end.
_BEGINNING, _PARTS, _CONSTRAINING = 0.3, (0.4, 0.6, 0.75), 0.85
_ROUNDS, _CONSTRAINT_WORTH = 4, 0.99  # of constraints: how many, and what a step may take with one at most
_HELPERS = 3  # processes that price beside this one
_LOOKED_AT_AGAIN = 4  # of the states that are best by rough prices


def search(
    program: Any,
    num_partitions: int | None = None,
    *,
    target: str = "",
    mesh: Mapping[str, int] | str | None = None,
    memory: float = 1.0,
    time_limit_s: float = TIME_LIMIT_S,
    plan: PlanFile | str | os.PathLike[str] | None = None,
    compiled: int = 0,
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    options: Mapping[str, Any] | None = None,
) -> ShardingPlan:
    """Find annotations for a program: how its arguments are split, and constraints where these pay.

    `program` and `num_partitions`, `target`, `replicate_unsupported`, `custom_rules` and `options` are those of
    `gspmd.partition`, but that the program need not be annotated; what is annotated is kept. `mesh` is sizes by name,
    or `"auto"` for the best of all meshes of one or two axes; by default it is the program's, and auto where it has
    none. `memory` is how much of a device's memory may be used: a part of it up to 1, or a number of bytes. The search
    ends after about `time_limit_s` seconds with the best plan that it has. `plan` is the file of an earlier one to
    start from, with decisions that are pinned there kept. With `compiled` so many of the best plans are compiled by the
    compiler of the target, a topology, and the one is taken that is fastest in its order; that takes more time.

    Errors: those of `gspmd.partition`; UsageError for a mesh or limits that make no sense; Unsupported where no plan
    that was found fits into memory; InputError and ParseError for a bad file.
    """
    started = time.monotonic()
    _check(memory, time_limit_s)
    if not is_count(compiled):
        raise UsageError(f"compiled is {shown(compiled)}, expected a number of plans", code=Code.BAD_VALUE)
    if target not in ("", NEUTRAL):
        read_target(target)
    arguments: dict[str, Any] = {
        "replicate_unsupported": replicate_unsupported,
        "custom_rules": custom_rules,
        "target": target,
        "options": options,
    }
    if compiled:
        check_judge(target)
    file = plan if plan is None or isinstance(plan, PlanFile) else PlanFile.read(plan)
    if mesh is None and file is not None:
        mesh = file.mesh
    module = _readable(program, num_partitions)
    with Helpers(0 if custom_rules else min(_HELPERS, (os.cpu_count() or 1) - 1)) as helpers:
        search_ = _WholeSearch(module, target, memory, arguments, file, started, time_limit_s, helpers)
        over: list[_MeshSearch] = []
        for found_mesh in meshes_to_try(module, mesh, num_partitions, target):
            if not over or time.monotonic() < started + _BEGINNING * time_limit_s:
                over.append(search_.begun(found_mesh))
        over.sort(key=lambda each: each.rank_of(each.state))
        searched = over[:_MESHES_SEARCHED]
        for number, each in enumerate(searched, 1):
            each.improve(*(started + part * number / len(searched) * time_limit_s for part in _PARTS))
        best = min(searched, key=lambda each: each.rank_of(each.state))
        found = search_.finished(best, sum(len(each.prices.rough) + len(each.prices.exact) for each in over))
        return search_.judged(found, best, compiled) if compiled else found


def _check(memory: Any, time_limit_s: Any) -> None:
    """Raise UsageError for what is no limit."""
    for name, value, expected in (
        ("memory", memory, "a part of a device's memory up to 1, or a number of bytes"),
        ("time_limit_s", time_limit_s, "a number of seconds"),
    ):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and value >= 0 and (name != "memory" or value > 0)):
            raise UsageError(f"{name} is {shown(value)}, expected {expected}", code=Code.BAD_VALUE)


def _readable(program: Any, num_partitions: int | None) -> ir.Module:
    """The program; one that is annotated in another notation than meshes as ingest leaves it."""
    module = read_program(program)
    if is_partitioned(module):
        raise UsageError(
            "the program is already partitioned", hint="give the one before", code=Code.PARTITIONED_ALREADY
        )
    return base_of(module, num_partitions).module if "mhlo.sharding" in str(module) else module


class _MeshSearch:
    """The search over one mesh: the best state so far, by rough prices first and then by exact ones."""

    def __init__(self, prices: PlanPrices, ideal_s: float, pinned: frozenset[str], states: Mapping[str, State]) -> None:
        self.prices, self.ideal_s, self.pinned, self.states = prices, ideal_s, pinned, dict(states)
        self.is_rough = True
        while any(state not in prices.rough for state in states.values()):
            prices.price_some(list(states.values()), is_rough=True)
        self.state = min(states.values(), key=self.rank_of)
        self.is_complete = False

    @property
    def outcome(self) -> Outcome | None:
        return self._price(self.state)

    def improve(self, rough_until: float, until: float, end: float) -> None:
        """Change decisions by rough prices, then those of the best states by exact ones, and leave open what may be."""
        self._try_tensor_parallel(rough_until)
        self._descend(rough_until)
        self._look_again(until)
        self._descend(until)
        self._open(end)

    def rank_of(self, state: State) -> tuple[float, ...]:
        """What states are compared by."""
        return rank(self._price(state))

    def _price(self, state: State) -> Outcome | None:
        return self.prices.price(state, self.is_rough)

    def _look_again(self, until: float) -> None:
        """Go on with exact prices, from the best of the known ways and of what is best by rough prices."""
        self.is_rough, rough = False, self.prices.rough
        known = sorted((state for state in rough if rough[state] is not None), key=lambda state: rank(rough[state]))
        best = list(dict.fromkeys([self.state, *self.states.values(), *known[:_LOOKED_AT_AGAIN]]))
        while any(state not in self.prices.exact for state in best):
            self.prices.price_some(best)
            if time.monotonic() > until:
                best = [self.state, *self.states.values()]
        self.state = min(best, key=self.rank_of)

    def baselines(self) -> dict[str, Outcome]:
        """What the known ways cost."""
        found = {name: self.prices.price(state) for name, state in self.states.items()}
        return {name: outcome for name, outcome in found.items() if outcome is not None}

    def _try_tensor_parallel(self, until: float) -> None:
        if self.pinned:
            return
        state, changes = tensor_parallel(self.prices.roles, self.prices.mesh)
        for change in changes:
            if time.monotonic() > until:
                break
            other = change(state)
            if _is_better(self._price(other), self._price(state)):
                state = other
        self.states[TENSOR] = state
        if len(self.prices.mesh.axes) > 1:
            self.states[TWO_DIMENSIONAL] = two_dimensional(self.prices.roles, self.prices.mesh, state)
        self.state = min((self.state, *self.states.values()), key=self.rank_of)

    def _descend(self, until: float) -> None:
        """Take the first decision that is better than the one there is, until none is or the time is up."""
        known, position, unchanged = self.prices.known(self.is_rough), 0, 0
        self.is_complete = False
        moves = self._moves()
        while unchanged < len(moves):
            other = moves[position % len(moves)]
            if other not in known:
                if time.monotonic() > until:
                    return
                self._tell(position % len(moves), len(moves))
                start = position % len(moves)
                self.prices.price_some([*moves[start:], *moves[:start]], self.is_rough)
            position, unchanged = position + 1, unchanged + 1
            if _is_better(self._price(other), self.outcome):
                self.state, unchanged = other, 0
                moves = self._moves()
        self.is_complete = True

    def _open(self, until: float) -> None:
        """Leave to propagation what it does as well: of the smallest arguments first all, then halves, then single."""
        roles = self.prices.roles.roles
        decided = [number for number, dims in enumerate(self.state) if dims is not None]
        decided = [number for number in decided if roles[number].label not in self.pinned]
        pending = [sorted(decided, key=lambda number: roles[number].bytes)]
        while pending and time.monotonic() < until:
            part = pending.pop()
            other = tuple(None if number in part else dims for number, dims in enumerate(self.state))
            if part and not _is_better(self.outcome, self._price(other)):
                self.state = other
            elif len(part) > 1:
                pending += [part[len(part) // 2 :], part[: len(part) // 2]]

    def _moves(self) -> Sequence[State]:
        """States to try next, those that are best by rough prices first where they have one."""
        moves = list(neighbors(self.prices.roles, self.prices.mesh, self.state, self.pinned))
        rough = self.prices.rough
        return moves if self.is_rough else sorted(moves, key=lambda state: rank(rough.get(state)))

    def _tell(self, number: int, total: int) -> None:
        axes = ", ".join(f"{name}={size}" for name, size in self.prices.mesh.axes)
        best = "none" if self.outcome is None else time_text(self.outcome.step_s)
        tell(f"{axes}: best step {best}, {len(self.prices.rough) + len(self.prices.exact)} plans", number + 1, total)


@dataclasses.dataclass(frozen=True, slots=True)
class _WholeSearch:
    """What is the same over all meshes."""

    module: ir.Module
    target: str
    memory: float
    arguments: Mapping[str, Any]
    file: PlanFile | None
    started: float
    time_limit_s: float
    helpers: Helpers

    def begun(self, mesh: Mesh) -> _MeshSearch:
        """A search over a mesh that knows where it may start."""
        module = read_program(self.module)
        put_mesh(module, mesh)
        hardware = read_hardware(self.target, mesh)
        explained = explain(module, **self.arguments)
        annotated = explained.explainer.completion.annotated
        flops = work_of(annotated.program, annotated=annotated).flops
        ideal_s = sum(count / hardware.flops_of(element) for (_, element), count in flops.items()) / mesh.size
        tied = tied_of(explained)
        roles = find_roles(explained, hardware, tied)
        most = self.memory * hardware.memory_bytes if self.memory <= 1 else self.memory
        mesh = explained.mesh
        question = Question(mesh.axes, mesh.name, mesh.device_ids, self.target, most, self.arguments)
        prices = PlanPrices(module, roles, question, self.helpers)
        states = starts(roles, explained.mesh)
        pinned: frozenset[str] = frozenset()
        if self.file is not None:
            state = self._given_by_file(roles, explained.mesh, self.file)
            pinned = self.file.pinned
            states = {AS_IT_IS: state} if pinned else {**states, "the plan before": state}
        tell(", ".join(f"{name}={size}" for name, size in mesh.axes), 1, 1)
        return _MeshSearch(prices, ideal_s, pinned, states)

    def _given_by_file(self, roles: Roles, mesh: Mesh, file: PlanFile) -> State:
        """The decisions of a file. Errors: UsageError for what does not fit the program or the mesh."""
        axes, found = dict(mesh.axes), []
        for role in roles.roles:
            dims = file.dims.get(role.label) if role.given is None else None
            names = {name for listed in dims or () for name in listed}
            if dims is not None and (len(dims) != role.type.rank or not names <= axes.keys()):
                raise UsageError(
                    f"the plan's sharding of {role.label} does not fit {role.type.brief} over this mesh",
                    hint="start without the plan, or over its mesh",
                    code=Code.OPTIONS_DISAGREE,
                )
            found.append(dims)
        return tuple(found)

    def finished(self, best: _MeshSearch, tried: int) -> ShardingPlan:
        """The plan, with constraints and with what its decisions are worth. Errors: Unsupported."""
        prices, state, outcome = best.prices, best.state, best.outcome
        if outcome is None:
            api.partition(prices.annotated(state), **self.arguments)  # says why it cannot be partitioned
            raise AssertionError("it can")
        module, constraints, outcome = self._constrained(best, outcome)
        if not outcome.fits:
            raise Unsupported(
                f"no plan that was found fits: a device has {prices.question.most_bytes:.0f} bytes to use, and needs "
                f"{outcome.memory_bytes} ({outcome.memory_bytes / prices.question.most_bytes:.2f} times as many)",
                hint="use more devices or more of their memory, search longer, or hold less for the backward pass",
                code=Code.NO_PLAN,
            )
        return ShardingPlan(
            mesh=prices.mesh,
            target=self.target,
            outcome=outcome,
            most_bytes=prices.question.most_bytes,
            ideal_s=best.ideal_s,
            baselines=best.baselines(),
            decisions=self._decisions(best),
            reference=best.outcome or outcome,
            constraints=constraints,
            tried=tried,
            seconds=time.monotonic() - self.started,
            is_complete=best.is_complete,
            module=module,
        )

    def judged(self, plan: ShardingPlan, best: _MeshSearch, count: int) -> ShardingPlan:
        """The plan, or one of the next best, which the compiler makes faster; with what it makes of it."""
        prices, contenders = best.prices, [(best.state, plan)]
        for state, outcome in sorted(prices.exact.items(), key=lambda item: rank(item[1])):
            if outcome is not None and outcome.fits and (state != best.state or plan.constraints):
                module = prices.annotated(state)
                contenders.append((state, dataclasses.replace(plan, outcome=outcome, constraints=(), module=module)))
        judged = []
        for number, (state, each) in enumerate(contenders[:count], 1):
            tell("compiling the best plans", number, min(count, len(contenders)))
            with following(_nobody), telling(_nobody):
                made = compiled_outcome(each.module, self.target, self.arguments, prices.question.most_bytes)
            if made is not None:
                judged.append((made.step_s, number, state, dataclasses.replace(each, compiled=made)))
        if not judged:
            return plan
        *_, state, chosen = min(judged, key=lambda each: each[:2])
        if state == best.state:
            return chosen
        best.state = state
        return dataclasses.replace(
            chosen, decisions=self._decisions(best), reference=best.outcome or chosen.outcome,
            seconds=time.monotonic() - self.started,
        )  # fmt: skip

    def _left_s(self, part: float) -> float:
        return max(self.started + part * self.time_limit_s - time.monotonic(), 0.0)

    def _constrained(self, best: _MeshSearch, outcome: Outcome) -> tuple[ir.Module, tuple[Suggestion, ...], Outcome]:
        """The annotated program with constraints on values inside, as long as one pays."""
        module, found = best.prices.annotated(best.state), list[Suggestion]()
        for _ in range(_ROUNDS):
            left_s = self._left_s(_CONSTRAINING)
            if not left_s or not outcome.fits:
                break
            with following(_nobody), telling(_nobody):
                suggestions = suggest(module, **self.arguments, tries=24, time_limit_s=left_s)
            inside = [each for each in suggestions.found if each.annotation.value.operation is not None]
            if not inside or inside[0].outcome.step_s > outcome.step_s * _CONSTRAINT_WORTH:
                break
            inside[0].annotation.apply(module)
            found.append(inside[0])
            with telling(_nobody):
                outcome = outcome_of(
                    api.partition(module, **self.arguments), self.target, best.prices.question.most_bytes
                )
        return module, tuple(found), outcome

    def _decisions(self, best: _MeshSearch) -> tuple[ArgumentDecision, ...]:
        """Each with what it is worth, as far as there is time to find out."""
        prices, state = best.prices, best.state
        found = []
        for number, (role, dims) in enumerate(zip(prices.roles.roles, state, strict=True)):
            if dims is not None and self._left_s(1.0):
                prices.price((*state[:number], None, *state[number + 1 :]))
            others = {
                other[number]: price
                for other, price in prices.exact.items()
                if price is not None and other[number] != dims and _without(other, number) == _without(state, number)
            }
            next_ = min(others, key=lambda each: rank(others[each]), default=None)
            given = (
                None
                if role.given is None
                else tuple(tuple(print_axis_name(axis, prices.mesh) for axis in axes) for axes in role.given.dim_axes())
            )
            found.append(
                ArgumentDecision(
                    label=role.label,
                    arguments=role.names,
                    shape=role.type.shape,
                    type=role.type.brief,
                    dims=given if given is not None else dims,
                    is_given=given is not None,
                    is_pinned=role.label in best.pinned,
                    worth=others.get(None),
                    next_dims=next_,
                    next_worth=others.get(next_),
                )
            )
        return tuple(found)


def _without(state: State, number: int) -> tuple[object, ...]:
    return (*state[:number], *state[number + 1 :])


def _is_better(new: Outcome | None, old: Outcome | None) -> bool:
    """Whether it is better by more than rounding."""
    if new is None or old is None or not (new.fits and old.fits):
        return rank(new) < rank(old)
    if new.step_s < old.step_s * _WORTH:
        return True
    return new.step_s <= old.step_s and new.sent_bytes < old.sent_bytes * _WORTH


def _nobody(said: object) -> None:
    """Hears of the passes of a trial, and what they say of a program that nobody asked for."""
