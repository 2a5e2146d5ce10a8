"""What passes need of a module: the one form that ingest leaves, and shardings that propagation has completed."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.notation import print_mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.annotated import AnnotatedModule, AnnotatedProgram
from gspmd.transforms.support.attribute_text import text_of
from gspmd.transforms.support.mlir import located, main_function
from gspmd.transforms.support.passes import Precondition
from gspmd.transforms.support.program import GROUP, MANUAL

_CALLS = frozenset({"func.call", "stablehlo.composite"})
_MARKERS = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})


def _check_form(module: ir.Module) -> None:
    annotated = AnnotatedModule(module)
    if any(size == 1 for _, size in annotated.mesh.axes):
        raise AnnotationError(f"mesh {print_mesh(annotated.mesh)} has an axis of size 1")
    if any(each is not None and each.unreduced for each in annotated.arguments + annotated.results):
        with located(annotated.function):
            raise AnnotationError("has an unreduced argument or result")
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


def _check_closed(module: ir.Module) -> None:
    annotated = AnnotatedProgram(module)
    if any(each is not None and _is_open(each) for each in annotated.arguments + annotated.results):
        with located(annotated.function):
            raise AnnotationError("has an argument or result whose sharding is open")
    for op in annotated.program.ops:
        with located(op.ir):
            shardings = annotated.of_op(op) or ()
            if op.info.name == MANUAL:
                shardings += annotated.region(op).in_shardings
            if op.info.name == GROUP or any(map(_is_open, shardings)):
                raise AnnotationError("has a sharding that is open")


def _is_open(sharding: TensorSharding) -> bool:
    return any(dim.is_open for dim in sharding.dims)


def _check_main(module: ir.Module) -> None:
    operations = [op for op in module.body.operations if op.operation.name == "builtin.module"]
    if operations:
        with located(operations[0]):
            raise AnnotationError("is a module inside the module")
    main_function(module)


INGESTED = Precondition("gspmd-ingest", _check_form)
PROPAGATED = Precondition("gspmd-propagate", _check_closed)
ONE_MAIN = Precondition("gspmd-ingest", _check_main)
