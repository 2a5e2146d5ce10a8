"""What a program computes and how much memory traffic that takes, through its loops."""

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
    """What the operation with the index `op` does each time it runs, and how often that is in a call of the program.

    `flops` are arithmetic operations of one kind on elements of one type; `sent_bytes` are what a kernel sends to other
    devices on its own.
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
    """What one call of a program computes.

    `flops` by kind and element type; `traffic_bytes` what is read from and written to memory if elementwise operations
    are fused with those that use them; `uncounted` are operations whose arithmetic is not known; `open_loops` counts
    loops of unknown length, whose bodies count once; `operations` are those that it is the sum of. Kernels count as
    they estimate themselves; `kernel_sent_bytes` is what they send to other devices on their own.
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
    flops, traffic_bytes = _sums(counter.found)
    return Work(dict(flops), traffic_bytes, uncounted, counter.open_loops, tuple(counter.found))


def _sums(found: Sequence[OpWork]) -> tuple[Counter[tuple[str, str]], float]:
    """All arithmetic by kind and element type, and all traffic."""
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
        """On how many devices, each with its part, the body of a manual computation runs."""
        assert self.annotated is not None, "partitioned programs have no manual computations"
        return size_of(self.annotated.region(op).axes)

    def _dearest(self, branches: list[Body], times: float) -> None:
        """Count only the branch with most operations, as one of them runs."""
        before, outcomes = self.found, []
        for branch in branches:
            self.found = []
            self.block(branch, times)
            flops, traffic_bytes = _sums(self.found)
            outcomes.append((flops.total(), traffic_bytes, self.found))
        self.found = before + max(outcomes, key=lambda outcome: outcome[:2])[2]

    # ---- memory traffic ----

    def _traffic(self, op: Op) -> float:
        """Every value that is in memory is written once, and read once by each operation that is not fused."""
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
    """The operation's name, with the target of a custom call."""
    return f"{info.name} @{info.text('call_target_name')}" if info.name == CUSTOM_CALL else info.name
