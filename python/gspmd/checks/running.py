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
from gspmd.checks.verdicts import CheckRun, ResultCheck
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
_MAX_LISTED = 8  # results that a note names
_NOISE_FACTOR = 4  # an error up to this many times the effect of rounding counts as rounding
_BOUNDS_RATIO = 8.0  # what overflows is tried again with smaller inputs
_SMALLEST_BOUND = 1 / 64
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
    runs, notes, signed, bound = list[CheckRun](), list[str](), True, 1.0
    while True:
        described = f"{'' if signed else 'non-negative '}random inputs of seed {seed}"
        described += "" if bound == 1 else f", at most {bound:g}"
        run, unusual = _run(pair, described, random_inputs(values, seed, signed, bound), stage)
        runs.append(run)
        if signed and "NaN" in unusual.values():
            signed = False
            named = _listed([i for i, what in unusual.items() if what == "NaN"])
            notes.append(f"the reference has NaN in results {named}: run again with non-negative inputs")
        elif unusual and bound > _SMALLEST_BOUND:
            bound /= _BOUNDS_RATIO
            named = _listed(list(unusual))
            notes.append(f"the reference is not finite in results {named}: run again with inputs of at most {bound:g}")
        else:
            return tuple(runs), tuple(notes)


def _listed(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:_MAX_LISTED]))
    more = len(indices) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def given_arrays(values: Sequence[ValueSignature], inputs: Inputs) -> tuple[Array, ...]:
    """The user's inputs, as arrays or a file. Errors: InputError, and those of mismatched arguments."""
    path = os.fspath(inputs) if isinstance(inputs, str | os.PathLike) else None
    given = tuple(cast(Sequence[Any], inputs)) if path is None else read_inputs(path, values)
    check_count(values, len(given))
    return tuple(to_host(i, value, arg) for i, (value, arg) in enumerate(zip(values, given, strict=True)))


def _run(pair: ProgramPair, described: str, arrays: Sequence[Array], stage: Stage) -> tuple[CheckRun, dict[int, str]]:
    """A comparison, and which results of the reference have NaN or infinities."""
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
    unusual = {i: "NaN" if has_nan(expected[i]) else "infinities" for i, check in enumerate(checks) if check.nonfinite}
    return CheckRun(described, tuple(checks)), unusual


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
    if not check.reason.startswith("error "):
        overflows = any(difference.mismatch for difference in differences)
        passed = overflows and check.max_abs_error <= max(check.tolerance, _NOISE_FACTOR * noise)
        reason = "ill-conditioned: rounding the inputs makes other elements overflow" if passed else check.reason
        return dataclasses.replace(check, noise=noise, passed=passed, reason=reason)
    passed = check.max_abs_error <= _NOISE_FACTOR * noise
    reason = f"ill-conditioned: rounding the inputs moves the reference by {noise:.3g}" if passed else check.reason
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
