"""What every pass between ingest and localizing needs: the one form that ingest leaves."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.transforms.support.annotated import AnnotatedModule
from gspmd.transforms.support.attribute_text import text_of
from gspmd.transforms.support.mlir import located, main_function
from gspmd.transforms.support.passes import Precondition

_CALLS = frozenset({"func.call", "stablehlo.composite"})
_MARKERS = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})


def _check_form(module: ir.Module) -> None:
    AnnotatedModule(module)
    found: list[Any] = []

    def visit(op: Any) -> ir.WalkResult:
        name = op.name
        if name in _CALLS or (
            name == "stablehlo.custom_call" and text_of(op.attributes["call_target_name"]) in _MARKERS
        ):
            found.append(op)
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    main_function(module).operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        with located(op):
            raise Unsupported("calls a function, or annotates as frameworks do")


def _check_main(module: ir.Module) -> None:
    operations = [op for op in module.body.operations if op.operation.name == "builtin.module"]
    if operations:
        with located(operations[0]):
            raise AnnotationError("is a module inside the module")
    main_function(module)


INGESTED = Precondition("gspmd-ingest", _check_form)
ONE_MAIN = Precondition("gspmd-ingest", _check_main)
