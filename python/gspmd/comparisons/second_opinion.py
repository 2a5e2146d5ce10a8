"""Compares the partitionings of a program by gspmd, XLA GSPMD and XLA with Shardy."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from jaxlib.mlir import ir

from gspmd import api
from gspmd.checks.running import Inputs, Stage, check_judging
from gspmd.comparisons.figures import SentCollectives, figures_of, sent_by
from gspmd.comparisons.measuring import OURS, Task, checked, judged, measured, unpartitioned
from gspmd.comparisons.opinions import NOT_RUN, LineDifference, Opinion, SecondOpinion
from gspmd.comparisons.peers import PEERS
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ExecutionError, InternalError, UsageError, shown
from gspmd.dialect.notation import print_mesh
from gspmd.isolation import ProcessDied, Worker, on_virtual_devices
from gspmd.program_mesh import mesh_of
from gspmd.reading import read_program
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.runtime.executable_module import is_partitioned
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.ops.custom_rules import RuleSource

T = TypeVar("T")
TIMEOUT_S = 600.0
"""The time limit for partitioning and compiling, and for a run of the compiled program."""


def compare(
    program: Any,
    num_partitions: int | None = None,
    *,
    target: str = "",
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    strict: bool | int = False,
    options: Mapping[str, Any] | None = None,
    inputs: Inputs | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    peers: Sequence[str] = PEERS,
    run: bool = True,
    verify: bool = False,
    timeout_s: float = TIMEOUT_S,
    stage: Stage = lambda name: nullcontext(),
) -> SecondOpinion:
    """Partition an annotated program with gspmd and with the partitioners inside XLA, and compare the results.

    `program` and the arguments up to `options` are those of `gspmd.partition`; the time of a step is estimated on
    `target`. The next four are those of `gspmd.check`. jaxlib compiles all programs for virtual CPU devices in another
    process, which XLA may end, and the figures of all are read from the optimized HLO. If a peer refuses the program,
    ends the process or takes more than `timeout_s` seconds, its opinion says so. Without `run`, nothing is run, and
    results are not compared. With `verify`, all per-device modules are verified as by `gspmd.verify`. `stage` wraps
    each slow step, for progress.

    Errors: those of reading the program and its annotations; UsageError; ExecutionError if the unpartitioned program
    cannot be compiled. Another error of gspmd is its opinion, and is raised only if all peers fail, too.
    """
    unknown = [name for name in peers if name not in PEERS]
    if unknown:
        raise UsageError(f"there is no peer {shown(unknown[0])}", hint=f"there are {PEERS}", code=Code.BAD_VALUE)
    check_judging(inputs, rtol, atol)
    module = read_program(program)
    if is_partitioned(module):
        raise UsageError(
            "the program is already partitioned", hint="give the unpartitioned one", code=Code.PARTITIONED_ALREADY
        )
    refuse_to_run(module)
    mesh = mesh_of(module, num_partitions)
    planned_for(target, mesh)
    product, refusal, seconds = _ours(
        module, num_partitions, stage, replicate_unsupported, custom_rules, strict, target, options
    )
    task = Task(_text(module), print_mesh(mesh), inputs, seed, rtol, atol, verify)
    with on_virtual_devices(mesh.size, timeout_s) as worker:
        collector = _OpinionCollector(worker, task, target, run, stage, [])
        collector.prepare()
        if product is None:
            assert refusal is not None, "it was not partitioned"
            given = collector.failed(OURS, refusal)
        else:
            given = collector.opinion(OURS, _text(product.module), seconds)
        opinions = (given, *(collector.opinion(peer) for peer in peers))
    if all(opinion.figures is None for opinion in opinions):
        raise collector.first_error()
    return SecondOpinion(mesh, target, opinions, _differences(opinions, product))


def _ours(
    module: ir.Module, num_partitions: int | None, stage: Stage, *arguments: Any
) -> tuple[api.Partitioned | None, Error | None, float]:
    """The program as gspmd partitions it, or the error, and the seconds that partitioning took."""
    replicate_unsupported, custom_rules, strict, target, options = arguments
    started = time.perf_counter()
    try:
        with stage("partitioning"):
            product = api.partition(
                module,
                num_partitions,
                replicate_unsupported=replicate_unsupported,
                custom_rules=custom_rules,
                strict=strict,
                target=target,
                options=options,
            )
    except (UsageError, InternalError):
        raise
    except Error as error:
        return None, error, 0.0
    return product, None, time.perf_counter() - started


@dataclasses.dataclass(frozen=True, slots=True)
class _OpinionCollector:
    """Collects the opinions of the partitioners, one after the other, in a process that each of them may end."""

    worker: Worker
    task: Task
    target: str
    run: bool
    stage: Stage
    errors: list[Exception]

    def prepare(self) -> None:
        """Compile the unpartitioned program, if it is to run. Errors: those of compiling it."""
        if self.run:
            with self.stage("compiling the original program"):
                try:
                    self.worker.call(unpartitioned, self.task)
                except ProcessDied as death:
                    raise ExecutionError(
                        f"the unpartitioned program ends XLA: {death}", hint="compare without running it"
                    ) from None

    def failed(self, partitioner: str, error: Exception) -> Opinion:
        """The opinion of a partitioner that failed."""
        self.errors.append(error)
        return Opinion(partitioner, failure=_failure_text(error))

    def first_error(self) -> Error:
        """The error to raise if all partitioners failed: gspmd's."""
        error = self.errors[0]
        return error if isinstance(error, Error) else ExecutionError(f"it cannot be compiled: {_reason(error)}")

    def opinion(self, partitioner: str, partitioned: str = "", seconds: float = 0.0) -> Opinion:
        """The opinion of a partitioner; gspmd's module, and the `seconds` that partitioning took, are given."""
        with self.stage(f"compiling with {partitioner}"):
            try:
                found = self.worker.call(measured, self.task, partitioner, partitioned)
            except Exception as error:  # noqa: BLE001 - any error of XLA is its opinion
                return self.failed(partitioner, error)
        figures = figures_of(found, self.task.mesh, self.target, found.seconds + seconds)
        opinion = Opinion(partitioner, figures, unchecked=NOT_RUN)
        if self.run:
            stage = f"running the program of {partitioner}"
            results, unchecked = self._answer(checked, stage, partitioner, partitioned)
            opinion = dataclasses.replace(opinion, results=results, unchecked=unchecked)
        if self.task.verify:
            stage = f"verifying the program of {partitioner}"
            proof, unproved = self._answer(judged, stage, partitioner, partitioned)
            opinion = dataclasses.replace(opinion, verification=proof, unproved=unproved)
        return opinion

    def _answer(
        self, question: Callable[[Task, str, str], T], stage: str, partitioner: str, partitioned: str
    ) -> tuple[T | None, str]:
        """The answer to a question about a partitioner's program, or the reason that there is none."""
        with self.stage(stage):
            try:
                return self.worker.call(question, self.task, partitioner, partitioned), ""
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                return None, _reason(error)


def _failure_text(error: Exception) -> str:
    """Whether the partitioner refused the program or ended the process, and why, on one line."""
    return f"{'aborts' if isinstance(error, ProcessDied) else 'refuses it'}: {_reason(error)}"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:400].removeprefix("gspmd: error: ")


def _text(module: ir.Module) -> str:
    """The text with locations, which map collectives to source lines."""
    return str(module.operation.get_asm(enable_debug_info=True))


def _differences(opinions: Sequence[Opinion], product: api.Partitioned | None) -> tuple[LineDifference, ...]:
    """The lines whose traffic differs between partitioners, in descending order of spread.

    The collectives of gspmd are counted before XLA combines any, as a combined one keeps only one line.
    """
    compared = {opinion.partitioner: opinion.figures.sent for opinion in opinions if opinion.figures is not None}
    if len(compared) < 2:
        return ()
    if OURS in compared and product is not None:
        compared[OURS] = tuple(sent_by(product.collectives))
    found = []
    for line in dict.fromkeys(each.line for entries in compared.values() for each in entries):
        sent = {name: tuple(each for each in entries if each.line == line) for name, entries in compared.items()}
        if len({frozenset(map(_kind, each)) for each in sent.values()}) > 1:
            found.append(LineDifference(line, sent))
    return tuple(sorted(found, key=lambda difference: -difference.spread))


def _kind(sent: SentCollectives) -> tuple[str, str, int]:
    return sent.kind, sent.axes, sent.bytes
