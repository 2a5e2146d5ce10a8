"""Collective matmul: dots that start before all of their operand has arrived, or send results while they run.

Source: Wang et al., Overlap Communication with Dependent Computation via Decomposition (ASPLOS 2023); the looped einsum
of arXiv 2105.04663, section 3.3.2.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import NamedTuple

from gspmd.dialect.axes import Axes, size_of, take
from gspmd.dialect.limits import MAX_UNROLLED
from gspmd.dialect.primes import divisors
from gspmd.transforms.analysis.trip_count import runs_of
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import placed_hardware, read_hardware
from gspmd.transforms.machine.targets import Traffic
from gspmd.transforms.machine.topology import is_machine
from gspmd.transforms.optimize.products import DOT, Arithmetic, ProductDims, product_of_parts
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.ring import Ring, cut, paste
from gspmd.transforms.passes import option

_WORTH_IT = 0.97  # the accuracy of the estimates
# By the estimates of libtpu, the parts of a dot together take 1.05 times as long as the dot, and an operand that was
# fused into the dot is written and read once more.
_PARTS = 1.05
_WRITTEN = 2


@dataclasses.dataclass(frozen=True)
class CollectiveMatmul(CollectivePass):
    """Replace a dot and the collective before or after it by overlapping steps: a collective matmul.

    The all-gather of an operand and its dot become one dot for each shard, during which the next shard arrives from a
    neighbor. A dot and the reduce-scatter of its result become one dot for each shard of the result, during which the
    sums of the previous shard move on.
    """

    argument = "gspmd-collective-matmul"
    summary = "Overlap the all-gather before a matmul, or the reduce-scatter after it, with the matmul"
    details = ("Every device adds up sums over gathered dimensions in an order of its own.",)

    matmul_min_bytes: int = option(1 << 20, "smallest gathered operand, or result to be scattered")
    bidirectional: bool | None = option(
        None, "send shards around the ring in both directions (true) or in one (false); without a value, as is faster"
    )
    ring_devices: int = option(
        0, "devices in the ring of a scatter, whose result is then scattered over the others; 0: fastest"
    )
    max_unrolled_steps: int = option(8, "rings of more devices become a while loop", most=MAX_UNROLLED)
    use_cost_model: bool = option(True, "only where the steps are estimated to be faster")
    target: str = option("", "hardware for which the gain is estimated: a name or a .toml file")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        collectives = program.collectives("all_gather", "reduce_scatter")
        hardware = self._hardware(program, collectives) if self.use_cost_model else Hardware()
        for collective in collectives:
            found = _find(program, collective)
            if found is None or (plan := self._plan(program, found, hardware)) is None:
                continue
            steps = _Steps(program, found, plan)
            if collective.kind == "all_gather":
                found.dot.replace([steps.of_gather()])
                collective.op.erase()
            else:
                collective.op.replace([steps.of_scatter()])
                found.dot.erase()
            program.changed()

    def _hardware(self, program: DeviceProgram, collectives: list[LocalCollective]) -> Hardware:
        """The hardware of the target for the mesh.

        On a torus, the mesh is placed for the collectives of the program, each candidate in its fastest form.
        """
        assert program.mesh is not None
        if not is_machine(self.target):
            return read_hardware(self.target, program.mesh)
        undecided = {
            collective.op: found.sizes
            for collective in collectives
            if (found := _find(program, collective)) is not None and collective.whole_bytes >= self.matmul_min_bytes
        }
        if not undecided:
            return Hardware()  # without candidates it is not used
        runs = Counter[_Sizes]()
        for op, sizes in undecided.items():
            runs[sizes] += runs_of(op)
        traffic = [
            Traffic(c.kind, c.bytes, c.axes or program.mesh.all_axes(), runs_of(c.op), c.reach)
            for c in program.collectives()
            if c.op not in undecided
        ]
        others = [_Undecided(sizes, self._plans(sizes), count) for sizes, count in runs.items()]
        return placed_hardware(self.target, program.mesh, traffic, others)[0]

    def _plans(self, sizes: _Sizes) -> list[_RingPlan]:
        directions = (False, True) if self.bidirectional is None else (self.bidirectional,)
        rings = sizes.rings()
        if self.ring_devices in rings:
            rings = [self.ring_devices]
        return [_RingPlan(both, ring, ring <= self.max_unrolled_steps) for ring in rings for both in directions]

    def _plan(self, program: DeviceProgram, found: _Candidate, hardware: Hardware) -> _RingPlan | None:
        """The ring for a candidate; None if the candidate is declined."""
        moved = found.collective.whole_bytes
        if moved < self.matmul_min_bytes:
            why = f"{moved:.0f} bytes are gathered or scattered, less than {self.matmul_min_bytes}"
            program.decline(found.dot, _WHAT, why)
            return None
        sizes = found.sizes
        plans = self._plans(sizes)
        if not self.use_cost_model:
            return plans[0]
        estimate = sizes.estimate(hardware, plans)
        if not estimate.pays:
            times = (
                f"{estimate.steps_s * 1e6:.1f} us overlapped, {estimate.sequential_s * 1e6:.1f} us one after the other"
            )
            program.decline(found.dot, _WHAT, f"that is estimated to be hardly faster: {times}")
            return None
        return estimate.plan


_WHAT = "overlapped with communication"


class _RingPlan(NamedTuple):
    """A ring of devices: whether it sends in both directions, its size, and whether its steps are unrolled."""

    bidirectional: bool
    ring: int
    unrolled: bool


class _Estimate(NamedTuple):
    """The seconds of the fastest ring, and those of the collective and the dot one after the other."""

    plan: _RingPlan
    steps_s: float
    sequential_s: float

    @property
    def pays(self) -> bool:
        return self.steps_s <= _WORTH_IT * self.sequential_s


@dataclasses.dataclass(frozen=True, slots=True)
class _Candidate:
    """A dot and the collective that produces its operand `side` or consumes its result.

    `cuts` is the dimension of each operand that a step slices; `result_dim` is that of the result, None if steps are
    added up.
    """

    dot: Operation
    collective: LocalCollective
    side: int
    cuts: tuple[int | None, int | None]
    result_dim: int | None

    @property
    def sizes(self) -> _Sizes:
        """The figures from which its time is estimated."""
        collective, dot = self.collective, self.dot
        shards = [math.prod(value.type.shape) for value in (collective.operand, collective.result)]
        return _Sizes(
            kind=collective.kind,
            axes=collective.axes,
            devices=max(shards) // min(shards),
            sent_bytes=collective.bytes,
            result_bytes=bytes_of(collective.result.type),
            dot_bytes=tuple(bytes_of(value.type) for value in (*dot.operands, dot.results[0])),
            whole_bytes=sum(bytes_of(v.type) for v, dim in zip(dot.operands, self.cuts, strict=True) if dim is None),
            is_summed=self.result_dim is None,
            arithmetic=Arithmetic.of(dot),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Sizes:
    """The figures from which the time of a candidate is estimated; equal layers have equal ones.

    `dot_bytes` are those of the operands and the result of the dot, and `whole_bytes` those of the operands that every
    step reads in full. The results of steps are added up if `is_summed`.
    """

    kind: str
    axes: Axes
    devices: int
    sent_bytes: float
    result_bytes: float
    dot_bytes: tuple[float, ...]
    whole_bytes: float
    is_summed: bool
    arithmetic: Arithmetic

    def rings(self) -> list[int]:
        """The possible sizes of a ring, the largest first. A scatter may use only the major part of its axes."""
        if self.kind == "all_gather":
            return [self.devices]
        sizes = [n for n in divisors(self.devices) if n > 1 and size_of(take(self.axes, n)[0]) == n]
        return sizes[::-1]

    def estimate(self, hardware: Hardware, plans: list[_RingPlan]) -> _Estimate:
        """The seconds on this hardware with the best of these rings, and without a ring."""
        steps_s, plan = min(((self._steps_s(hardware, plan), plan) for plan in plans), key=lambda each: each[0])
        moving_s = collective_time(self.kind, self.sent_bytes, self.devices, hardware, self.axes)
        return _Estimate(plan, steps_s, self.arithmetic.seconds(hardware) + moving_s)

    def _steps_s(self, hardware: Hardware, plan: _RingPlan) -> float:
        is_gather = self.kind == "all_gather"
        return self._gather_s(hardware, plan.bidirectional) if is_gather else self._scatter_s(hardware, plan)

    def _gather_s(self, hardware: Hardware, bidirectional: bool) -> float:
        waits = self.devices // 2 if bidirectional else self.devices - 1
        permute = collective_time("collective_permute", self.sent_bytes, self.devices, hardware, self.axes)
        step = self.arithmetic.seconds(hardware) / self.devices
        hidden = step * (self.devices - 1) / waits  # the compute during one permute
        return step + waits * max(hidden, permute) + self._copied_bytes() / hardware.memory_bytes_per_s

    def _copied_bytes(self) -> float:
        """The bytes that the steps read and write in addition to those of the whole dot."""
        written = self.devices if self.is_summed else 1
        return self.whole_bytes * (self.devices - 1) + 2 * self.dot_bytes[-1] * written

    def _scatter_s(self, hardware: Hardware, plan: _RingPlan) -> float:
        """The seconds of the dots for the shards of the result, each of which adds the sums that arrived.

        A dot waits for the sums that it adds. So in a loop, only the dot of the other half hides a permute, if there
        are two halves. Unrolled steps overlap with the rest of the program, unless another scatter follows. An operand
        that all steps read in full is first written to memory in the order in which they read it.
        """
        halves, others = 2 if plan.bidirectional else 1, self.devices // plan.ring
        steps = halves * plan.ring
        over, rest = take(self.axes, plan.ring)
        sum_bytes = self.result_bytes * others
        permute = collective_time("collective_permute", sum_bytes / halves, plan.ring, hardware, over)
        last = 0.0
        if others > 1:  # joining the halves for it reads and writes them
            last = collective_time("reduce_scatter", sum_bytes, others, hardware, rest)
            last += 2 * sum_bytes / hardware.memory_bytes_per_s
        step_bytes = self.whole_bytes + (sum(self.dot_bytes) - self.whole_bytes) / steps + sum_bytes / halves
        step_flops_s = _PARTS * self.arithmetic.seconds(hardware) / steps
        dot = max(step_flops_s, step_bytes / hardware.memory_bytes_per_s)
        first = _WRITTEN * self.whole_bytes / hardware.memory_bytes_per_s + dot
        if plan.bidirectional:
            return first + dot + permute + (steps - 2) * max(dot, permute) + last
        return first + (steps - 1) * (max(dot, permute) if plan.unrolled and others == 1 else dot + permute) + last


@dataclasses.dataclass(frozen=True, slots=True)
class _Undecided:
    """Candidates of these sizes, for the placement of the mesh."""

    sizes: _Sizes
    plans: list[_RingPlan]
    runs: int

    @property
    def axes(self) -> Axes:
        return self.sizes.axes

    def time_s(self, hardware: Hardware) -> float:
        estimate = self.sizes.estimate(hardware, self.plans)
        return self.runs * (estimate.steps_s if estimate.pays else estimate.sequential_s)


def _find(program: DeviceProgram, collective: LocalCollective) -> _Candidate | None:
    is_gather = collective.kind == "all_gather"
    return _find_gathered(program, collective) if is_gather else _find_scattered(program, collective)


def _find_gathered(program: DeviceProgram, gather: LocalCollective) -> _Candidate | None:
    dot = gather.result.only_user
    if dot is None:
        using = gather.result.users
        if any(op.name == DOT for op in using):
            program.decline(gather.op, _WHAT, f"{len(using)} operations use the gathered value")
        return None
    if dot.name == "stablehlo.slice":
        following = dot.results[0].only_user
        if following is not None and following.name == DOT:
            program.decline(following, _WHAT, "the last shard of its operand has padding")
        return None
    if dot.name != DOT or dot.block != gather.op.block or not program.is_along_axes(gather):
        return None
    if dot.operands[0] == dot.operands[1]:
        program.decline(dot, _WHAT, "both of its operands are the gathered value")
        return None
    side = 0 if dot.operands[0] == gather.result else 1
    dim = gather.dimension("all_gather_dim")
    other, result = ProductDims.of(dot).of_operand(side, dim)
    cuts = (dim, other) if side == 0 else (other, dim)
    return _Candidate(dot, gather, side, cuts, result)


def _find_scattered(program: DeviceProgram, scatter: LocalCollective) -> _Candidate | None:
    dot = scatter.operand.op
    if dot is not None and dot.name == "stablehlo.pad":
        padded = dot.operands[0].op
        if padded is not None and padded.name == DOT:
            program.decline(padded, _WHAT, "the last shard of its result has padding")
        return None
    if dot is None or dot.name != DOT or not program.is_along_axes(scatter) or scatter.combiner != "add":
        return None
    if scatter.operand.only_user is None:
        program.decline(dot, _WHAT, "its unscattered result is also used")
        return None
    if dot.block != scatter.op.block:
        return None
    dim = scatter.dimension("scatter_dimension")
    return _Candidate(dot, scatter, 0, ProductDims.of(dot).of_result(dim), dim)


class _Steps:
    """The steps of one candidate."""

    def __init__(self, program: DeviceProgram, found: _Candidate, plan: _RingPlan) -> None:
        self._found = found
        before = found.dot if found.collective.kind == "all_gather" else found.collective.op
        self._emit: Emitter = program.emitter(before, found.dot.location)
        over, self._rest = take(found.collective.axes, plan.ring)
        self._ring = Ring(self._emit, over, found.collective.cause)
        self._bidirectional, self._unroll = plan.bidirectional, plan.unrolled

    def _dot(self, left: Value, right: Value) -> Value:
        return product_of_parts(self._emit, self._found.dot, left, right)

    # ---- all-gather, then dot ----

    def of_gather(self) -> Value:
        """The result of the dot, from the shards of one operand as they arrive."""
        emit, ring, count = self._emit, self._ring, self._ring.count
        result = emit.constant(self._found.dot.results[0].type, 0)
        mine = self._found.collective.operand
        if not self._bidirectional:

            def step(number: int | Value, carried: list[Value]) -> list[Value]:
                shard, made = carried
                arriving = ring.shift(shard, 1)
                return [arriving, self._add(made, shard, number, 1)]

            shard, result = ring.repeat(0, count - 1, [mine, result], step, self._unroll)
            return self._add(result, shard, count - 1, 1)
        result = self._add(result, mine, 0, 1)

        def both(number: int | Value, carried: list[Value]) -> list[Value]:
            after, before, made = carried
            after, before = ring.shift(after, 1), ring.shift(before, -1)
            return [after, before, self._add(self._add(made, after, number, 1), before, number, -1)]

        after, _, result = ring.repeat(1, (count + 1) // 2, [mine, mine, result], both, self._unroll)
        if count % 2 == 0:
            result = self._add(result, ring.shift(after, 1), count // 2, 1)
        return result

    def _add(self, result: Value, shard: Value, step: int | Value, sign: int) -> Value:
        """The result, with the contribution of the shard of the device `sign * step` further along the ring."""
        found, emit = self._found, self._emit
        size = shard.type.shape[_known(found.cuts[found.side])]
        start = self._ring.start(step, sign, size)
        other = found.dot.operands[1 - found.side]
        dim = found.cuts[1 - found.side]
        if dim is not None:
            other = cut(emit, other, dim, start, size)
        part = self._dot(shard, other) if found.side == 0 else self._dot(other, shard)
        if found.result_dim is None:
            return emit.binary("add", result, part)
        return paste(emit, result, part, found.result_dim, start)

    # ---- dot, then reduce-scatter ----

    def of_scatter(self) -> Value:
        """The shard of the sum. Sums move past all devices of the ring, and each device adds its summand."""
        emit, found, dim = self._emit, self._found, _known(self._found.result_dim)
        size = found.dot.results[0].type.shape[dim] // self._ring.count
        if self._bidirectional and size % 2 == 0:
            halves = self._both_directions(size, size // 2)
            shape = found.dot.results[0].type.shape
            made = halves[0].type.of_shape((*shape[:dim], size, *shape[dim + 1 :]))
            sums = emit.op("stablehlo.concatenate", halves, [made], dimension=emit.i64(dim))
        else:
            sums = self._one_direction(size)
        if not self._rest:
            return sums
        return emit.reduce_scatter(sums, dim, self._rest, "add", found.collective.cause)

    def _one_direction(self, size: int) -> Value:
        emit, ring = self._emit, self._ring

        def step(number: int | Value, sums: list[Value]) -> list[Value]:
            return [emit.binary("add", ring.shift(sums[0], 1), self._part(number, 0, size, size, 1))]

        return ring.repeat(2, ring.count + 1, [self._part(1, 0, size, size, 1)], step, self._unroll)[0]

    def _both_directions(self, size: int, half: int) -> list[Value]:
        """Both halves of a shard. Their sums move in turn: one half arrives during the dots of the other."""
        emit, ring = self._emit, self._ring

        def first(number: int | Value) -> Value:
            return self._part(number, 0, half, size, 1)

        def second(number: int | Value) -> Value:
            return self._part(number, half, half, size, -1)

        def step(number: int | Value, sums: list[Value]) -> list[Value]:
            ahead, arrived = ring.shift(sums[0], 1), sums[1]
            behind = emit.binary("add", arrived, second(number))
            return [emit.binary("add", ahead, first(number)), ring.shift(behind, -1)]

        sums = [first(1), ring.shift(second(1), -1)]
        ahead, arrived = ring.repeat(2, ring.count, sums, step, self._unroll)
        ahead, behind = ring.shift(ahead, 1), emit.binary("add", arrived, second(ring.count))
        return [emit.binary("add", ahead, first(ring.count)), behind]

    def _part(self, step: int | Value, begin: int, length: int, size: int, sign: int) -> Value:
        """The dot for part of the shard of the device `sign * step` further along the ring."""
        emit, found = self._emit, self._found
        start = self._ring.start(step, sign, size)
        if begin:
            start = emit.binary("add", start, emit.constant(start.type, begin))
        operands = [
            value if dim is None else cut(emit, value, dim, start, length)
            for value, dim in zip(found.dot.operands, found.cuts, strict=True)
        ]
        return self._dot(*operands)


def _known(dim: int | None) -> int:
    assert dim is not None
    return dim
