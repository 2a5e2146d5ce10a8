"""Estimate whether a pipeline of the program's layers would be faster than a plan without stages.

Annotations cannot create a pipeline: the program has to be written with `gspmd.pipeline`. So it is estimated, by the
decision problem over the devices of one stage. With S stages and M microbatches, a device idles in S - 1 of M + S - 1
steps. Each step passes a microbatch to the next stage, and back in the backward pass; the result of the last stage and
the gradient of the first one are reduced over all stages (docs/pipelining.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.mesh_plans import MeshPlans
from gspmd.plan_search.meshes import put_mesh
from gspmd.plan_search.operation_times import bytes_of
from gspmd.plan_search.plan_problem import PlanProblem
from gspmd.reading import read_program
from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.ir.program import WHILE
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import read_hardware

AXIS = "stage"
_STAGES = (2, 4, 8, 16)
_PER_STAGE = (8, 4, 2)  # microbatches for each stage, those with the least idle time first
_WORTH = 0.95  # largest time of a proposed pipeline, relative to the program without one


@dataclasses.dataclass(frozen=True, slots=True)
class PipelineProposal:
    """A faster pipeline: `step_s` by the decision problem, for which the program without stages takes `plain_s`.

    The problem does not model overlap, so a real pipeline would be faster than this.

    `idle` is the fraction of idle steps, and `mesh` the mesh of the pipeline.
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
        """The fields as JSON values."""
        fields = {name: getattr(self, name) for name in ("stages", "layers", "microbatches", "step_s", "plain_s")}
        return {"mesh": dict(self.mesh.axes), **fields, "idle": self.idle}


@dataclasses.dataclass(frozen=True, slots=True)
class PipelinedLayers:
    """A loop over layers: the number of layers, the number of examples, and the bytes passed between layers."""

    count: int
    batch: int
    passed_bytes: float


def propose_pipeline(plans: MeshPlans, plan_s: float) -> PipelineProposal | None:
    """The best pipeline, if it is faster than the program without one and than `plan_s`, the step of a plan.

    None if no layers are found.
    """
    axes = [size for _, size in plans.mesh.axes if size > 1]
    color = plans.problem.roles.batch_color(axes)
    layers = None if color is None else _layers(plans, color)
    plain_s = plans.best.cost_s
    least_s, found = _WORTH * min(plain_s, plan_s), None
    if layers is None or color is None or AXIS in dict(plans.mesh.axes) or plans.best.work_s >= least_s:
        return None
    question = plans.prices.question
    for mesh, count in _meshes(plans.mesh, layers):
        if not plans.has_time():
            break
        listed = [count * per for per in _PER_STAGE if layers.batch % (count * per) == 0]
        # The work of a device is at least that without stages.
        listed = [each for each in listed if plans.best.work_s * _stretch(count, each) < least_s]
        if not listed:
            continue
        module = read_program(plans.prices.module)
        stage = Mesh(mesh.axes[1:], name=mesh.name)
        put_mesh(module, stage)
        try:
            problem = PlanProblem(module, stage, question)
        except AnnotationError:  # an annotation says the whole mesh, of which a stage has a part
            return found
        hardware = read_hardware(question.target, mesh)
        batch = problem.roles.batch_color(axes)
        for microbatches in listed:
            if batch is not None:
                step_s = problem.pipelined_s(microbatches, batch) / count * _stretch(count, microbatches)
                step_s += _passing_s(layers, count, microbatches, mesh, hardware)
                if step_s < least_s:
                    least_s, found = step_s, PipelineProposal(mesh, count, layers.count, microbatches, step_s, plain_s)
    return found


def _meshes(mesh: Mesh, layers: PipelinedLayers) -> Iterator[tuple[Mesh, int]]:
    """The mesh with a part of one axis used for stages, and their number."""
    for name, size in mesh.axes:
        for count in _STAGES:
            if size % count == 0 and layers.count % count == 0:
                rest = tuple((each, n // count if each == name else n) for each, n in mesh.axes)
                yield Mesh(((AXIS, count), *rest), name=mesh.name), count


def _stretch(stages: int, microbatches: int) -> float:
    """The time of a pipeline with its idle steps, relative to that without them."""
    return (microbatches + stages - 1) / microbatches


def _passing_s(layers: PipelinedLayers, count: int, microbatches: int, mesh: Mesh, hardware: Hardware) -> float:
    """The seconds of passing microbatches between stages, and of reducing the input gradient and the result."""
    axis, devices = mesh.axis(AXIS), mesh.size // count
    local = layers.passed_bytes / min(devices, layers.batch // microbatches)
    steps = 2 * (microbatches + count - 1)
    passed_s = collective_time("collective_permute", local / microbatches, count, hardware, (axis,))
    return steps * passed_s + 2 * collective_time("all_reduce", local, count, hardware, (axis,))


def _layers(plans: MeshPlans, color: int) -> PipelinedLayers | None:
    """The loop that carries the most bytes, and the largest of its carried values with a batch dimension."""
    explainer, tied = plans.problem.explained.explainer, plans.problem.roles.tied
    types, loops = explainer.completion.graph.slot_types, list[PipelinedLayers]()
    for op in explainer.program.ops:
        count = trip_count(op.ir) if op.info.name == WHILE else None
        for slot in op.result_slots if count is not None and count > 1 else ():
            shape = types[slot].shape
            colors = [tied.of(slot, dimension) for dimension in range(len(shape))]
            if color in colors and shape[0] != count:
                batch = shape[colors.index(color)]
                loops.append(PipelinedLayers(count or 1, batch, float(math.ceil(bytes_of(types[slot])))))
    return max(loops, key=lambda layers: layers.count * layers.passed_bytes, default=None)
