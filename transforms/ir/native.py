"""MLIR passes on a module in memory: it is written, the passes run, and it is read again."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from gspmd.dialect.errors import AnnotationError
from gspmd.transforms.ir.modules import FUNCTION, context_of, declare_types
from gspmd.transforms.ir.operations import Block, Operation, Point
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import written
from gspmd.transforms.parsing.attribute_text import unheard
from gspmd.transforms.parsing.mlir import mlir_errors


def run_native(top: Operation, passes: str) -> None:
    """Run passes, named as in a pipeline text without `builtin.module(...)`, on a module. Raises MLIRError."""
    context = context_of(top)
    module = written(top)
    module.operation.verify()  # passes abort the process for invalid modules
    PassManager.parse(f"builtin.module({passes})", context).run(module.operation)
    result = model_of(module)
    top.attributes, top.regions, top.source = result.attributes, result.regions, module.operation
    for region in top.regions:
        region.owner = top


def try_native(top: Operation, passes: str) -> bool:
    """Run passes that may refuse the module, which then stays unchanged, without diagnostics.

    Returns whether they ran.
    """
    handler = context_of(top).attach_diagnostic_handler(lambda _: True)
    try:
        run_native(top, passes)
    except ir.MLIRError:
        return False
    finally:
        handler.detach()
    return True


def module_of(op: Operation) -> Operation:
    """A module with one function that applies a copy of the operation to its arguments."""
    location = ir.Location.unknown(context_of(op))
    block = Block([value.type for value in op.operands], [location] * len(op.operands))
    made = op.clone(dict(zip(op.operands, block.arguments, strict=True))).insert(Point(block))
    Operation("func.return", made.results, [], {}, location).insert(Point(block))
    function = Operation(FUNCTION, [], [], {"sym_name": ir.StringAttr.get("main", context_of(op))}, location, [block])
    declare_types(function)
    body = Block()
    function.insert(Point(body))
    return Operation("builtin.module", [], [], {}, location, [body])


def check_fits(op: Operation) -> None:
    """Raise AnnotationError for an operation that is invalid after a change of its attributes."""
    with unheard(context_of(op)), mlir_errors(context_of(op), AnnotationError):
        written(module_of(op)).operation.verify()
