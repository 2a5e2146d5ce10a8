"""How long a step takes by what XLA made of it: the compiler's cycles, and collectives on the links of a torus.

Source of the bounds: nothing overlaps (compute and collectives one after the other), all overlaps (the longer of both).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from gspmd.compiled.optimized_hlo import Instruction, OptimizedModule, Visit, bytes_of_type
from gspmd.dialect.axes import Axis
from gspmd.runtime.hlo_groups import pairs
from gspmd.transforms.machine.cost import AxisLinks, Hardware, collective_time, sent_bytes
from gspmd.transforms.machine.targets import Target

# What is done when the program is loaded, or by copies beside it.
_FREE = frozenset(
    (
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "partition-id", "replica-id", "after-all"),
        *("while", "conditional", "call", "custom-call", "opt-barrier", "domain", "async-start", "async-update"),
        "copy-start",
    )
)
Coordinates = Callable[[int], tuple[int, ...]]  # of the chip, and the device on it, that a partition runs on


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledCollective:
    """A collective as XLA emits it: bytes a device sends each time, and seconds each time."""

    kind: str
    name: str
    source: str
    devices: int
    sent_bytes: float
    time_s: float
    runs: int
    is_async: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one call on every device.

    `estimated_s` is the part of `compute_s` for which the compiler gives no cycles. `scheduled_s` is the time of the
    call in the compiler's order, which hides what it starts early. `unknown_loops` is the number of loops whose trip
    count is not known; what they do counts once.
    """

    compute_s: float
    estimated_s: float
    scheduled_s: float
    collectives: tuple[CompiledCollective, ...]
    unknown_loops: int

    @property
    def communication_s(self) -> float:
        return sum(c.time_s * c.runs for c in self.collectives)

    @property
    def lower_bound_s(self) -> float:
        """Seconds if all communication is hidden behind arithmetic, or the other way round."""
        return max(self.compute_s, self.communication_s)

    @property
    def upper_bound_s(self) -> float:
        """Seconds if nothing overlaps."""
        return self.compute_s + self.communication_s

    def utilisation(self, flops: float, peak_flops_per_s: float) -> tuple[float, float, float]:
        """The part of a device's peak that `flops` of it are: if nothing overlaps, as scheduled, if all does."""
        times = (self.upper_bound_s, self.scheduled_s, self.lower_bound_s)
        least, scheduled, most = (flops / seconds / peak_flops_per_s for seconds in times)
        return least, scheduled, most


def step_time(text: str, target: Target, hardware: Hardware, coordinates: Coordinates) -> StepTime:
    """The time of a step from optimised HLO.

    `coordinates` says where partitions run. The target has a torus and a clock.
    """
    module = OptimizedModule(text)
    compute = estimated = 0.0
    collectives: list[CompiledCollective] = []
    alone: dict[tuple[str, str], float] = {}
    loops: set[str] = set()
    for visit in module.visits():
        if not visit.known:
            loops.add(visit.computation)
        found = _collective_in(module, visit)
        if found is not None:
            collectives.append(_priced(module, visit, found, target, coordinates))
            seconds = collectives[-1].time_s
        else:
            seconds, by_compiler = _work_s(module, visit, target, hardware)
            compute += seconds * visit.times
            estimated += 0.0 if by_compiler else seconds * visit.times
        alone[visit.computation, visit.instruction.name] = seconds
    return StepTime(compute, estimated, _scheduled_s(module, module.entry, alone), tuple(collectives), len(loops))


def _work_s(module: OptimizedModule, visit: Visit, target: Target, hardware: Hardware) -> tuple[float, bool]:
    """Seconds of an instruction that does not communicate, and whether they are the compiler's."""
    instruction = visit.instruction
    if (cycles := instruction.cycles) is not None:
        return cycles / target.clock_hz, True
    if instruction.opcode in _FREE or instruction.opcode.endswith("-done"):
        return 0.0, True
    return _traffic(module, visit) / hardware.memory_bytes_per_s, False


def _scheduled_s(module: OptimizedModule, computation: str, alone: Mapping[tuple[str, str], float]) -> float:
    """Seconds in the order of the schedule: what is started runs beside what follows, until something waits for it."""
    now = free = 0.0  # the time, and when the links are free
    ends: dict[str, float] = {}
    for instruction in module.computations.get(computation, {}).values():
        seconds = alone.get((computation, instruction.name), 0.0)
        if instruction.opcode == "while":
            turns = module.trips(computation, instruction)
            now += (1 if turns is None else turns) * _scheduled_s(module, module.body(instruction), alone)
        elif inner := module.called(instruction):
            seconds += max(_scheduled_s(module, name, alone) for name in inner)
        if instruction.opcode.endswith("-start"):
            ends[instruction.name] = free = max(now, free) + seconds
        elif instruction.opcode.endswith("-done"):
            now = max(now, ends.get(instruction.operands[0], now))
        else:
            now += seconds
    return max([now, *ends.values()])


def _collective_in(module: OptimizedModule, visit: Visit) -> Instruction | None:
    """The collective that an instruction is, or that it is fused with."""
    if visit.instruction.collective is not None:
        return visit.instruction
    if visit.instruction.opcode != "fusion":
        return None
    _, _, name = visit.instruction.attributes.partition("calls=%")
    inner = next((i for i in module.computations.get(name.split(",")[0], {}).values() if i.collective), None)
    if inner is None or inner.collective != "all_reduce":
        return inner
    # What is sliced in the same fusion is a reduce-scatter by another name.
    group = len(module.group(inner))
    if group > 1 and bytes_of_type(visit.instruction.type) * group <= bytes_of_type(inner.type):
        return dataclasses.replace(inner, opcode="reduce-scatter", type=visit.instruction.type)
    return inner


def _traffic(module: OptimizedModule, visit: Visit) -> float:
    """Bytes read and written; an update in place writes what is new."""
    values = module.computations[visit.computation]
    operands = [values[name].type for name in visit.instruction.operands if name in values]
    if visit.instruction.opcode == "dynamic-update-slice":
        return 2 * bytes_of_type(operands[1])
    if visit.instruction.opcode in ("dynamic-slice", "slice", "broadcast", "iota", "gather"):
        return 2 * bytes_of_type(visit.instruction.type)
    return sum(map(bytes_of_type, operands)) + bytes_of_type(visit.instruction.type)


def _priced(
    module: OptimizedModule, visit: Visit, instruction: Instruction, target: Target, coordinates: Coordinates
) -> CompiledCollective:
    kind = instruction.collective or ""
    is_async = instruction.opcode.endswith("-start") or visit.computation.startswith("async")
    source = module.source(instruction) or module.source(visit.instruction)
    if kind == "collective_permute":
        moves = [(coordinates(a), coordinates(b)) for a, b in pairs(instruction.attributes)]
        sent = instruction.result_bytes
        seconds = _permute_s(sent, moves, target)
        return CompiledCollective(kind, instruction.name, source, 2, sent, seconds, visit.times, is_async)
    group = module.group(instruction)
    local = instruction.operand_bytes(len(group))
    links = group_links([coordinates(i) for i in group], target)
    hardware = dataclasses.replace(Hardware(), axes={"group": links})
    seconds = collective_time(kind, local, len(group), hardware, (Axis("group", 1, math.prod(k.size for k in links)),))
    sent = sent_bytes(kind, local, len(group))
    return CompiledCollective(kind, instruction.name, source, len(group), sent, seconds, visit.times, is_async)


def group_links(places: Sequence[tuple[int, ...]], target: Target) -> tuple[AxisLinks, ...]:
    """The links that the devices of a group use: a part a dimension of the torus in which they differ."""
    found = []
    for dim, at in enumerate(map(sorted, map(set, zip(*places, strict=True)))):
        if len(at) > 1:
            stride = min(b - a for a, b in itertools.pairwise(at))
            found.append(target.torus_links(dim, len(at), stride))
    return tuple(found)


def _permute_s(local: float, moves: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], target: Target) -> float:
    """All messages at once, each routed dimension by dimension: the busiest link decides."""
    assert target.torus is not None, "places are those of a torus"
    load: dict[tuple[tuple[int, ...], int, int], int] = {}
    hops = 0
    for source, goal in moves:
        at, length = list(source[:-1]), 0
        for dim, size in enumerate(target.torus.dims):
            steps, way = _way(at[dim], goal[dim], size, target.network.closes(size))
            for _ in range(steps):
                link = (tuple(at), dim, way)
                load[link] = load.get(link, 0) + 1
                at[dim] = (at[dim] + way) % size
            length += steps
        hops = max(hops, length)
    # The devices of a chip have its links together.
    rate = target.network.bytes_per_s * target.torus.cores
    return hops * target.network.latency_s + local * max(load.values(), default=0) / rate


def _way(start: int, goal: int, size: int, ring: bool) -> tuple[int, int]:
    """Hops along a dimension, and the direction: the shorter way around a ring."""
    ahead = (goal - start) % size
    if not ring:
        return abs(goal - start), 1 if goal > start else -1
    return (ahead, 1) if ahead <= size - ahead else (size - ahead, -1)
