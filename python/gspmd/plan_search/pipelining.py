"""Whether a pipeline of the program's layers would take less than a plan without stages, and how it is written.

A pipeline cannot be had by annotations: the program has to be written with `gspmd.pipeline`. So it is estimated, by the
integer program over the devices of one stage. With S stages and M microbatches a device idles in S - 1 of M + S - 1
steps, each of which passes a microbatch to the next stage, and back; what the last stage makes and what the first one
gives back is reduced over all of them (docs/pipelining.md).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from typing import Any

from gspmd.dialect.mesh import Mesh
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.global_starts import GlobalStarts
from gspmd.plan_search.integer_program import GlobalView, PipelineStages
from gspmd.plan_search.starts import batch_color
from gspmd.plan_search.ways import Ways
from gspmd.suggestions.operation_times import bytes_of
from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.ir.program import WHILE, Op
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import read_hardware

AXIS = "stage"
_STAGES = (2, 4, 8, 16)
_PER_STAGE = (2, 4, 8)  # microbatches for each stage
_WORTH = 0.95  # what a pipeline may take at most of what is without one
_MEMORY = 0.9  # the part of a device's memory that values are given


@dataclasses.dataclass(frozen=True, slots=True)
class PipelineProposal:
    """A pipeline that would take less: `step_s` by the integer program, which counts `plain_s` without stages.

    The integer program hides nothing behind anything else, so that what a pipeline takes is rather less.

    `idle` is the part of the steps in which a device has nothing to do, and `mesh` what the devices would be.
    """

    mesh: Mesh
    stages: int
    layers: int
    microbatches: int
    step_s: float
    plain_s: float

    @property
    def idle(self) -> float:
        return (self.stages - 1) / (self.microbatches + self.stages - 1)

    def to_dict(self) -> dict[str, Any]:
        """The fields in plain values, as JSON holds them."""
        fields = {name: getattr(self, name) for name in ("stages", "layers", "microbatches", "step_s", "plain_s")}
        return {"mesh": dict(self.mesh.axes), **fields, "idle": self.idle}


@dataclasses.dataclass(frozen=True, slots=True)
class PipelinedLayers:
    """A loop over layers: how many, how many examples there are, and the bytes that one layer gives to the next."""

    count: int
    batch: int
    passed_bytes: float


def propose_pipeline(
    view: GlobalStarts, explained: Explanation, target: str, most_bytes: float, plan_s: float, time_limit_s: float
) -> PipelineProposal | None:
    """The best pipeline where it takes less than the program without one, and less than `plan_s`, a plan's step.

    None also where no layers are found. Errors: UsageError without the solver.
    """
    until = time.monotonic() + time_limit_s
    color = batch_color(view.roles, view.mesh)
    layers = None if color is None else _layers(view, explained, color)
    if layers is None or color is None or time_limit_s <= 0 or AXIS in dict(view.mesh.axes):
        return None
    most = _MEMORY * most_bytes
    plain_s = view.view.cost_s(most, time_limit_s)
    least_s, found = _WORTH * min(plain_s, plan_s), None
    for mesh, count in _meshes(view.mesh, layers):
        hardware = read_hardware(target, mesh)
        ways = Ways(mesh, hardware, AXIS, len(view.ways.groups))
        for microbatches in (count * per for per in _PER_STAGE if layers.batch % (count * per) == 0):
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            stages = PipelineStages(count, microbatches, color)
            step_s = GlobalView(view.model, ways, {}, stages).cost_s(most, left_s)
            step_s = step_s * (microbatches + count - 1) / microbatches + _passing_s(layers, stages, mesh, hardware)
            if step_s < least_s:
                least_s, found = step_s, PipelineProposal(mesh, count, layers.count, microbatches, step_s, plain_s)
    return found


def _meshes(mesh: Mesh, layers: PipelinedLayers) -> Iterator[tuple[Mesh, int]]:
    """The mesh with a part of one of its axes for stages, and how many."""
    for name, size in mesh.axes:
        for count in _STAGES:
            if size % count == 0 and layers.count % count == 0:
                rest = tuple((each, n // count if each == name else n) for each, n in mesh.axes)
                yield Mesh(((AXIS, count), *rest), name=mesh.name), count


def _passing_s(layers: PipelinedLayers, stages: PipelineStages, mesh: Mesh, hardware: Hardware) -> float:
    """The seconds of passing microbatches on, and of reducing what enters and leaves."""
    axis, devices = mesh.axis(AXIS), mesh.size // stages.count
    local = layers.passed_bytes / min(devices, layers.batch // stages.microbatches)
    steps = 2 * (stages.microbatches + stages.count - 1)
    passed_s = collective_time("collective_permute", local / stages.microbatches, stages.count, hardware, (axis,))
    return steps * passed_s + 2 * collective_time("all_reduce", local, stages.count, hardware, (axis,))


def _layers(view: GlobalStarts, explained: Explanation, color: int) -> PipelinedLayers | None:
    """The loop that most is passed through, and what it passes: the largest values that examples count."""
    program = explained.explainer.completion.annotated.program
    loops: list[PipelinedLayers] = []
    for op in program.ops:
        count = trip_count(op.ir) if op.info.name == WHILE else None
        if count is not None and count > 1:
            loops += _carried(view, explained, op, count, color)
    return max(loops, key=lambda layers: layers.count * layers.passed_bytes, default=None)


def _carried(view: GlobalStarts, explained: Explanation, loop: Op, count: int, color: int) -> Iterator[PipelinedLayers]:
    types = explained.explainer.completion.graph.slot_types
    for slot in loop.result_slots:
        kind = view.kind(slot)
        if kind is not None and color in kind.colors and kind.shape[0] != count:
            batch = kind.shape[kind.colors.index(color)]
            yield PipelinedLayers(count, batch, float(math.ceil(bytes_of(types[slot]))))
