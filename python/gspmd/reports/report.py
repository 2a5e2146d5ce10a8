"""`gspmd.report`: a program's shardings, reasons and costs as one page of HTML, and as data."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

from gspmd.costs.cost_report import CostReport
from gspmd.costs.program_cost import cost_of, model_of_program
from gspmd.costs.timeline import Timeline
from gspmd.costs.trace import trace_text
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh
from gspmd.explanations.explanation import Explanation, explain
from gspmd.output import Output
from gspmd.reading import read_program
from gspmd.reports.data import as_json
from gspmd.reports.gathering import gathered
from gspmd.reports.page import framed, page
from gspmd.reports.proofs import Proof
from gspmd.runtime.executable_module import is_partitioned
from gspmd.transforms.ops.custom_rules import RuleSource

if TYPE_CHECKING:
    from gspmd.compiled.compiled_program import CompiledProgram


class Report:
    """A report on a program, to be viewed in a browser or a notebook, or read as data.

    `explanation` and `cost` are the results of `gspmd.explain` and `gspmd.cost`; `timeline` is that of one step.
    `proof` is the result of `gspmd.verify`, None if not requested.
    """

    def __init__(self, explanation: Explanation, cost: CostReport, timeline: Timeline, proof: Proof | None) -> None:
        self.explanation, self.cost, self.timeline, self.proof = explanation, cost, timeline, proof

    @functools.cached_property
    def data(self) -> dict[str, Any]:
        """All data as a JSON value; see docs/report.md. Tables are lists by column."""
        found: dict[str, Any] = as_json(gathered(self.explanation, self.cost, self.timeline, self.proof))
        return found

    def html(self) -> str:
        """The page, which needs no network and no other file."""
        return page(self.data)

    def json(self) -> str:
        """The data as JSON text."""
        return json.dumps(self.data)

    def trace(self) -> str:
        """The timeline as JSON for Perfetto or chrome://tracing."""
        return trace_text(self.cost, self.timeline)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically. Errors: InputError."""
        output = Output(path)
        output.write(self.html().encode())

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        return framed(self.html())

    def __repr__(self) -> str:
        count = len(self.explanation.values)
        return f"<Report of {count} values and {len(self.cost.collectives)} collectives on {self.cost.target}>"


def report(
    program: Any,
    num_partitions: int | None = None,
    *,
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    target: str = "",
    options: Mapping[str, Any] | None = None,
    compiled: CompiledProgram | None = None,
    verify: bool = False,
) -> Report:
    """Report on a program; arguments and errors are those of `gspmd.explain` and `gspmd.cost`.

    With `compiled`, the result of `gspmd.compile_for` for the same program, the timeline is the compiler's schedule if
    it has one. With `verify`, the page has the verdict of `gspmd.verify`, value by value. Raises UsageError for a
    partitioned program, which no longer has the reasons of its shardings, and if `compiled` is not a `CompiledProgram`
    for the same mesh.
    """
    module = read_program(program)
    if is_partitioned(module):
        raise UsageError(
            "the program is already partitioned", hint="give the annotated one", code=Code.PARTITIONED_ALREADY
        )
    options_of_both: dict[str, Any] = {
        "replicate_unsupported": replicate_unsupported,
        "custom_rules": custom_rules,
        "target": target,
        "options": options,
    }
    found = explain(_again(program, module), num_partitions, **options_of_both)
    cost = cost_of(found.partitioned.module, target, model_of_program(module, num_partitions))
    proof = Proof(module, found) if verify else None
    return Report(found, cost, _compiled_timeline(compiled, found.mesh) or cost.timeline, proof)


def _again(program: Any, module: ir.Module) -> Any:
    """The program as given, which has the user's names, or the module read from a file that can be read only once."""
    is_path = isinstance(program, os.PathLike) or (isinstance(program, str) and os.path.exists(program))
    return module if is_path and not os.path.isfile(program) else program


def _compiled_timeline(compiled: Any, mesh: Mesh) -> Timeline | None:
    """The compiler's schedule as a timeline; None without a compiled program or without times in it."""
    if compiled is None:
        return None
    from gspmd.compiled.compiled_program import CompiledProgram

    if not isinstance(compiled, CompiledProgram):
        raise UsageError(
            f"compiled is {shown(compiled)}", hint="give the result of gspmd.compile_for", code=Code.BAD_VALUE
        )
    if compiled.partitioned.mesh.axes != mesh.axes:
        raise UsageError(
            f"compiled for the mesh {print_mesh(compiled.partitioned.mesh)}, the program has {print_mesh(mesh)}",
            hint="compile the program that is reported on",
            code=Code.OPTIONS_DISAGREE,
        )
    step = compiled.step_time()
    return None if step is None else step.timeline
