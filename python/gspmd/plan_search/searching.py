"""The search: one problem for each mesh, whose best solutions are priced by partitioning."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.program_cost import cost_of
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported, UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import following, tell
from gspmd.dialect.sharding import TensorSharding
from gspmd.pass_manager.collection import collection_paused
from gspmd.plan_search.bound import WORK, Bound, work_bound_s
from gspmd.plan_search.judging import check_judge, compiled_outcome
from gspmd.plan_search.mesh_plans import MeshPlans
from gspmd.plan_search.meshes import meshes_to_try, put_mesh
from gspmd.plan_search.pipelining import propose_pipeline
from gspmd.plan_search.plan import ShardingPlan
from gspmd.plan_search.plan_decision import PlanDecision
from gspmd.plan_search.plan_file import PlanFile
from gspmd.plan_search.pricing import SearchSettings, State, dims_of, nobody, rank, sharding_of
from gspmd.reading import read_program
from gspmd.runtime.executable_module import is_partitioned
from gspmd.suggestions.annotating import ValueAnnotation
from gspmd.suggestions.source_patch import SourceLines
from gspmd.suggestions.suggesting import base_of
from gspmd.transforms.machine.target_file import read_hardware, read_target
from gspmd.transforms.machine.targets import NEUTRAL
from gspmd.transforms.ops.custom_rules import RuleSource

TIME_LIMIT_S = 60.0
"""The default time limit of a search in seconds."""
_WORSE = 1.25  # largest cost of the solution of a mesh whose plans are partitioned, relative to the best mesh
_SEARCHED = 2  # the number of these meshes, those with the best first plans, for which more plans are partitioned
_REFUSED = 3  # attempts for each plan to compile, since the compiler may refuse some


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
    """Find annotations for a program: shardings of its arguments, and constraints that lower the cost.

    `program` and `num_partitions`, `target`, `replicate_unsupported`, `custom_rules` and `options` are those of
    `gspmd.partition`, but the program need not be annotated; existing annotations are kept. `mesh` is sizes by name, or
    `"auto"` for the best mesh of one or two axes; by default it is the program's, or auto if it has none. `memory`
    limits the memory of a device: a fraction up to 1, or a number of bytes. The search ends after about `time_limit_s`
    seconds with the best plan so far. `plan` is the file of an earlier plan to start from, whose pinned decisions are
    kept. `compiled` is the number of best plans that the compiler of the target, a topology, compiles; the plan with
    the fastest schedule is chosen. Compilation does not count towards the time limit.

    Errors: those of `gspmd.partition`; UsageError for an invalid mesh or limit; Unsupported if no plan found fits into
    memory; InputError and ParseError for a bad file.
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
    search_ = _SharedState(module, target, memory, arguments, file, started, time_limit_s)
    with collection_paused():
        over = [search_.posed(each) for each in search_.first(meshes_to_try(module, mesh, num_partitions, target))]
        best = search_.best_of(sorted(over, key=lambda each: each.best.cost_s))
        found = search_.finished(best, sum(len(each.prices.found) for each in over))
    return search_.judged(found, best, compiled) if compiled else found


def _check(memory: Any, time_limit_s: Any) -> None:
    """Raise UsageError for an invalid limit."""
    for name, value, expected in (
        ("memory", memory, "a fraction of a device's memory up to 1, or a number of bytes"),
        ("time_limit_s", time_limit_s, "a number of seconds"),
    ):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and value >= 0 and (name != "memory" or value > 0)):
            raise UsageError(f"{name} is {shown(value)}, expected {expected}", code=Code.BAD_VALUE)


def _readable(program: Any, num_partitions: int | None) -> ir.Module:
    """The program; ingested if its annotations have no meshes."""
    module = read_program(program)
    if is_partitioned(module):
        raise UsageError(
            "the program is already partitioned", hint="give the one before", code=Code.PARTITIONED_ALREADY
        )
    return base_of(module, num_partitions).module if "mhlo.sharding" in str(module) else module


@dataclasses.dataclass(frozen=True, slots=True)
class _SharedState:
    """The state of a search that all meshes share."""

    module: ir.Module
    target: str
    memory: float
    arguments: Mapping[str, Any]
    file: PlanFile | None
    started: float
    time_limit_s: float

    def has_time(self) -> bool:
        """Whether time is left."""
        return time.monotonic() < self.started + self.time_limit_s

    def first(self, meshes: Sequence[Mesh]) -> Iterator[Mesh]:
        """The first mesh, and others while time is left."""
        for number, mesh in enumerate(meshes):
            if not number or self.has_time():
                tell("solving over " + ", ".join(f"{name}={size}" for name, size in mesh.axes), number + 1, len(meshes))
                yield mesh

    def posed(self, mesh: Mesh) -> MeshPlans:
        """The problem over a mesh, and its solution."""
        module = read_program(self.module)
        put_mesh(module, mesh)
        hardware = read_hardware(self.target, mesh)
        most = self.memory * hardware.memory_bytes if self.memory <= 1 else self.memory
        plans = MeshPlans(module, mesh, SearchSettings(self.target, most, self.arguments), self.has_time)
        if self.file is not None:
            plans.start_from(self._given_by_file(plans, self.file), self.file.pinned)
        return plans

    def best_of(self, over: Sequence[MeshPlans]) -> MeshPlans:
        """The plans over the best mesh. Meshes whose solution costs much more than the best are skipped."""
        least, fits = over[0].best.cost_s, False
        for each in over if len(over) > 1 else ():
            if self.has_time() and (each.best.cost_s <= _WORSE * least or not fits):
                each.begin()
                fits |= each.outcome is not None and each.outcome.fits
        begun = sorted((each for each in over if each.prices.found), key=lambda each: rank(each.outcome)) or over[:1]
        for number, each in enumerate(begun[:_SEARCHED]):
            if not number or self.has_time():
                each.search()
        return min(begun, key=lambda each: rank(each.outcome))

    def _given_by_file(self, plans: MeshPlans, file: PlanFile) -> State:
        """The decisions of a file. Errors: UsageError if they do not fit the program or the mesh."""
        axes, found = dict(plans.mesh.axes), list[TensorSharding | None]()
        for role in plans.roles:
            dims = file.dims.get(role.label) if role.given is None else None
            names = {name for listed in dims or () for name in listed}
            if dims is not None and (len(dims) != role.type.rank or not names <= axes.keys()):
                raise UsageError(
                    f"the plan's sharding of {role.label} does not fit {role.type.brief} over this mesh",
                    hint="start without the plan, or over its mesh",
                    code=Code.OPTIONS_DISAGREE,
                )
            found.append(None if dims is None else sharding_of(plans.mesh, dims))
        return tuple(found)

    def finished(self, best: MeshPlans, tried: int) -> ShardingPlan:
        """The plan, with the runner-up of each decision. Errors: Unsupported."""
        prices, outcome = best.prices, best.outcome
        if outcome is None:
            api.partition(
                prices.annotated(best.state), **self.arguments
            )  # raises the reason why it cannot be partitioned
            raise AssertionError("it can")
        module = prices.annotated(best.state)
        if not outcome.fits:
            most, needed = prices.question.most_bytes, outcome.memory_bytes
            raise Unsupported(
                f"no plan that was found fits: a device has {most:.0f} bytes to use, and needs {needed} "
                f"({needed / most:.2f} times as many): {needed - most:.0f} are missing. {self._held(module)}",
                hint="use more devices or more of their memory, or hold less for the backward pass",
                code=Code.NO_PLAN,
            )
        pipeline = None
        if self.has_time():
            pipeline = propose_pipeline(best, outcome.step_s)
        work_s = work_bound_s(
            prices.module, best.problem.explained.explainer.completion.annotated, read_hardware(self.target, best.mesh),
            self.arguments,
        )  # fmt: skip
        return ShardingPlan(
            mesh=best.mesh,
            target=self.target,
            outcome=outcome,
            most_bytes=prices.question.most_bytes,
            bound=Bound(work_s, WORK),
            gap=best.best.gap,
            baselines=best.baselines(),
            decisions=_decisions(best),
            tried=tried,
            seconds=time.monotonic() - self.started,
            is_complete=best.is_complete,
            module=module,
            pipelining=pipeline,
        )

    def _held(self, module: ir.Module) -> str:
        """The memory of a device with these annotations, in words."""
        memory = cost_of(api.partition(module, **self.arguments).module, self.target).memory
        return f"arguments take {memory.arguments}, temporaries up to {memory.temporaries}"

    def judged(self, plan: ShardingPlan, best: MeshPlans, count: int) -> ShardingPlan:
        """The plan that is fastest after compilation, with its compiled figures."""
        prices, judged = best.prices, list[tuple[float, int, State, ShardingPlan]]()
        contenders = [best.state, *best.contenders(plan.outcome)][: _REFUSED * count]
        for number, state in enumerate(contenders):
            if len(judged) == count:
                break
            tell("compiling the best plans", len(judged) + 1, count)
            outcome, each = prices.found.get(state), plan
            if number and outcome is not None:
                each = dataclasses.replace(plan, outcome=outcome, module=prices.annotated(state))
            with following(None), telling(nobody):
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
        return dataclasses.replace(chosen, decisions=_decisions(best))


def _decisions(best: MeshPlans) -> tuple[PlanDecision, ...]:
    """The decision on each role, with its runner-up, and the changes of the source for values inside."""
    annotations = [
        ValueAnnotation(value, sharding)
        for role, sharding in zip(best.roles, best.state, strict=True)
        if sharding is not None
        for value in role.values
    ]
    patches = {each.value: patch for each, patch in SourceLines(best.prices.module).patches(annotations).items()}
    found = []
    for number, (role, sharding) in enumerate(zip(best.roles, best.state, strict=True)):
        next_ = best.next_best.get(number)
        other = None if next_ is None else next_.state[number]
        said = sharding if role.given is None else role.given
        is_told = next_ is not None and other is not None and sharding == best.best.state[number]
        found.append(
            PlanDecision(
                label=role.label,
                arguments=role.names,
                shape=role.type.shape,
                type=role.type.brief,
                dims=None if said is None else dims_of(said),
                is_given=role.given is not None,
                is_pinned=number in best.fixed,
                next_dims=dims_of(other) if is_told and other is not None else None,
                next_cost=next_.cost_s / best.best.cost_s if is_told and next_ is not None else None,
                values=role.values,
                patches=tuple(dict.fromkeys(patches[value] for value in role.values if value in patches)),
            )
        )
    return tuple(found)
