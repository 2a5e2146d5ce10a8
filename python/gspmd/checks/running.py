"""Run a program unpartitioned and partitioned on the same inputs, and compare the results."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
from jaxlib.mlir import ir

from gspmd.checks.comparison import Difference, compare, compare_sharded, count_nonfinite, default_rtol, has_nan
from gspmd.checks.precision import narrowest_types
from gspmd.checks.verdicts import MAX_LISTED, CheckRun, ResultCheck
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.runtime import executable as runtime
from gspmd.runtime.arguments import check_count, to_host
from gspmd.runtime.executable import Executable, ShardedArray
from gspmd.runtime.inputs import perturbed, random_inputs, read_inputs
from gspmd.runtime.unannotated import has_manual_regions
from gspmd.text_report import sharding_text
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import ValueSignature

Array = np.ndarray[Any, Any]
Inputs = Sequence[Any] | str | os.PathLike[str]
Stage = Callable[[str], AbstractContextManager[None]]
_NOISE_FACTOR = 4  # an error up to this many times the effect of rounding counts as rounding
_BOUNDS = (1.0, 1 / 8, 1 / 64)  # of inputs: what overflows is tried again with smaller ones
_NOISE_RUNS = 3  # rounding is random: the largest effect of several tries counts


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The unpartitioned program, its inputs, and the narrowest type of each result."""

    executable: Executable
    described: str
    made_of: tuple[np.dtype[Any] | None, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramPair:
    """Both programs and the tolerances."""

    reference: Reference
    partitioned: Executable
    rtol: float | None
    atol: float | None


def check_judging(inputs: Inputs | None, rtol: float | None, atol: float | None) -> None:
    """Raise UsageError for tolerances and inputs of a wrong type."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None and not (isinstance(tolerance, int | float) and tolerance >= 0):
            raise UsageError(f"{name} is {tolerance}, expected a number of at least 0", code=Code.BAD_VALUE)
    if inputs is not None and not isinstance(inputs, str | os.PathLike | Sequence):
        raise UsageError(
            f"inputs are {shown(inputs)}, expected arrays or the path of an .npz file", code=Code.BAD_VALUE
        )


def reference_of(program: ir.Module, devices: Sequence[Any] | None) -> Reference:
    """Compile the unpartitioned program.

    A program with manual regions, which are per-device programs, is partitioned and run by XLA.
    """
    model = model_of(program)
    made_of = narrowest_types(model)
    if has_manual_regions(model):
        executable = runtime.compile_with_xla(program, devices)
        described = f"XLA's partitioner on {executable.num_partitions} devices, for the manual regions"
        return Reference(executable, described, made_of)
    return Reference(runtime.compile_single(program, devices[0] if devices else None), "one device", made_of)


def runs_of(
    pair: ProgramPair, inputs: Inputs | None, seed: int, stage: Stage
) -> tuple[tuple[CheckRun, ...], tuple[str, ...]]:
    """The comparisons that `check` makes, and notes on them. Errors: those of running, and of reading inputs."""
    values = pair.reference.executable.signature.inputs
    if inputs is not None:
        named = os.fspath(inputs) if isinstance(inputs, str | os.PathLike) else "given inputs"
        return (_run(pair, named, given_arrays(values, inputs), stage)[0],), ()
    runs, notes, signed, bounds = list[CheckRun](), list[str](), True, [*_BOUNDS]
    while True:
        described = f"{'' if signed else 'non-negative '}random inputs of seed {seed}"
        described += "" if bounds[0] == 1 else f", at most {bounds[0]:g}"
        run, nan_results = _run(pair, described, random_inputs(values, seed, signed, bounds[0]), stage)
        runs.append(run)
        nonfinite = [result.index for result in run.results if result.nonfinite]
        if signed and nan_results:
            signed, why, again = False, f"has NaN in results {_listed(nan_results)}", "non-negative inputs"
        elif nonfinite and bounds[1:]:
            del bounds[0]
            why, again = f"is not finite in results {_listed(nonfinite)}", f"inputs of at most {bounds[0]:g}"
        else:
            return tuple(runs), tuple(notes)
        notes.append(f"the reference {why}: run again with {again}")


def _listed(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:MAX_LISTED]))
    more = len(indices) - MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def given_arrays(values: Sequence[ValueSignature], inputs: Inputs) -> tuple[Array, ...]:
    """The user's inputs, as arrays or a file. Errors: InputError, and those of mismatched arguments."""
    path = os.fspath(inputs) if isinstance(inputs, str | os.PathLike) else None
    given = tuple(cast(Sequence[Any], inputs)) if path is None else read_inputs(path, values)
    check_count(values, len(given))
    return tuple(to_host(i, value, arg) for i, (value, arg) in enumerate(zip(values, given, strict=True)))


def _run(pair: ProgramPair, described: str, arrays: Sequence[Array], stage: Stage) -> tuple[CheckRun, list[int]]:
    """A comparison, and the results of the reference that have NaN."""
    with stage("running the original program"):
        expected = [np.asarray(result) for result in pair.reference.executable(*arrays)]
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
            runs = [pair.reference.executable(*perturbed(arrays, seed)) for seed in range(_NOISE_RUNS)]
        checks = [_judge_noise(check, e, moved) for check, e, *moved in zip(checks, expected, *runs, strict=True)]
        made_of = pair.reference.made_of or (None,) * len(checks)
        checks = [_judge_narrow(check, narrowest) for check, narrowest in zip(checks, made_of, strict=True)]
    return CheckRun(described, tuple(checks)), [i for i, e in enumerate(expected) if has_nan(e)]


def _judge(
    pair: ProgramPair, index: int, value: ValueSignature, expected: Array, difference: Difference
) -> ResultCheck:
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
    return not check.passed and check.reason.startswith(("error ", "NaN ", "inf ", "-inf "))


def _judge_noise(check: ResultCheck, expected: Array, moved: Sequence[ShardedArray]) -> ResultCheck:
    """Accept an error of the size that rounding the inputs has on the reference."""
    if not _may_be_noise(check):
        return check
    differences = [compare(expected, np.asarray(array)) for array in moved]
    noise = max(difference.max_abs_error for difference in differences)
    is_error = check.reason.startswith("error ")
    moves_too = is_error or any(difference.mismatch for difference in differences)
    passed = moves_too and check.max_abs_error <= max(check.tolerance, _NOISE_FACTOR * noise)
    effect = f"moves the reference by {noise:.3g}" if is_error else "makes other elements overflow"
    reason = f"ill-conditioned: rounding the inputs {effect}" if passed else check.reason
    return dataclasses.replace(check, noise=noise, passed=passed, reason=reason)


def _judge_narrow(check: ResultCheck, made_of: np.dtype[Any] | None) -> ResultCheck:
    """Accept an error within the tolerance of the narrowest type from which the result is computed."""
    if made_of is None or not check.reason.startswith("error ") or not check.tolerance:
        return check
    allowed = default_rtol(made_of)
    if not check.max_rel_error <= allowed:
        return check
    reason = f"computed in {made_of.name}: the relative error {check.max_rel_error:.3g} is within {allowed:.3g}"
    return dataclasses.replace(check, passed=True, reason=reason)
