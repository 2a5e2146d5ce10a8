"""Calls of Python from a program, which one device cannot make for all."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import Unsupported
from gspmd.transforms.support.mlir import source_location

_TARGETS = ("xla_ffi_python_", "xla_python_", "xla_ffi_partitioned_python_")


def refuse_callbacks(module: ir.Module) -> None:
    """Raise Unsupported, located, for a program in which JAX calls Python: `jax.debug.print`, `jax.pure_callback`."""

    found = []

    def visit(op: Any) -> ir.WalkResult:
        if op.name == "stablehlo.custom_call":
            target = ir.StringAttr(op.attributes["call_target_name"]).value
            if target.startswith(_TARGETS):
                found.append(source_location(op.location))
                return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        raise Unsupported(
            "a program that is partitioned cannot call Python, as jax.debug.print and jax.pure_callback do",
            hint="return what is to be seen as a result, or take the call out",
            location=found[0],
        )
