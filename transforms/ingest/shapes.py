"""Dynamic shapes: refined if constants determine them, otherwise refused."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ingest.survey import Survey, value_types
from gspmd.transforms.ingest.tuples import is_tuple, parts
from gspmd.transforms.ir.native import try_native
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_CANONICALIZE = "func.func(stablehlo-canonicalize-dynamism)"
_REFINE = f"{_CANONICALIZE},stablehlo-refine-shapes,{_CANONICALIZE}"
_HINT = "export the program with fixed shapes"


def is_dynamic(type_: TensorType) -> bool:
    if is_tuple(type_):
        return any(map(is_dynamic, parts(type_)))
    if type_.is_tensor:
        return False
    known = ir.Type.parse(type_.text)
    return isinstance(known, ir.ShapedType) and not (known.has_rank and known.has_static_shape)


def has_dynamic_shapes(survey: Survey) -> bool:
    return any(map(is_dynamic, survey.types))


def refine(module: Operation, survey: Survey) -> bool:
    """Try to infer all shapes from those of the arguments of @main; returns whether this succeeded."""
    if any(is_dynamic(argument.type) for argument in survey.main.regions[0].arguments):
        return False
    return try_native(module, _REFINE)


def refuse_dynamic_shapes(survey: Survey) -> None:
    """Raise Unsupported at the first value of unknown shape."""
    for op, type_ in value_types(survey):
        if is_dynamic(type_):
            with located(op):
                raise Unsupported(f"a value of dynamic shape '{type_.text}'", hint=_HINT, code=Code.DYNAMIC_SHAPE)
