"""What a program computes and how much memory traffic that takes, through its loops."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from gspmd.costs.buffers import Buffers, bytes_of_value
from gspmd.costs.operations import flops_of
from gspmd.dialect.axes import size_of
from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL, WHILE, Body, Op, Program
from gspmd.transforms.ops import traits_of


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What one call of a program computes.

    `flops` by kind and element type; `traffic_bytes` what is read from and written to memory if elementwise operations
    are fused with those that use them; `uncounted` are operations whose arithmetic is not known; `open_loops` counts
    loops of unknown length, whose bodies count once.
    """

    flops: Mapping[tuple[str, str], float]
    traffic_bytes: float
    uncounted: tuple[str, ...]
    open_loops: int

    @property
    def total_flops(self) -> float:
        return sum(self.flops.values())

    def by_kind(self) -> dict[str, float]:
        """Operations by kind, the most first; kinds without any are left out."""
        kinds: Counter[str] = Counter()
        for (kind, _), count in self.flops.items():
            kinds[kind] += count  # type: ignore[assignment]
        return {kind: count for kind, count in kinds.most_common() if count}


def work_of(program: Program, buffers: Buffers | None = None, annotated: AnnotatedProgram | None = None) -> Work:
    """Count a program's work; without `buffers` (see there) its memory traffic is not asked for and 0.

    `annotated` is needed for programs that are not partitioned yet: it knows their manual computations.
    """
    counter = _Counter(program, buffers, annotated)
    counter.block(program.body, 1.0)
    uncounted = tuple(sorted(counter.uncounted))
    return Work(dict(counter.flops), counter.traffic_bytes, uncounted, counter.open_loops)


class _Counter:
    def __init__(self, program: Program, buffers: Buffers | None, annotated: AnnotatedProgram | None) -> None:
        self.program = program
        self.annotated = annotated
        self.buffers = buffers
        self.flops: Counter[tuple[str, str]] = Counter()
        self.traffic_bytes = 0.0
        self.uncounted: set[str] = set()
        self.open_loops = 0
        self._known: dict[OpInfo, tuple[str, float] | None] = {}

    def block(self, block: Body, times: float) -> None:
        for op in block.ops:
            self._op(op, times)
            if op.regions:
                self._regions(op, times)
        if self.buffers is not None:
            self.traffic_bytes += times * self._traffic(block)

    def _op(self, op: Op, times: float) -> None:
        info = op.info
        if info not in self._known:
            self._known[info] = flops_of(info)
        counted = self._known[info]
        if counted is None:
            self.uncounted.add(_called(info))
        elif counted[1]:
            type_ = (info.operands or info.results)[0]
            self.flops[counted[0], type_.element] += times * counted[1]  # type: ignore[assignment]

    def _regions(self, op: Op, times: float) -> None:
        name = op.info.name
        if name == WHILE:
            trips = trip_count(op.ir)
            self.open_loops += trips is None
            for region in op.regions:
                self.block(region, times * (1 if trips is None else trips))
        elif name == MANUAL:
            self.block(op.regions[0], times * self._manual_devices(op))
        elif name in CONTROL_FLOW:
            self._dearest(op.regions, times)

    def _manual_devices(self, op: Op) -> int:
        """On how many devices, each with its part, the body of a manual computation runs."""
        assert self.annotated is not None, "partitioned programs have no manual computations"
        return size_of(self.annotated.region(op).axes)

    def _dearest(self, branches: list[Body], times: float) -> None:
        """Count only the branch with most operations, as one of them runs."""
        before = self.flops, self.traffic_bytes
        outcomes = []
        for branch in branches:
            self.flops, self.traffic_bytes = Counter(), 0.0
            self.block(branch, times)
            outcomes.append((sum(self.flops.values()), self.traffic_bytes, self.flops))
        self.flops, self.traffic_bytes = before
        _, traffic_bytes, flops = max(outcomes, key=lambda outcome: outcome[:2])
        self.flops.update(flops)
        self.traffic_bytes += traffic_bytes

    # ---- memory traffic ----

    def _traffic(self, block: Body) -> float:
        """Every value that is in memory is written once, and read once by each operation that is not fused."""
        assert self.buffers is not None
        total = 0.0
        for op in block.ops:
            if op.regions or self.buffers.is_virtual(op):
                continue
            sources = self.buffers.sources(op.operands)
            written = sum(bytes_of_value(self.program, v) for v in op.results)
            traits = traits_of(op.info.name)
            if traits.looks_up:
                total += 2 * written
                sources -= self.buffers.sources(op.operands[:1])
            elif traits.update is not None:
                total += 2 * bytes_of_value(self.program, op.operands[traits.update])
                sources -= self.buffers.sources(op.operands[:1])
            else:
                total += written
            total += sum(bytes_of_value(self.program, v) for v in sources)
        return total


def _called(info: OpInfo) -> str:
    """The operation's name, with the target of a custom call."""
    return f"{info.name} @{info.text('call_target_name')}" if info.name == CUSTOM_CALL else info.name
