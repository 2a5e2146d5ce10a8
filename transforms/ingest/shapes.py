"""Dynamic shapes: refined away where constants decide them, else refused."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ingest.survey import Survey, value_types
from gspmd.transforms.parsing.mlir import located

_CANONICALIZE = "func.func(stablehlo-canonicalize-dynamism)"
_REFINE = f"builtin.module({_CANONICALIZE},stablehlo-refine-shapes,{_CANONICALIZE})"
_HINT = "export the program with fixed shapes"


def is_dynamic(type_: ir.Type) -> bool:
    if isinstance(type_, ir.TupleType):
        return any(is_dynamic(type_.get_type(index)) for index in range(type_.num_types))
    return isinstance(type_, ir.ShapedType) and not (type_.has_rank and type_.has_static_shape)


def has_dynamic_shapes(survey: Survey) -> bool:
    return any(map(is_dynamic, survey.types))


def refine(module: ir.Module, survey: Survey) -> bool:
    """Try to compute all shapes from those of @main's arguments; returns whether that worked."""
    function_type = ir.FunctionType(ir.TypeAttr(survey.main.attributes["function_type"]).value)
    if any(map(is_dynamic, function_type.inputs)):
        return False
    manager = PassManager.parse(_REFINE)
    handler = module.context.attach_diagnostic_handler(lambda _: True)
    try:
        manager.run(module.operation)
    except ir.MLIRError:
        return False
    finally:
        handler.detach()
    return True


def refuse_dynamic_shapes(survey: Survey) -> None:
    """Raise Unsupported at the first value whose shape is not known."""
    for op, type_ in value_types(survey):
        if is_dynamic(type_):
            with located(op):
                raise Unsupported(f"a value of dynamic shape '{type_}'", hint=_HINT, code=Code.DYNAMIC_SHAPE)
