"""The time of a step, from the compiler's cycles and the collectives on the links of a torus.

Source of the bounds: nothing overlaps (compute and collectives one after the other), all overlaps (the longer of both).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

from gspmd.compiled.optimized_hlo import Instruction, InstructionRun, OptimizedModule, SliceTransfer, bytes_of_type
from gspmd.compiled.schedule import InstructionTime, schedule
from gspmd.costs.timeline import COMPILER, COMPUTE, Timeline
from gspmd.dialect.axes import Axis
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes
from gspmd.runtime.hlo_groups import pairs
from gspmd.runtime.layout import element_a_device, shard_indices
from gspmd.transforms.machine.cost import AxisLinks, Hardware, collective_time, sent_bytes
from gspmd.transforms.machine.targets import Target

# Instructions that run when the program is loaded, or as asynchronous copies.
_FREE = frozenset(
    (
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "partition-id", "replica-id", "after-all"),
        *("while", "conditional", "call", "custom-call", "opt-barrier", "domain", "async-start", "async-update"),
        *("copy-start", "send"),
    )
)
Coordinates = Callable[[int], tuple[int, ...]]  # the chip of a partition, and the device on it


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledCollective:
    """A collective emitted by XLA: bytes that a device sends and seconds, of one run.

    `axes` are its mesh axes, such as `"x", "y"`; empty for parts of axes or an unknown mesh.
    """

    kind: str
    name: str
    source: str
    devices: int
    sent_bytes: float
    time_s: float
    runs: int
    is_async: bool
    axes: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one call on every device.

    `estimated_s` is the part of `compute_s` without cycles from the compiler. `timeline` follows the compiler's
    schedule, with its overlap. `unknown_loops` is the number of loops with an unknown trip count, which count once.
    """

    compute_s: float
    estimated_s: float
    timeline: Timeline
    collectives: tuple[CompiledCollective, ...]
    unknown_loops: int

    @property
    def scheduled_s(self) -> float:
        """Seconds in the compiler's order."""
        return self.timeline.total_s

    @property
    def communication_s(self) -> float:
        return sum(c.time_s * c.runs for c in self.collectives)

    @property
    def lower_bound_s(self) -> float:
        """Seconds if communication is hidden behind compute, or compute behind communication."""
        return max(self.compute_s, self.communication_s)

    @property
    def upper_bound_s(self) -> float:
        """Seconds if nothing overlaps."""
        return self.compute_s + self.communication_s

    def utilisation(self, flops: float, peak_flops_per_s: float) -> tuple[float, float, float]:
        """The utilization of a device's peak rate by `flops`: without overlap, as scheduled, and with full overlap."""
        times = (self.upper_bound_s, self.scheduled_s, self.lower_bound_s)
        least, scheduled, most = (flops / seconds / peak_flops_per_s for seconds in times)
        return least, scheduled, most


def step_time(
    text: str, target: Target, hardware: Hardware, coordinates: Coordinates, mesh: Mesh | None = None
) -> StepTime:
    """The time of a step, from optimized HLO.

    `coordinates` are the positions of partitions, and `mesh` has their names. The target has a torus and a clock rate.
    """
    module = OptimizedModule(text)
    compute = estimated = 0.0
    collectives: list[CompiledCollective] = []
    alone: dict[tuple[str, str], InstructionTime] = {}
    loops: set[str] = set()
    for visit in module.visits():
        if not visit.known:
            loops.add(visit.computation)
        found, between = module.collective_in(visit.instruction), visit.instruction.between_slices
        if between is not None:
            collectives.append(_priced_between(module, visit, between, target))
            seconds, lane = collectives[-1].time_s, f"{between.kind} between slices"
        elif found is not None:
            axes = "" if mesh is None else _axes_between(_exchanging(module, found), mesh)
            collectives.append(dataclasses.replace(_priced(module, visit, found, target, coordinates), axes=axes))
            priced = collectives[-1]
            seconds, lane = priced.time_s, axes or f"{priced.kind} over {priced.devices} devices"
        else:
            seconds, by_compiler = _work_s(module, visit, target, hardware)
            compute += seconds * visit.times
            estimated += 0.0 if by_compiler else seconds * visit.times
            lane = COMPUTE
        alone[visit.computation, visit.instruction.name] = InstructionTime(seconds, lane)
    events, total_s = schedule(module, module.entry, alone, 0.0)
    timeline = Timeline(COMPILER, total_s, tuple(events))
    return StepTime(compute, estimated, timeline, tuple(collectives), len(loops))


def _work_s(module: OptimizedModule, visit: InstructionRun, target: Target, hardware: Hardware) -> tuple[float, bool]:
    """Seconds of an instruction without communication, and whether they are the compiler's."""
    instruction = visit.instruction
    if (cycles := instruction.cycles) is not None:
        return cycles / target.clock_hz, True
    if is_free(module, instruction):
        return 0.0, True
    return traffic_bytes(module, visit) / hardware.memory_bytes_per_s, False


def is_free(module: OptimizedModule, instruction: Instruction) -> bool:
    """Whether an instruction takes no time."""
    return instruction.opcode in _FREE or module.is_done(instruction)


def traffic_bytes(module: OptimizedModule, visit: InstructionRun) -> float:
    """The bytes that an instruction reads and writes; an update in place writes only the update."""
    values = module.computations[visit.computation]
    operands = [values[name].type for name in visit.instruction.operands if name in values]
    if visit.instruction.opcode == "dynamic-update-slice":
        return 2 * bytes_of_type(operands[1])
    if visit.instruction.opcode in ("dynamic-slice", "slice", "broadcast", "iota", "gather"):
        return 2 * bytes_of_type(visit.instruction.type)
    return sum(map(bytes_of_type, operands)) + bytes_of_type(visit.instruction.type)


def _priced(
    module: OptimizedModule, visit: InstructionRun, instruction: Instruction, target: Target, coordinates: Coordinates
) -> CompiledCollective:
    kind = instruction.collective or ""
    is_async = module.is_start(visit.instruction) or visit.computation.startswith("async")
    source = module.source(instruction) or module.source(visit.instruction)
    if kind == "collective_permute":
        moves = [(coordinates(a), coordinates(b)) for a, b in pairs(instruction.attributes)]
        sent = instruction.result_bytes
        seconds = permute_seconds(sent, moves, target)
        return CompiledCollective(kind, instruction.name, source, 2, sent, seconds, visit.times, is_async)
    group = module.group(instruction)
    local = instruction.operand_bytes(len(group))
    links = group_links([coordinates(i) for i in group], target)
    hardware = dataclasses.replace(Hardware(), axes={"group": links})
    seconds = collective_time(kind, local, len(group), hardware, (Axis("group", 1, math.prod(k.size for k in links)),))
    sent = sent_bytes(kind, local, len(group))
    return CompiledCollective(kind, instruction.name, source, len(group), sent, seconds, visit.times, is_async)


def _priced_between(
    module: OptimizedModule, visit: InstructionRun, between: SliceTransfer, target: Target
) -> CompiledCollective:
    """The transfer between slices, in which each device sends its own shard."""
    kind, slices, local = between
    assert target.torus is not None, "slices are of a torus"
    links = (target.torus_links(len(target.torus.dims) + 1, slices, 1),)
    hardware = dataclasses.replace(Hardware(), axes={"group": links})
    seconds = collective_time(kind, local, slices, hardware, (Axis("group", 1, slices),))
    name, source = visit.instruction.name, module.source(visit.instruction)
    return CompiledCollective(kind, name, source, slices, sent_bytes(kind, local, slices), seconds, visit.times, True)


def _exchanging(module: OptimizedModule, instruction: Instruction) -> list[tuple[int, ...]]:
    """The partitions of one group of a collective, or all pairs of a permute."""
    if instruction.collective == "collective_permute":
        return list(pairs(instruction.attributes))
    return [module.group(instruction)]


def _axes_between(groups: Sequence[tuple[int, ...]], mesh: Mesh) -> str:
    """The axes that the groups span; empty if a group does not span whole axes."""
    places = shard_indices(element_a_device(mesh))
    names = [
        (name, size)
        for dim, (name, size) in enumerate(mesh.axes)
        if any(len({places[partition][dim] for partition in group}) > 1 for group in groups)
    ]
    is_whole = len(groups) != 1 or len(groups[0]) == math.prod(size for _, size in names)
    return print_axes(tuple(Axis(name, 1, size) for name, size in names), mesh) if is_whole else ""


def group_links(places: Sequence[tuple[int, ...]], target: Target) -> tuple[AxisLinks, ...]:
    """The links of a group: one part per dimension of the torus in which its devices differ."""
    found = []
    for dim, at in enumerate(map(sorted, map(set, zip(*places, strict=True)))):
        if len(at) > 1:
            stride = min(b - a for a, b in itertools.pairwise(at))
            found.append(target.torus_links(dim, len(at), stride))
    return tuple(found)


def permute_seconds(local: float, moves: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], target: Target) -> float:
    """The time of all messages at once, routed dimension by dimension: that of the busiest link, inside or outside."""
    assert target.torus is not None, "places are those of a torus"
    dims = len(target.torus.dims)
    crossing = [move for move in moves if move[0][dims + 1 :] != move[1][dims + 1 :]]
    inside = [(source[:dims], goal[:dims]) for source, goal in moves if source[dims + 1 :] == goal[dims + 1 :]]
    load: Counter[tuple[tuple[int, ...], int, int]] = Counter()
    hops = 0
    for source, goal in inside:
        at, length = list(source), 0
        for dim, size in enumerate(target.torus.dims):
            steps, way = _way(at[dim], goal[dim], size, target.network.closes(size))
            for _ in range(steps):
                load[tuple(at), dim, way] += 1
                at[dim] = (at[dim] + way) % size
            length += steps
        hops = max(hops, length)
    # The devices of a chip share its links.
    rate = target.network.bytes_per_s * target.torus.cores
    inside_s = hops * target.network.latency_s + local * max(load.values(), default=0) / rate
    if not crossing:
        return inside_s
    outside = target.torus_links(dims + 1, target.torus.slices, 1)
    return max(inside_s, outside.latency_s + local / outside.bytes_per_s)


def _way(start: int, goal: int, size: int, ring: bool) -> tuple[int, int]:
    """Hops along a dimension, and the direction: the shorter way around a ring."""
    ahead = (goal - start) % size
    if not ring:
        return abs(goal - start), 1 if goal > start else -1
    return (ahead, 1) if ahead <= size - ahead else (size - ahead, -1)
