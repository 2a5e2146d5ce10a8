"""Types that StableHLO does not have but MLIR accepts for function arguments and results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_ELEMENTS
from gspmd.transforms.ingest.survey import Survey, value_types
from gspmd.transforms.ingest.tuples import is_tuple, parts
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_ELEMENTS = re.compile(
    r"i1|u?i(2|4|8|16|32|64)|f(16|32|64)|b?f16|tf32|f[468]E\w+|complex<f(32|64)>|!quant\..*", re.DOTALL
)


def check_types(survey: Survey) -> None:
    """Raises Unsupported at the first value of such a type, or with more elements than runtimes can count."""
    for is_one, what, hint in _REFUSED:
        if any(_holds(type_, is_one) for type_ in survey.types):
            for op, type_ in value_types(survey):
                if _holds(type_, is_one):
                    with located(op):
                        raise Unsupported(f"a value of type '{type_.text}', {what}", hint=hint)


def _holds(type_: TensorType, is_one: Callable[[TensorType], bool]) -> bool:
    """Whether a type is such a tensor, or a tuple that contains one."""
    if is_tuple(type_):
        return any(_holds(part, is_one) for part in parts(type_))
    return type_.is_tensor and is_one(type_)


def _is_too_large(type_: TensorType) -> bool:
    return math.prod(type_.shape) > MAX_ELEMENTS


def _is_unknown(type_: TensorType) -> bool:
    return _ELEMENTS.fullmatch(type_.element) is None


_REFUSED = (
    (_is_too_large, f"which has more than {MAX_ELEMENTS} elements", "runtimes count the elements in 64 bits"),
    (_is_unknown, "which StableHLO does not have", "convert it to a type of StableHLO, as i32 or f32"),
)
