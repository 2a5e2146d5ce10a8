"""Remarks on the cost of calls in manual computations that all devices along the free axes repeat."""

from __future__ import annotations

from collections import Counter

from gspmd.dialect.axes import Axes, size_of, without
from gspmd.dialect.notation import print_axes
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.manual import ops_in_regions
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Location
from gspmd.transforms.ir.program import Op
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.paths.traffic import sent_by_step
from gspmd.transforms.reshard.rewrite import Resharder


def remark_on_calls(annotated: AnnotatedProgram, resharder: Resharder) -> None:
    """Remark on the calls without a rule in a resharded program, once for equal calls."""
    alike = resharder.rules.alike
    if not alike:
        return
    first: dict[tuple[OpInfo, Axes], Op] = {}
    counts: Counter[tuple[OpInfo, Axes]] = Counter()
    for op, held, _ in ops_in_regions(annotated.program, annotated.codec, annotated.mesh):
        if op.info in alike:
            first.setdefault((op.info, held), op)
            counts[op.info, held] += 1
    sent = _sent(resharder)
    for (info, held), op in first.items():
        free = without(annotated.mesh.all_axes(), held)
        names = print_axes(free, annotated.mesh)
        message = f"{alike[info]}, so {size_of(free)} devices along the free axes {names} repeat it"
        if sent[op.ir.location]:
            message += f", and each sends {sent[op.ir.location]:.0f} bytes for its operands"
        if counts[info, held] > 1:
            message += f" (and {counts[info, held] - 1} more equal calls)"
        remark(op.ir, message)


def _sent(resharder: Resharder) -> Counter[Location]:
    """By location, the bytes that a device sends for the operands of the operations there."""
    found: Counter[Location] = Counter()
    for move in resharder.moves:
        steps = sent_by_step(move.type_, move.source, move.steps)
        found[move.location] += sum(sent for _, sent in steps)  # type: ignore[assignment]
    return found
