"""`gspmd.report`: a program's shardings, reasons and costs as one page of HTML, and as data."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

from gspmd.costs.program_cost import CostReport, cost_of, model_of_program
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
    from gspmd.compiled.ahead_of_time import CompiledProgram


class Report:
    """What is known of a program, to be looked at in a browser or a notebook, or read as data.

    `explanation` and `cost` are what `gspmd.explain` and `gspmd.cost` return for it; `timeline` is a step's; `proof` is
    what is proved of it, None if that was not asked for.
    """

    def __init__(self, explanation: Explanation, cost: CostReport, timeline: Timeline, proof: Proof | None) -> None:
        self.explanation, self.cost, self.timeline, self.proof = explanation, cost, timeline, proof

    @functools.cached_property
    def data(self) -> dict[str, Any]:
        """Everything, as JSON holds it; see docs/report.md. Tables are lists by column."""
        found: dict[str, Any] = as_json(gathered(self.explanation, self.cost, self.timeline, self.proof))
        return found

    def html(self) -> str:
        """The page, which needs nothing else: no network and no other file."""
        return page(self.data)

    def json(self) -> str:
        """The data as JSON text."""
        return json.dumps(self.data)

    def trace(self) -> str:
        """The timeline as JSON for Perfetto or chrome://tracing."""
        return trace_text(self.cost, self.timeline)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all. Errors: InputError."""
        output = Output(path)
        output.write(self.html().encode())

    def _repr_html_(self) -> str:
        """The page in a frame of its own, as notebooks show it."""
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

    With what `gspmd.compile_for` made of the same program, the timeline is that of its compiler where it says one.
    With `verify`, the page has the verdict of `gspmd.verify`, value by value.
    Raises UsageError for a program that is partitioned already, as nothing is known any more of why, and for something
    else than a `CompiledProgram` of the same mesh.
    """
    module = read_program(program)
    if is_partitioned(module):
        raise UsageError(
            "the program is partitioned already", hint="give the annotated one", code=Code.PARTITIONED_ALREADY
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
    """The program as it was given, for the names in it, or what was read from a file that can be read only once."""
    is_path = isinstance(program, os.PathLike) or (isinstance(program, str) and os.path.exists(program))
    return module if is_path and not os.path.isfile(program) else program


def _compiled_timeline(compiled: Any, mesh: Mesh) -> Timeline | None:
    """The timeline in the order of a compiler; None where there is no compiled program, or it says nothing of time."""
    if compiled is None:
        return None
    from gspmd.compiled.ahead_of_time import CompiledProgram

    if not isinstance(compiled, CompiledProgram):
        raise UsageError(
            f"compiled is {shown(compiled)}", hint="give what gspmd.compile_for returns", code=Code.BAD_VALUE
        )
    if compiled.partitioned.mesh.axes != mesh.axes:
        raise UsageError(
            f"compiled for the mesh {print_mesh(compiled.partitioned.mesh)}, the program has {print_mesh(mesh)}",
            hint="compile the program that is reported on",
            code=Code.OPTIONS_DISAGREE,
        )
    step = compiled.step_time()
    return None if step is None else step.timeline
