"""A check that also locates the fault; everything runs in a process that may crash."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.checks.bisection import Bisection, symptom_of
from gspmd.checks.evaluation import CheckSettings, described, judged
from gspmd.checks.programs import printed
from gspmd.checks.reducing import reduced_program
from gspmd.checks.running import Stage
from gspmd.checks.verdicts import CheckReport, CheckRun
from gspmd.dialect.errors import Error, ErrorKind, ExecutionError
from gspmd.dialect.notation import print_mesh
from gspmd.explanations.value_names import GivenNames
from gspmd.isolation import ProcessDied, Worker, on_virtual_devices
from gspmd.program_mesh import mesh_of

_TIMEOUT_S = 600.0


def located_check(
    program: ir.Module,
    source: tuple[str, str],
    num_partitions: int | None,
    options: Mapping[str, Any],
    judging: CheckSettings,
    stage: Stage,
) -> CheckReport:
    """Compare a program with the partitioned program; if results differ, the report has the fault.

    `source` is the text of the program, if any, and the file name in its locations. Errors: those of partitioning,
    except internal errors, and of compiling the unpartitioned program.
    """
    mesh = mesh_of(program, num_partitions)
    with program.context, ir.Location.unknown():
        names = GivenNames(program, *source)
    text = printed(program)
    with on_virtual_devices(mesh.size, _TIMEOUT_S) as worker:
        with stage("compiling the original program"):
            try:
                description = worker.call(described, text, judging)
            except ProcessDied as death:
                raise ExecutionError(f"the unpartitioned program ends XLA: {death}") from None
        with stage("comparing with the partitioned program"):
            runs, notes, problem = _outcome(worker, program, text, num_partitions, options, judging)
        report = CheckReport(print_mesh(mesh), mesh.size, description, runs, notes)
        if not problem:
            return report
        rules = options.get("custom_rules")
        rest = {name: value for name, value in options.items() if name not in ("custom_rules", "on_stage")}
        passes = api.passes_of(num_partitions, **{"replicate_unsupported": False, **rest})
        with stage("looking for the pass and the operation at fault"):
            bisection = Bisection(worker, text, names, passes, api.attaching(rules), judging)
            lead = bisection.lead(problem)
        with stage("reducing the program"):
            smaller = reduced_program(worker, lead, passes, api.attaching(rules), judging)
    return dataclasses.replace(report, fault=dataclasses.replace(lead.fault, reduced=smaller))


def _outcome(
    worker: Worker,
    program: ir.Module,
    text: str,
    num_partitions: int | None,
    options: Mapping[str, Any],
    judging: CheckSettings,
) -> tuple[tuple[CheckRun, ...], tuple[str, ...], str]:
    """The runs, notes on them, and the problem of the partitioned program; empty if there is none."""
    try:
        product = api.partition(program, num_partitions, **options)
    except Error as error:
        if error.kind is not ErrorKind.INTERNAL:
            raise
        return (), (), f"cannot be partitioned: {error.message}"
    except Exception as error:  # noqa: BLE001 - a defect of a pass
        return (), (), f"cannot be partitioned: {type(error).__name__}: {error}"
    partitioned = printed(product.module)
    try:
        runs, notes = worker.call(judged, text, partitioned, judging)
    except Exception as error:  # noqa: BLE001 - whatever XLA raises
        return (), (), f"cannot be run: {error}"
    return runs, notes, symptom_of(runs)
