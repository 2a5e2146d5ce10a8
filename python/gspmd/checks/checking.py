"""Run a program on one device and partitioned on many, on the same inputs, and compare the results."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
from jaxlib.mlir import ir

from gspmd.checks.comparison import Difference, compare, compare_sharded, count_nonfinite, default_rtol, has_nan
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.dialect.notation import print_mesh
from gspmd.reading import read_program
from gspmd.report import sharding_text
from gspmd.runtime import executable as runtime
from gspmd.runtime.arguments import check_count, to_host
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.runtime.executable import Executable, ShardedArray
from gspmd.runtime.inputs import perturbed, random_inputs, read_inputs
from gspmd.runtime.unannotated import has_manual_regions
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, ValueSignature

Array = np.ndarray[Any, Any]
Inputs = Sequence[Any] | str | os.PathLike[str]
Stage = Callable[[str], AbstractContextManager[None]]
_NOISE_FACTOR = 4  # an error up to this many times the effect of rounding is taken for one
_NOISE_RUNS = 3  # rounding is random: more than one try, and the largest effect counts


@dataclasses.dataclass(frozen=True, slots=True)
class ResultCheck:
    """One result of one run.

    `tolerance` is the error allowed, absolute; `noise`, where it was needed, is how far the reference itself
    moves when every float input changes by one rounding error (the most of three
    tries). `reason` says why it failed or barely passed.
    """

    index: int
    name: str | None
    shape: tuple[int, ...]
    dtype: str
    sharding: str
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    nonfinite: int
    passed: bool
    noise: float | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class CheckRun:
    """All results for one set of inputs, which `inputs` describes."""

    inputs: str
    results: tuple[ResultCheck, ...]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)


@dataclasses.dataclass(frozen=True, slots=True)
class CheckReport:
    """What was compared with what, and how it went; true if everything passed."""

    mesh: str
    num_partitions: int
    reference: str
    runs: tuple[CheckRun, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(run.passed for run in self.runs)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def results(self) -> tuple[ResultCheck, ...]:
        """The results of all runs."""
        return tuple(result for run in self.runs for result in run.results)

    def to_dict(self) -> dict[str, Any]:
        """The report in plain values, as for JSON."""
        return {"passed": self.passed, **_json_value(dataclasses.asdict(self))}


def _json_value(value: Any) -> Any:
    """The value with None for infinity and NaN, which JSON has no words for."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair:
    """The program twice, and what counts as equal."""

    reference: Executable
    partitioned: Executable
    rtol: float | None
    atol: float | None


def check(
    module: Any,
    partitioned: Any = None,
    num_devices: int | None = None,
    inputs: Inputs | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    devices: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    stage: Stage = lambda name: nullcontext(),
) -> CheckReport:
    """Compare the annotated program `module` on one device with itself partitioned.

    `module` is anything that `gspmd.partition` reads. `partitioned` is the partitioned module, or a function that makes
    it from an `ir.Module`; without it `gspmd.partition` does, for `num_devices` and with `options` as its keyword
    arguments. `inputs` are global arrays or an `.npz` file, else random from `seed`; if those make the reference
    produce NaN, non-negative ones are tried too. Uneven arguments are padded with NaN and extreme integers.

    Integers and bools must be equal, NaN and infinities in the same places, and other floats no farther off
    than `atol + rtol * (largest magnitude of the result)`. Where neither is given, `rtol` is
    `default_rtol`, and a result that rounding its inputs moves farther is allowed four times that, with a note.
    `devices` are those to run on (default: JAX's CPU devices). `stage` wraps each slow step, for progress.

    Errors: those of partitioning, compiling and running; UsageError if the modules do not belong together.
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None and not (isinstance(tolerance, int | float) and tolerance >= 0):
            raise UsageError(f"{name} is {tolerance}, expected a number of at least 0", code=Code.BAD_VALUE)
    if inputs is not None and not isinstance(inputs, str | os.PathLike | Sequence):
        raise UsageError(
            f"inputs are {shown(inputs)}, expected arrays or the path of an .npz file", code=Code.BAD_VALUE
        )
    program = read_program(module)
    refuse_to_run(program)
    with stage("partitioning"):
        product = _partition(program, partitioned, num_devices, options or {})
    with stage("compiling the partitioned program"):
        parallel = runtime.compile(product, devices, padding="nan")
    if num_devices is not None and parallel.num_partitions != num_devices:
        raise UsageError(
            f"the partitioned module is for {parallel.num_partitions} devices, expected {num_devices}",
            code=Code.PARTITIONED_ALREADY,
        )
    with stage("compiling the original program"):
        reference, description = _reference(program, devices)
    _check_same_interface(reference.signature, parallel.signature)
    pair = _Pair(reference, parallel, rtol, atol)
    runs, notes = _runs(pair, inputs, seed, stage)
    mesh = print_mesh(parallel.signature.mesh)
    return CheckReport(mesh, parallel.num_partitions, description, runs, notes)


def _partition(program: ir.Module, partitioned: Any, num_devices: int | None, options: Mapping[str, Any]) -> Any:
    if partitioned is None:
        from gspmd import api  # the runtime can do without the partitioner

        unknown = set(options) - (set(inspect.signature(api.partition).parameters) - {"program", "num_partitions"})
        if unknown:
            raise UsageError(
                f"gspmd.partition has no argument {min(map(repr, unknown))}",
                hint="options of passes go as {'options': {...}}",
                code=Code.UNKNOWN_OPTION,
            )
        return api.partition(program, num_partitions=num_devices, **options)
    return partitioned(program) if callable(partitioned) else partitioned


def _reference(program: ir.Module, devices: Sequence[Any] | None) -> tuple[Executable, str]:
    """The program before partitioning, and what it runs on.

    Manual regions are written for one device of many; a program that has some is run by XLA on all.
    """
    if has_manual_regions(model_of(program)):
        executable = runtime.compile_with_xla(program, devices)
        return executable, f"XLA's partitioner on {executable.num_partitions} devices, for the manual regions"
    return runtime.compile_single(program, devices[0] if devices else None), "one device"


def _check_same_interface(reference: Signature, partitioned: Signature) -> None:
    for what, left, right in (
        ("arguments", reference.inputs, partitioned.inputs),
        ("results", reference.outputs, partitioned.outputs),
    ):
        expected, actual = ([value.type_text() for value in values] for values in (left, right))
        if expected != actual:
            raise UsageError(
                f"the partitioned module has the {what} ({', '.join(actual)}), expected ({', '.join(expected)})",
                hint="compare it with the module that it was made from",
                code=Code.PARTITIONED_ALREADY,
            )


def _runs(pair: _Pair, inputs: Inputs | None, seed: int, stage: Stage) -> tuple[tuple[CheckRun, ...], tuple[str, ...]]:
    values = pair.reference.signature.inputs
    if inputs is not None:
        path = os.fspath(inputs) if isinstance(inputs, str | os.PathLike) else None
        given = tuple(cast(Sequence[Any], inputs)) if path is None else read_inputs(path, values)
        check_count(values, len(given))
        arrays = tuple(to_host(i, value, arg) for i, (value, arg) in enumerate(zip(values, given, strict=True)))
        return (_run(pair, path or "given inputs", arrays, stage)[0],), ()
    first, nan_results = _run(pair, f"random inputs of seed {seed}", random_inputs(values, seed), stage)
    if not nan_results:
        return (first,), ()
    named = ", ".join(map(str, nan_results))
    note = f"the reference has NaN in results {named}: run again with non-negative inputs"
    positive = random_inputs(values, seed, signed=False)
    second, _ = _run(pair, f"non-negative random inputs of seed {seed}", positive, stage)
    return (first, second), (note,)


def _run(pair: _Pair, described: str, arrays: Sequence[Array], stage: Stage) -> tuple[CheckRun, list[int]]:
    """One comparison, and the results of the reference that have NaN."""
    with stage("running the original program"):
        expected = [np.asarray(result) for result in pair.reference(*arrays)]
    with stage("running the partitioned program"):
        actual = pair.partitioned(*arrays)
        differences = [compare_sharded(e, a) for e, a in zip(expected, actual, strict=True)]
    checks = [
        _judge(pair, i, value, e, difference)
        for i, (value, e, difference) in enumerate(
            zip(pair.partitioned.signature.outputs, expected, differences, strict=True)
        )
    ]
    explicit = pair.rtol is not None or pair.atol is not None
    if not explicit and any(_may_be_noise(check) for check in checks):
        with stage("measuring the effect of rounding"):
            runs = [pair.reference(*perturbed(arrays, seed)) for seed in range(_NOISE_RUNS)]
        checks = [_judge_noise(check, e, moved) for check, e, *moved in zip(checks, expected, *runs, strict=True)]
    return CheckRun(described, tuple(checks)), [i for i, e in enumerate(expected) if has_nan(e)]


def _judge(pair: _Pair, index: int, value: ValueSignature, expected: Array, difference: Difference) -> ResultCheck:
    exact = default_rtol(expected.dtype) == 0
    rtol = default_rtol(expected.dtype) if pair.rtol is None and pair.atol is None else pair.rtol or 0.0
    tolerance = 0.0 if exact else (pair.atol or 0.0) + rtol * difference.scale
    reason = difference.mismatch
    if not reason and not difference.max_abs_error <= tolerance:
        reason = f"error {difference.max_abs_error:.3g} exceeds the tolerance {tolerance:.3g}"
    return ResultCheck(
        index=index,
        name=value.name,
        shape=value.shape,
        dtype=expected.dtype.name,
        sharding=sharding_text(value.sharding, pair.partitioned.signature.mesh),
        max_abs_error=difference.max_abs_error,
        max_rel_error=difference.max_rel_error,
        tolerance=tolerance,
        nonfinite=count_nonfinite(expected),
        passed=not reason,
        reason=reason,
    )


def _may_be_noise(check: ResultCheck) -> bool:
    return not check.passed and check.reason.startswith("error ")


def _judge_noise(check: ResultCheck, expected: Array, moved: Sequence[ShardedArray]) -> ResultCheck:
    """Let a result pass that is as far off as the reference itself moves by rounding its inputs."""
    if not _may_be_noise(check):
        return check
    noise = max(compare(expected, np.asarray(array)).max_abs_error for array in moved)
    passed = check.max_abs_error <= _NOISE_FACTOR * noise
    reason = f"ill-conditioned: rounding the inputs moves the reference by {noise:.3g}" if passed else check.reason
    return dataclasses.replace(check, noise=noise, passed=passed, reason=reason)
