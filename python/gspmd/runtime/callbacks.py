"""Python callbacks of a program, which only the process that traced it can call."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import SourceLocation, Unsupported
from gspmd.transforms.ir.callbacks import is_callback
from gspmd.transforms.parsing.mlir import source_location


def refuse_to_run(module: ir.Module) -> None:
    """Raise Unsupported, located, for a program with Python callbacks whose functions are not available.

    The program contains a number or a pointer that identifies a function only in the process that traced it.
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
    """The location of the first callback, if any."""
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if is_callback(op):
            found.append(source_location(op.location))
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
