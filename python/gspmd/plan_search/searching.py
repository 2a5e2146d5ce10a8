"""The search itself: from known ways to split a model, one decision after the other, each priced by partitioning."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.costs.program_cost import cost_of
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported, UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import following, tell
from gspmd.explanations.explanation import explain
from gspmd.plan_search.bound import largest_bound, work_bound_s
from gspmd.plan_search.decisions import decisions_of
from gspmd.plan_search.global_starts import GlobalStarts
from gspmd.plan_search.judging import check_judge, compiled_outcome
from gspmd.plan_search.mesh_search import MeshSearch, is_better
from gspmd.plan_search.meshes import is_annotated, meshes_to_try, put_mesh
from gspmd.plan_search.pipelining import propose_pipeline
from gspmd.plan_search.plan import PlanFile, ShardingPlan
from gspmd.plan_search.pricing import Dims, Helpers, PlanPrices, Question, State
from gspmd.plan_search.role import Roles
from gspmd.plan_search.roles import find_roles, tied_of
from gspmd.plan_search.solver import check_solver, has_solver
from gspmd.plan_search.starts import AS_IT_IS, starts
from gspmd.reading import read_program
from gspmd.runtime.executable_module import is_partitioned
from gspmd.suggestions.suggesting import Suggestion, base_of, suggest
from gspmd.transforms.machine.target_file import read_hardware, read_target
from gspmd.transforms.machine.targets import NEUTRAL
from gspmd.transforms.ops.custom_rules import RuleSource

TIME_LIMIT_S = 60.0
"""Seconds after which a search ends with the best that it has, where nothing else is said."""
_MESHES_SEARCHED = 2  # of many, those that begin best
# The parts of the time limit by which these end.
_BEGINNING, _PARTS, _CONSTRAINING = 0.3, (0.12, 0.32, 0.45, 0.54, 0.68, 0.77), 0.83
_WEIGHING = 0.93
_ROUNDS, _CONSTRAINT_WORTH = 4, 0.99  # of constraints: how many, and what a step may take with one at most
_HELPERS = 3  # processes that price beside this one
_REFUSED = 3  # for each plan that is to be compiled, how many are tried where the compiler refuses some
_SOLVING, _PROPOSING, _SOLVING_S = 0.06, 0.1, 30.0  # the part of the time limit for each integer program, and the most
SOLVERS = ("auto", "highs", "none")
"""What may be said of the solver of integer programs: whether it is used if there is one, needed, or not used."""


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
    solver: str = "auto",
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
    `solver` says whether the integer program over all decisions is solved, whose solution is one more start: `"auto"`
    where HiGHS is installed (`gspmd[search]`), `"highs"` or `"none"`.

    Errors: those of `gspmd.partition`; UsageError for a mesh or limits that make no sense, and without the solver
    that is asked for; Unsupported where no plan that was found fits into memory; InputError and ParseError for a bad
    file.
    """
    started = time.monotonic()
    _check(memory, time_limit_s)
    if not is_count(compiled):
        raise UsageError(f"compiled is {shown(compiled)}, expected a number of plans", code=Code.BAD_VALUE)
    if solver not in SOLVERS:
        raise UsageError(f"solver is {shown(solver)}, expected one of {', '.join(SOLVERS)}", code=Code.BAD_VALUE)
    if solver == "highs":
        check_solver()
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
        search_ = _WholeSearch(module, target, memory, arguments, file, started, time_limit_s, helpers, solver)
        over: list[MeshSearch] = []
        for found_mesh in meshes_to_try(module, mesh, num_partitions, target):
            if not over or time.monotonic() < started + _BEGINNING * time_limit_s:
                over.append(search_.begun(found_mesh))
        over.sort(key=lambda each: each.rank_of(each.state))
        searched = over[:_MESHES_SEARCHED]
        for number, each in enumerate(searched, 1):
            each.improve([started + part * number / len(searched) * time_limit_s for part in _PARTS])
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
    solver: str = "auto"

    def begun(self, mesh: Mesh) -> MeshSearch:
        """A search over a mesh that knows where it may start."""
        module = read_program(self.module)
        put_mesh(module, mesh)
        hardware = read_hardware(self.target, mesh)
        explained = explain(module, **self.arguments)
        work_s = work_bound_s(module, explained.explainer.completion.annotated, hardware, self.arguments)
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
        if self.solver == "none" or not has_solver():
            return MeshSearch(prices, pinned, states, largest_bound(work_s))
        labels = [role.label for role in roles.roles]
        kept = {n: dims for n, dims in enumerate(states[AS_IT_IS]) if dims is not None and labels[n] in pinned}
        whole = None if pinned or is_annotated(module) else prices.price(states[AS_IT_IS], is_rough=True)
        whole_bytes = whole.memory_bytes if whole is not None and not whole.sent_bytes else 0
        view = GlobalStarts(explained, roles, tied, hardware, kept, whole_bytes)
        if not view.is_small:
            return MeshSearch(prices, pinned, states, largest_bound(work_s))
        solving_s = min(_SOLVING * self.time_limit_s, _SOLVING_S)
        for name, state in view.states(most, solving_s).items():
            pairs = zip(labels, states[AS_IT_IS], state, strict=True)
            states[name] = tuple(before if label in pinned else after for label, before, after in pairs)
        propose = functools.partial(propose_pipeline, view, explained, self.target, most)
        return MeshSearch(prices, pinned, states, largest_bound(work_s, view.least_s(most, solving_s)), propose)

    def _given_by_file(self, roles: Roles, mesh: Mesh, file: PlanFile) -> State:
        """The decisions of a file. Errors: UsageError for what does not fit the program or the mesh."""
        axes, found = dict(mesh.axes), list[Dims | None]()
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

    def finished(self, best: MeshSearch, tried: int) -> ShardingPlan:
        """The plan, with constraints and with what its decisions are worth. Errors: Unsupported."""
        prices, state, outcome = best.prices, best.state, best.outcome
        if outcome is None:
            api.partition(prices.annotated(state), **self.arguments)  # says why it cannot be partitioned
            raise AssertionError("it can")
        module, constraints, outcome = self._constrained(best, outcome)
        decisions = decisions_of(best, lambda: self._left_s(_WEIGHING) > 0)
        fits = outcome.fits  # else all known ways are looked at, whatever the time is
        baselines = best.baselines(lambda: not fits or self._left_s(1.0) > 0)
        if best.take_best():
            found = best.outcome
            if found is not None and is_better(found, outcome):
                module, constraints, outcome = prices.annotated(best.state), (), found
                decisions = decisions_of(best, lambda: False)
            else:
                best.state = state
        if not outcome.fits:
            most, needed = prices.question.most_bytes, outcome.memory_bytes
            raise Unsupported(
                f"no plan that was found fits: a device has {most:.0f} bytes to use, and needs {needed} "
                f"({needed / most:.2f} times as many): {needed - most:.0f} are missing. {self._held(module)}",
                hint="use more devices or more of their memory, search longer, or hold less for the backward pass",
                code=Code.NO_PLAN,
            )
        return ShardingPlan(
            mesh=prices.mesh,
            target=self.target,
            outcome=outcome,
            most_bytes=prices.question.most_bytes,
            bound=best.bound,
            baselines=baselines,
            decisions=decisions,
            reference=best.outcome or outcome,
            constraints=constraints,
            tried=tried,
            seconds=time.monotonic() - self.started,
            is_complete=best.is_complete,
            module=module,
            pipelining=best.propose(outcome.step_s, min(_PROPOSING * self.time_limit_s, _SOLVING_S)),
        )

    def _held(self, module: ir.Module) -> str:
        """What a device holds with these annotations, in words."""
        memory = cost_of(api.partition(module, **self.arguments).module, self.target).memory
        return f"arguments take {memory.arguments}, and what is made of them up to {memory.temporaries}"

    def judged(self, plan: ShardingPlan, best: MeshSearch, count: int) -> ShardingPlan:
        """The plan, or another one, which the compiler makes faster; with what it makes of it."""
        prices, judged = best.prices, list[tuple[float, int, State, ShardingPlan]]()
        contenders = [best.state, *best.contenders(plan.outcome)][: _REFUSED * count]
        for number, state in enumerate(contenders):
            if len(judged) == count:
                break
            tell("compiling the best plans", len(judged) + 1, count)
            outcome, each = prices.exact.get(state), plan
            if number and outcome is not None:
                each = dataclasses.replace(plan, outcome=outcome, constraints=(), module=prices.annotated(state))
            with following(_nobody), telling(_nobody):
                made = compiled_outcome(each.module, self.target, self.arguments, prices.question.most_bytes)
            if made is not None:
                judged.append((made.step_s, number, state, dataclasses.replace(each, compiled=made)))
        if not judged:
            raise Unsupported(
                f"the compiler of {self.target} makes none of the {len(contenders)} best plans fit into "
                f"{prices.question.most_bytes:.0f} bytes of a device",
                hint="use more devices or more of their memory, or see what it says with gspmd compile",
                code=Code.NO_PLAN,
            )
        *_, state, chosen = min(judged, key=lambda each: each[:2])
        if state == best.state:
            return chosen
        best.state = state
        return dataclasses.replace(
            chosen,
            decisions=decisions_of(best, lambda: self._left_s(1.0) > 0),
            reference=best.outcome or chosen.outcome,
        )

    def _left_s(self, part: float) -> float:
        return max(self.started + part * self.time_limit_s - time.monotonic(), 0.0)

    def _constrained(self, best: MeshSearch, outcome: Outcome) -> tuple[ir.Module, tuple[Suggestion, ...], Outcome]:
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


def _nobody(said: object) -> None:
    """Hears of the passes of a trial, and what they say of a program that nobody asked for."""
