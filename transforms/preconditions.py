"""What passes need of a module: the one form that ingest leaves, and shardings that propagation has completed."""

from __future__ import annotations

from collections.abc import Callable

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.notation import print_mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step_notation import STEPS
from gspmd.transforms.ir.annotated import AnnotatedModule, AnnotatedProgram
from gspmd.transforms.ir.attribute_kinds import check_module, check_operation, check_signature
from gspmd.transforms.ir.modules import FUNCTION, main_function
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import CALLS, CONSTRAINT, GROUP, MANUAL, PROPAGATION_BARRIER
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located
from gspmd.transforms.passes import Precondition

_MARKERS = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
_OF_SHARDY = STEPS | {MANUAL, "sdy.return", CONSTRAINT, GROUP, PROPAGATION_BARRIER}
"""The operations of Shardy's that ingest leaves, and those that resharding adds."""


def _check_form(module: Operation) -> None:
    check_module(module)
    check_signature(main_function(module))
    annotated = AnnotatedModule(module)
    if any(size == 1 for _, size in annotated.mesh.axes):
        raise AnnotationError(f"mesh {print_mesh(annotated.mesh)} has an axis of size 1")
    if any(each is not None and each.unreduced for each in annotated.arguments + annotated.results):
        with located(annotated.function):
            raise AnnotationError("has an unreduced argument or result")
    _check_operations(module, _check_operation_of_form)
    for function in module.regions[0]:
        if function.name == FUNCTION and function != annotated.function:
            _check_unannotated(function)


def _check_unannotated(function: Operation) -> None:
    """Check that a function named by a custom call has no annotations; `gspmd-ingest` removes them."""
    entries = [entry for key in ("arg_attrs", "res_attrs") for entry in function.attributes.get(key, ())]
    names = [name for op in function.walk() for name in (op.name, *op.attributes)]
    names += [each.name for entry in entries for each in ir.DictAttr(entry)]
    if any(name.startswith(("sdy.", "mhlo.sharding")) for name in names):
        with located(function):
            raise AnnotationError("is not @main, and is annotated")


def _check_operation_of_form(op: Operation) -> None:
    check_operation(op)
    target = text_of(op.attributes["call_target_name"]) if op.name == CUSTOM_CALL else ""
    if op.name in CALLS or target in _MARKERS:
        with located(op):
            raise Unsupported("calls a function, or annotates as frameworks do")
    if op.name.startswith("sdy.") and op.name not in _OF_SHARDY:
        with located(op):
            raise Unsupported("is not in the form that passes read")


def _check_operations(module: Operation, check: Callable[[Operation], None]) -> None:
    """Raises the first error that `check` raises for an operation in @main."""
    for op in main_function(module).walk():
        check(op)


def _check_closed(module: Operation) -> None:
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


def _check_main(module: Operation) -> None:
    operations = [op for op in module.regions[0] if op.name == "builtin.module"]
    if operations:
        with located(operations[0]):
            raise AnnotationError("is a module inside the module")
    check_module(module)
    check_signature(main_function(module))
    _check_operations(module, check_operation)


INGESTED = Precondition("gspmd-ingest", _check_form)
PROPAGATED = Precondition("gspmd-propagate", _check_closed)
ONE_MAIN = Precondition("gspmd-ingest", _check_main)
