"""Dynamic shapes: refined away where constants decide them, else refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_ELEMENTS
from gspmd.transforms.ingest.survey import Survey, all_operations
from gspmd.transforms.parsing.mlir import located

_CANONICALIZE = "func.func(stablehlo-canonicalize-dynamism)"
_REFINE = f"builtin.module({_CANONICALIZE},stablehlo-refine-shapes,{_CANONICALIZE})"
_HINT = "export the program with fixed shapes"


def is_dynamic(type_: ir.Type) -> bool:
    if isinstance(type_, ir.TupleType):
        return any(is_dynamic(type_.get_type(index)) for index in range(type_.num_types))
    return isinstance(type_, ir.ShapedType) and not (type_.has_rank and type_.has_static_shape)


def _is_beyond_count(type_: ir.Type) -> bool:
    if isinstance(type_, ir.TupleType):
        return any(_is_beyond_count(type_.get_type(index)) for index in range(type_.num_types))
    return isinstance(type_, ir.RankedTensorType) and math.prod(type_.shape) > MAX_ELEMENTS


def check_sizes(survey: Survey) -> None:
    """Raises Unsupported at the first value of more elements than runtimes count. Shapes are static."""
    if any(map(_is_beyond_count, survey.types)):
        for op, type_ in _value_types(survey):
            if _is_beyond_count(type_):
                with located(op):
                    raise Unsupported(
                        f"a value of more than {MAX_ELEMENTS} elements, '{type_}'",
                        hint="runtimes count the elements of a tensor in 64 bits",
                    )


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
    for op, type_ in _value_types(survey):
        if is_dynamic(type_):
            with located(op):
                raise Unsupported(f"a value of dynamic shape '{type_}'", hint=_HINT, code=Code.DYNAMIC_SHAPE)


def _value_types(survey: Survey) -> Iterator[tuple[Any, ir.Type]]:
    """The types of all values, each with the operation or function that it belongs to, those of @main first."""
    for function in survey.functions[::-1]:
        for argument in function.regions[0].blocks[0].arguments:
            yield function, argument.type
        for op in all_operations(function):
            for value in op.results:
                yield op, value.type
