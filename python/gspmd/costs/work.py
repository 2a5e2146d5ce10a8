"""The arithmetic and memory traffic of a program, including all iterations of its loops."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from gspmd.costs.operations import flops_of
from gspmd.dialect.axes import size_of
from gspmd.transforms.analysis.buffers import Buffers, bytes_of_value
from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL, WHILE, Body, Op, Program
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.kernels import kernel_estimate


@dataclasses.dataclass(frozen=True, slots=True)
class OpWork:
    """The work of one run of the operation with the index `op`, and its number of runs in a call of the program.

    `flops` are arithmetic operations of one kind on elements of one type; `sent_bytes` is what a kernel sends to other
    devices itself.
    """

    op: int
    runs: float
    kind: str
    element: str
    flops: float
    traffic_bytes: float
    sent_bytes: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """The work of one call of a program.

    `flops` are by kind and element type. `traffic_bytes` is the memory traffic if elementwise operations are fused into
    their consumers. `uncounted` are operations with unknown arithmetic. `open_loops` is the number of loops of unknown
    trip count, whose bodies count once. `operations` are the summands. Kernels count as they estimate themselves;
    `kernel_sent_bytes` is what they send to other devices themselves.
    """

    flops: Mapping[tuple[str, str], float]
    traffic_bytes: float
    uncounted: tuple[str, ...]
    open_loops: int
    operations: tuple[OpWork, ...] = ()

    @property
    def kernel_sent_bytes(self) -> float:
        return sum(work.runs * work.sent_bytes for work in self.operations)

    @property
    def total_flops(self) -> float:
        return sum(self.flops.values())

    def by_kind(self) -> dict[str, float]:
        """Operations by kind, the largest first; kinds without any are left out."""
        kinds: Counter[str] = Counter()
        for (kind, _), count in self.flops.items():
            kinds[kind] += count  # type: ignore[assignment]
        return {kind: count for kind, count in kinds.most_common() if count}


def work_of(program: Program, buffers: Buffers | None = None, annotated: AnnotatedProgram | None = None) -> Work:
    """Count the work of a program; without `buffers`, its memory traffic is 0.

    `annotated` is needed for unpartitioned programs: it describes their manual computations.
    """
    counter = _Counter(program, buffers, annotated)
    counter.block(program.body, 1.0)
    uncounted = tuple(sorted(counter.uncounted))
    flops, traffic_bytes = _sums(counter.found)
    return Work(dict(flops), traffic_bytes, uncounted, counter.open_loops, tuple(counter.found))


def _sums(found: Sequence[OpWork]) -> tuple[Counter[tuple[str, str]], float]:
    """The arithmetic by kind and element type, and the traffic."""
    flops: Counter[tuple[str, str]] = Counter()
    for work in found:
        if work.flops:
            flops[work.kind, work.element] += work.runs * work.flops  # type: ignore[assignment]
    return flops, sum((work.runs * work.traffic_bytes for work in found), 0.0)


class _Counter:
    def __init__(self, program: Program, buffers: Buffers | None, annotated: AnnotatedProgram | None) -> None:
        self.program = program
        self.annotated = annotated
        self.buffers = buffers
        self.found: list[OpWork] = []
        self.uncounted: set[str] = set()
        self.open_loops = 0
        self._known: dict[OpInfo, tuple[str, float] | None] = {}

    def block(self, block: Body, times: float) -> None:
        for op in block.ops:
            self._op(op, times)
            if op.regions:
                self._regions(op, times)

    def _op(self, op: Op, times: float) -> None:
        info = op.info
        if info not in self._known:
            self._known[info] = flops_of(info)
        counted, traffic_bytes, sent_bytes = self._known[info], self._traffic(op), 0.0
        if counted is None:
            estimate = kernel_estimate(op.ir)
            if estimate is None:
                self.uncounted.add(_called(info))
            else:
                counted, sent_bytes = ("kernel", estimate.flops), estimate.sent_bytes
                traffic_bytes = 0.0 if self.buffers is None else estimate.traffic_bytes or traffic_bytes
        kind, flops = counted or ("", 0.0)
        if flops or traffic_bytes or sent_bytes:
            types = info.operands or info.results
            element = types[0].element if types else ""
            self.found.append(OpWork(op.index, times, kind, element, flops, traffic_bytes, sent_bytes))

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
        """The number of devices, each with its own shard, on which the body of a manual computation runs."""
        assert self.annotated is not None, "partitioned programs have no manual computations"
        return size_of(self.annotated.region(op).axes)

    def _dearest(self, branches: list[Body], times: float) -> None:
        """Count only the branch with the most operations, since only one branch runs."""
        before, outcomes = self.found, []
        for branch in branches:
            self.found = []
            self.block(branch, times)
            flops, traffic_bytes = _sums(self.found)
            outcomes.append((flops.total(), traffic_bytes, self.found))
        self.found = before + max(outcomes, key=lambda outcome: outcome[:2])[2]

    # ---- memory traffic ----

    def _traffic(self, op: Op) -> float:
        """Each value in memory is written once, and read once by each consumer that is not fused."""
        if self.buffers is None or op.regions or self.buffers.is_virtual(op):
            return 0.0
        sources = self.buffers.sources(op.operands)
        written = sum(bytes_of_value(self.program, v) for v in op.results)
        traits = traits_of(op.info.name)
        if traits.looks_up:
            written *= 2
            sources -= self.buffers.sources(op.operands[:1])
        elif traits.update is not None:
            written = 2 * bytes_of_value(self.program, op.operands[traits.update])
            sources -= self.buffers.sources(op.operands[:1])
        return float(written + sum(bytes_of_value(self.program, v) for v in sources))


def _called(info: OpInfo) -> str:
    """The name of the operation, with the target of a custom call."""
    return f"{info.name} @{info.text('call_target_name')}" if info.name == CUSTOM_CALL else info.name
