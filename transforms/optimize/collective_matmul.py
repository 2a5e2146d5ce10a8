"""Collective matmul: dots that begin before all their operand has arrived, or send results while they go on.

Source: Wang et al., Overlap Communication with Dependent Computation via Decomposition (ASPLOS 2023); the looped einsum
of arXiv 2105.04663, section 3.3.2.
"""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.limits import MAX_UNROLLED
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.optimize.products import DOT, ProductDims, dot_seconds, product_of_parts
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.ring import Ring, cut, paste
from gspmd.transforms.passes import option

_WORTH_IT = 0.95  # estimates are not better than that


@dataclasses.dataclass(frozen=True)
class CollectiveMatmul(CollectivePass):
    """Turn a dot and the collective before or after it into steps that overlap: a collective matmul.

    The all-gather of an operand and the dot with it become dots with one shard each, while the next shard arrives from
    a neighbour. A dot and the reduce-scatter of its result become dots for one shard of the result each, while the sums
    for the shard before travel on.
    """

    argument = "gspmd-collective-matmul"
    summary = "Overlap the all-gather before a matmul, or the reduce-scatter after it, with the matmul"
    details = ("Sums over gathered dimensions are added up in another order on every device.",)

    matmul_min_bytes: int = option(1 << 20, "smallest gathered operand, or result to be scattered, for this")
    bidirectional: bool | None = option(None, "let shards travel around the ring both ways, or never; else if faster")
    max_unrolled_steps: int = option(8, "rings of more devices become a while loop", most=MAX_UNROLLED)
    use_cost_model: bool = option(True, "only where the steps together are estimated to be faster")
    target: str = option("", "hardware that this is estimated for: a name or a .toml file")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        for collective in program.collectives("all_gather", "reduce_scatter"):
            gather = collective.kind == "all_gather"
            found = _find_gathered(program, collective) if gather else _find_scattered(program, collective)
            if found is None or (both_ways := self._direction(program, found)) is None:
                continue
            steps = _Steps(program, found, both_ways, self.max_unrolled_steps)
            value = steps.of_gather() if gather else steps.of_scatter()
            done, gone = (found.dot, collective) if gather else (collective.op, None)
            done.replace([value])
            if gone is not None:
                gone.erase()
            else:
                found.dot.erase()
            program.changed()

    def _direction(self, program: DeviceProgram, found: _Candidate) -> bool | None:
        """Whether shards travel both ways round the ring; None where they had better not."""
        moved = max(bytes_of(v.type) for v in (found.collective.operand, found.collective.result))
        if moved < self.matmul_min_bytes:
            why = f"{moved:.0f} bytes are gathered or scattered, less than {self.matmul_min_bytes}"
            program.decline(found.dot, _WHAT, why)
            return None
        if not self.use_cost_model:
            return bool(self.bidirectional)
        assert program.mesh is not None
        hardware = read_hardware(self.target, program.mesh)
        allowed = (False, True) if self.bidirectional is None else (self.bidirectional,)
        together, both_ways = min((found.seconds(hardware, both_ways), both_ways) for both_ways in allowed)
        apart = found.seconds_apart(hardware)
        if together > _WORTH_IT * apart:
            estimates = f"{together * 1e6:.1f} us in steps, {apart * 1e6:.1f} us one after the other"
            program.decline(found.dot, _WHAT, f"that would hardly be faster: {estimates}")
            return None
        return both_ways


_WHAT = "overlapped with communication"


@dataclasses.dataclass(frozen=True, slots=True)
class _Candidate:
    """A dot and the collective that makes its operand `side` or takes its result.

    `cuts` is, by operand, the dimension that a step takes a part of; `result_dim` is that of the result, None where
    steps are added up.
    """

    dot: Operation
    collective: LocalCollective
    side: int
    cuts: tuple[int | None, int | None]
    result_dim: int | None

    @property
    def devices(self) -> int:
        operand, result = (math.prod(v.type.shape) for v in (self.collective.operand, self.collective.result))
        return max(operand, result) // min(operand, result)

    def seconds_apart(self, hardware: Hardware) -> float:
        """Estimated seconds of the collective and the dot one after the other."""
        collective = self.collective
        moving = collective_time(collective.kind, collective.bytes, self.devices, hardware, collective.axes)
        return dot_seconds(self.dot, hardware) + moving

    def seconds(self, hardware: Hardware, both_ways: bool) -> float:
        """Estimated seconds in steps."""
        count = self.devices
        moved = min(self.collective.bytes, bytes_of(self.collective.result.type))
        if both_ways and self.collective.kind == "reduce_scatter":
            moved /= 2
        waits = count // 2 if both_ways and self.collective.kind == "all_gather" else count - 1
        permute = collective_time("collective_permute", moved, count, hardware, self.collective.axes)
        step = dot_seconds(self.dot, hardware) / count
        hidden = step * (count - 1) / waits  # what is computed while one permute is on its way
        return step + waits * max(hidden, permute) + self._copied_bytes() / hardware.memory_bytes_per_s

    def _copied_bytes(self) -> float:
        """Bytes that steps read and write more often than the whole dot does."""
        again = sum(
            bytes_of(value.type)
            for side, value in enumerate(self.dot.operands)
            if self.cuts[side] is None  # every step reads all of it
        )
        whole = bytes_of(self.dot.results[0].type)
        return again * (self.devices - 1) + 2 * whole * (self.devices if self.result_dim is None else 1)


def _find_gathered(program: DeviceProgram, gather: LocalCollective) -> _Candidate | None:
    dot = gather.result.only_user
    if dot is None:
        using = gather.result.users
        if any(op.name == DOT for op in using):
            program.decline(gather.op, _WHAT, f"{len(using)} operations use what is gathered")
        return None
    if dot.name == "stablehlo.slice":
        following = dot.results[0].only_user
        if following is not None and following.name == DOT:
            program.decline(following, _WHAT, "the last shard of its operand is not full")
        return None
    if dot.name != DOT or dot.block != gather.op.block or not program.is_along_axes(gather):
        return None
    if dot.operands[0] == dot.operands[1]:
        program.decline(dot, _WHAT, "both its operands are the gathered one")
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
            program.decline(padded, _WHAT, "the last shard of its result is not full")
        return None
    if dot is None or dot.name != DOT or not program.is_along_axes(scatter) or scatter.combiner != "add":
        return None
    if scatter.operand.only_user is None:
        program.decline(dot, _WHAT, "its result is used whole, too")
        return None
    if dot.block != scatter.op.block:
        return None
    dim = scatter.dimension("scatter_dimension")
    return _Candidate(dot, scatter, 0, ProductDims.of(dot).of_result(dim), dim)


class _Steps:
    """The steps of one candidate."""

    def __init__(self, program: DeviceProgram, found: _Candidate, both_ways: bool, max_unrolled: int) -> None:
        self._found = found
        before = found.dot if found.collective.kind == "all_gather" else found.collective.op
        self._emit: Emitter = program.emitter(before, found.dot.location)
        self._ring = Ring(self._emit, found.collective.axes, found.collective.cause)
        self._both_ways = both_ways
        self._unroll = self._ring.count <= max_unrolled

    def _dot(self, left: Value, right: Value) -> Value:
        return product_of_parts(self._emit, self._found.dot, left, right)

    # ---- all-gather, then dot ----

    def of_gather(self) -> Value:
        """The result of the dot, from the shards of one operand as they come by."""
        emit, ring, count = self._emit, self._ring, self._ring.count
        result = emit.constant(self._found.dot.results[0].type, 0)
        mine = self._found.collective.operand
        if not self._both_ways:

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
        """The result with what the shard of the device `sign * step` further gives."""
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
        """The shard of the sum, from sums that travel past all devices."""
        dim = _known(self._found.result_dim)
        size = self._found.collective.result.type.shape[dim]
        if not self._both_ways or size % 2:
            return self._travel([(0, size, 1)], size)
        half = size // 2
        return self._travel([(0, half, 1), (half, half, -1)], size)

    def _travel(self, parts: list[tuple[int, int, int]], size: int) -> Value:
        """Sums of parts of a shard (where they begin, their size and direction), put together."""
        emit, ring, dim = self._emit, self._ring, _known(self._found.result_dim)

        def step(number: int | Value, sums: list[Value]) -> list[Value]:
            return [
                emit.binary("add", ring.shift(total, sign), self._part(number, begin, length, size, sign))
                for total, (begin, length, sign) in zip(sums, parts, strict=True)
            ]

        first = [self._part(1, *part[:2], size, part[2]) for part in parts]
        sums = ring.repeat(2, ring.count + 1, first, step, self._unroll)
        if len(sums) == 1:
            return sums[0]
        result = self._found.collective.result.type
        return emit.op("stablehlo.concatenate", sums, [result], dimension=emit.i64(dim))

    def _part(self, step: int | Value, begin: int, length: int, size: int, sign: int) -> Value:
        """The dot for part of the shard of the device `sign * step` further."""
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
