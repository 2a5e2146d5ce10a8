"""Calls of Python from a program, which only the process that traced it can make."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import SourceLocation, Unsupported
from gspmd.transforms.ir.callbacks import is_callback
from gspmd.transforms.parsing.mlir import source_location


def refuse_to_run(module: ir.Module) -> None:
    """Raise Unsupported, located, for a program with calls of Python that is to run without the functions called.

    What stands in the program is a number or a pointer that means a function to the process that traced it, and
    anything or nothing to another one.
    """
    found = _calls(module)
    if found:
        raise Unsupported(
            "calls Python, as jax.debug.print and jax.pure_callback do; the program is here without what it calls",
            hint="run the function that was traced by gspmd.jit, or take the call out",
            location=found[0],
            code=Code.HOST,
        )


def _calls(module: ir.Module) -> list[SourceLocation | None]:
    """Where the first call is, if there is one."""
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if is_callback(op):
            found.append(source_location(op.location))
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
