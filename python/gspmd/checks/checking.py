"""Run a program on one device and partitioned on many, with the same inputs, and compare the results."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from jaxlib.mlir import ir

from gspmd.checks.evaluation import CheckSettings
from gspmd.checks.running import Inputs, ProgramPair, Stage, check_judging, reference_of, runs_of
from gspmd.checks.verdicts import CheckReport, CheckRun, ResultCheck
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.notation import print_mesh
from gspmd.reading import read_program
from gspmd.runtime import executable as runtime
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.transforms.ir.signature import Signature

__all__ = ["CheckReport", "CheckRun", "Inputs", "ResultCheck", "Stage", "check"]


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
    bisect: bool = False,
    stage: Stage = lambda name: nullcontext(),
) -> CheckReport:
    """Compare the annotated program `module` on one device with the partitioned program.

    `module` is anything that `gspmd.partition` reads. `partitioned` is the partitioned module, or a function that makes
    it from an `ir.Module`; by default `gspmd.partition` for `num_devices` with `options` as its keyword arguments.
    `inputs` are global arrays or an `.npz` file, or else random numbers from `seed`; if these make the reference
    produce NaN, non-negative ones are tried, too. Uneven arguments are padded with NaN and extreme integers.

    Integers and bools must be equal, NaN and infinities at the same elements, and other floats within `atol + rtol *
    (largest magnitude of the result)`. By default, `rtol` is `default_rtol`. There are two wider tolerances, each with
    a note: four times the effect of rounding the inputs, and the tolerance of the narrowest type from which a result is
    computed, as in mixed precision. `devices` are those to run on (default: JAX's CPU devices). `stage` wraps each slow
    step, for progress.

    With `bisect`, if results differ or the program cannot run, `fault` of the report has the pass and the operation at
    fault and a reduced program. All of this runs on virtual CPU devices of a separate process, to survive crashes of
    XLA. It takes an unpartitioned program and no `devices`.

    Errors: those of partitioning, compiling and running; UsageError if the modules do not belong together.
    """
    check_judging(inputs, rtol, atol)
    program = read_program(module)
    refuse_to_run(program)
    if bisect:
        if partitioned is not None or devices is not None:
            raise UsageError(
                "bisect with a partitioned module or devices",
                hint="give the annotated program alone",
                code=Code.OPTIONS_DISAGREE,
            )
        from gspmd.checks.locating import located_check
        from gspmd.explanations.value_names import given_text

        _check_options(options or {})
        judging = CheckSettings(inputs, seed, rtol, atol)
        return located_check(program, given_text(module), num_devices, options or {}, judging, stage)
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
        reference = reference_of(program, devices)
    _check_same_interface(reference.executable.signature, parallel.signature)
    pair = ProgramPair(reference, parallel, rtol, atol)
    runs, notes = runs_of(pair, inputs, seed, stage)
    mesh = print_mesh(parallel.signature.mesh)
    return CheckReport(mesh, parallel.num_partitions, reference.described, runs, notes)


def _partition(program: ir.Module, partitioned: Any, num_devices: int | None, options: Mapping[str, Any]) -> Any:
    if partitioned is None:
        from gspmd import api  # the runtime does not need the partitioner otherwise

        _check_options(options)
        return api.partition(program, num_partitions=num_devices, **options)
    return partitioned(program) if callable(partitioned) else partitioned


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for names that are not arguments of `gspmd.partition`."""
    from gspmd import api

    unknown = set(options) - (set(inspect.signature(api.partition).parameters) - {"program", "num_partitions"})
    if unknown:
        raise UsageError(
            f"gspmd.partition has no argument {min(map(repr, unknown))}",
            hint="options of passes go as {'options': {...}}",
            code=Code.UNKNOWN_OPTION,
        )


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
