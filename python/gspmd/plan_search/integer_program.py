"""All decisions at once: an integer program over the kinds of values and the ways to run the steps between them.

For each kind of value one way to split it is chosen, and for each kind of contraction one way to run it. Between a kind
and what a step needs of it there is a flow: how much of the kind's way becomes how much of the needed way, at the price
of moving it. So whoever chooses pays for all reshards, and the program stays linear. What a device holds at the moments
at which most is held is a constraint for each of these.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Mapping

from gspmd.dialect.rule import NEED_REPLICATION
from gspmd.plan_search.solver import LinearProgram, LinearSolution, solve
from gspmd.plan_search.value_kinds import HeldMoment, KindsOfProgram, Step, StepUse
from gspmd.plan_search.ways import Way, Ways

MOST_GROUPS = 3
"""Of axes: with more the ways, which grow exponentially with them, are not even counted."""
_WHOLE = 1e-5  # what is nearer to 0 or 1 is whole
_MOST_COLUMNS = 300_000  # of flows, with which an integer program is still solved in seconds


@dataclasses.dataclass(frozen=True, slots=True)
class PipelineStages:
    """The program as a pipeline: each of `count` stages has its part of the layers, and works on microbatches in turn.

    What is not counted by examples, whose color is `batch`, is brought to where it is needed for each microbatch.
    """

    count: int
    microbatches: int
    batch: int


@dataclasses.dataclass(frozen=True, slots=True)
class GlobalChoice:
    """A way for each kind of value, the seconds that the integer program counts for all of them, and its bound."""

    ways: Mapping[int, Way]
    cost_s: float
    bound_s: float


class GlobalView:
    """The integer program of a program over a mesh. `given` are the ways of kinds that are not to be chosen.

    With `stages` it is about one stage of a pipeline, on the devices that this has.
    """

    def __init__(
        self, model: KindsOfProgram, ways: Ways, given: Mapping[int, Way], stages: PipelineStages | None = None
    ) -> None:
        self.model, self.ways, self.given, self.stages = model, ways, given, stages
        used = {use.kind for step in model.steps for use in step.uses} | set(model.work_s)
        self.used = sorted(used | {kind for moment in model.held for kind in moment.bytes})

    @property
    def is_small(self) -> bool:
        """Whether it can be solved in seconds."""
        if len(self.ways.groups) > MOST_GROUPS:
            return False
        counts = {kind: len(self.ways.of_value(self.model.kinds[kind].shape)) for kind in self.used}
        return sum(counts[use.kind] ** 2 for step in self.model.steps for use in step.uses) <= _MOST_COLUMNS

    def choose(self, most_bytes: float, time_limit_s: float) -> GlobalChoice | None:
        """The choice that takes least where arithmetic, memory traffic and communication follow each other.

        `most_bytes` is what a device may hold, 0 for any number. None where there is none, or the time was too short.
        The relaxation, in which choices may be mixed, is solved first, since that is fast and it mostly mixes none.
        Where it does and there is no time for more, each kind gets the way that it has most of, and may hold more.
        """
        until = time.monotonic() + time_limit_s
        build = _Build(self, most_bytes, is_bound=False)
        found = solve(build.program, time_limit_s, is_relaxed=True)
        if not found.is_possible or not found.values:
            return None
        if build.is_mixed(found):
            whole = solve(build.program, until - time.monotonic()) if until > time.monotonic() else found
            found = whole if whole.values or not whole.is_possible else found
        return GlobalChoice(build.chosen(found), found.cost, found.bound) if found.values else None

    def cost_s(self, most_bytes: float, time_limit_s: float) -> float:
        """The seconds of the best choice where choices may be mixed; infinite where there is none."""
        build = _Build(self, most_bytes, is_bound=False)
        found = solve(build.program, time_limit_s, is_relaxed=True)
        return found.cost if found.values else math.inf

    def least_s(self, most_bytes: float, time_limit_s: float) -> float:
        """Seconds that no step of the program takes less than, as far as the integer program can say so.

        Arithmetic and communication are hidden behind each other, only contractions compute, a value is moved once
        however many steps need it, choices may be mixed, and of what is held only the arguments count.
        """
        build = _Build(self, most_bytes, is_bound=True)
        return max(solve(build.program, time_limit_s, is_relaxed=True).bound, 0.0)


class _Build:
    """Writes the columns and rows."""

    def __init__(self, view: GlobalView, most_bytes: float, is_bound: bool) -> None:
        self.view, self.ways, self.model, self.is_bound = view, view.ways, view.model, is_bound
        self.program = LinearProgram()
        self.part = 1 / view.stages.count if view.stages is not None else 1.0
        self.columns: dict[int, dict[Way, int]] = {}
        self.compute: dict[int, float] = defaultdict(float)  # seconds, by column
        self.send: dict[int, float] = defaultdict(float)
        for kind in view.used:
            self._kind(kind)
        for step in self.model.steps:
            if step.contracts:
                self._contraction(step)
            else:
                self._follow(step)
        if most_bytes:
            for moment in self.model.held:
                if moment.is_start or not is_bound:
                    self._memory(moment, most_bytes)
        self._costs()

    def is_mixed(self, solution: LinearSolution) -> bool:
        """Whether a kind has parts of several ways."""
        parts = (solution.values[column] for columns in self.columns.values() for column in columns.values())
        return any(_WHOLE < part < 1 - _WHOLE for part in parts)

    def chosen(self, solution: LinearSolution) -> dict[int, Way]:
        """The way of each kind that has the most of it."""
        return {
            kind: max(columns, key=lambda way: solution.values[columns[way]]) for kind, columns in self.columns.items()
        }

    def _kind(self, kind: int) -> None:
        shape = self.model.kinds[kind].shape
        given = self.view.given.get(kind)
        choices = [given] if given is not None else self.ways.of_value(shape)
        columns = {way: self.program.column(is_integer=not self.is_bound, most=1.0) for way in choices}
        self.program.row(1.0, 1.0, [(column, 1.0) for column in columns.values()])
        self.columns[kind] = columns
        work_s = 0.0 if self.is_bound else self.model.work_s.get(kind, 0.0)
        for way, column in columns.items():
            self.compute[column] += work_s / self.ways.split(way)

    # ---- steps ----

    def _contraction(self, step: Step) -> None:
        """Its ways are chosen, and what it takes and makes flows to and from these."""
        ways = self.ways.of_step(step)
        columns = {way: self.program.column(most=1.0) for way in ways}
        self.program.row(1.0, 1.0, [(column, 1.0) for column in columns.values()])
        for way, column in columns.items():
            if self.is_bound:
                self.compute[column] += step.compute_s / self.ways.split(way)
            else:
                self.compute[column] += self.ways.run_s(step, way)
                self.send[column] += self.ways.halo_s(step, way)
        for use in step.uses:
            needs: dict[tuple[Way, tuple[bool, ...]], list[int]] = defaultdict(list)
            for way, column in columns.items():
                needs[self.ways.needed(step, use, way)].append(column)
            self._flow(use, self.columns[use.kind], needs)

    def _follow(self, step: Step) -> None:
        """It is run as the largest of its tensors is split, and the others flow to and from that."""
        center = max(step.uses, key=lambda use: use.bytes * use.runs)
        mapping = step.rule.tensors[center.position]
        needs: dict[int, dict[tuple[Way, tuple[bool, ...]], list[int]]] = {}
        for way, column in self.columns[center.kind].items():
            factors = tuple(mapping[at][0] if at >= 0 and mapping[at] else -1 for at in way)
            bad = tuple(at >= 0 and step.rule.kinds[at] is NEED_REPLICATION for at in factors)
            whole = tuple(-1 if is_bad else at for is_bad, at in zip(bad, way, strict=True))
            if any(bad):
                self.send[column] += self._runs(center) * self._move_s(center, way, (False,) * len(way), whole)
            run = tuple(-1 if is_bad else at for is_bad, at in zip(bad, factors, strict=True))
            if not self.is_bound:
                self.send[column] += self.ways.halo_s(step, run)
            for use in step.uses:
                if use.position != center.position and use.kind != center.kind:
                    need = self.ways.needed(step, use, run)
                    needs.setdefault(use.position, defaultdict(list))[need].append(column)
        for use in step.uses:
            if use.position in needs:
                self._flow(use, self.columns[use.kind], needs[use.position])

    def _flow(
        self, use: StepUse, kind: Mapping[Way, int], needs: Mapping[tuple[Way, tuple[bool, ...]], list[int]]
    ) -> None:
        """Columns for how much of each way becomes each that is needed, or the other way around."""
        runs = self._runs(use)
        out: dict[Way, list[int]] = {way: [] for way in kind}
        for (need, partial), columns in needs.items():
            into = []
            for way in kind:
                have, want = (need, way) if use.is_result else (way, need)
                cost_s = runs * self._move_s(use, have, partial, want)
                column = self.program.column()
                self.send[column] += cost_s
                out[way].append(column)
                into.append(column)
            self.program.row(0.0, 0.0, [*((c, 1.0) for c in into), *((c, -1.0) for c in columns)])
        for way, flows in out.items():
            self.program.row(0.0, 0.0, [*((c, 1.0) for c in flows), (kind[way], -1.0)])

    def _move_s(self, use: StepUse, have: Way, partial: tuple[bool, ...], want: Way) -> float:
        return 0.0 if have == want and not any(partial) else self.ways.move_s(use.bytes, have, partial, want)

    def _runs(self, use: StepUse) -> float:
        runs, stages = use.new_runs if self.is_bound else use.runs, self.view.stages
        if stages is None or use.is_result or stages.batch in self.model.kinds[use.kind].colors:
            return runs
        return runs * stages.microbatches

    # ---- memory and costs ----

    def _memory(self, moment: HeldMoment, most_bytes: float) -> None:
        entries = [
            (column, self.part * held / self.ways.split(way) / most_bytes)
            for kind, held in moment.bytes.items()
            for way, column in self.columns[kind].items()
        ]
        self.program.row(-math.inf, 1.0 - moment.rest / most_bytes, entries)

    def _costs(self) -> None:
        if not self.is_bound:
            for seconds in (self.compute, self.send):
                for column, cost_s in seconds.items():
                    self.program.costs[column] += self.part * cost_s
            return
        last = self.program.column(cost=1.0)
        for seconds in (self.compute, self.send):
            self.program.row(0.0, math.inf, [(last, 1.0), *((column, -cost_s) for column, cost_s in seconds.items())])
