"""The narrowest type from which each result is computed, which limits its precision.

A training step in mixed precision takes float32 parameters, computes gradients in bfloat16, and returns float32
parameters. The way in which its sums are split decides how often bfloat16 is rounded.
"""

from __future__ import annotations

import functools
from collections import ChainMap
from typing import Any

import numpy as np

from gspmd.dialect.errors import Unsupported
from gspmd.runtime.dtypes import float_limits, is_float, numpy_dtype
from gspmd.transforms.ingest.survey import callee_of
from gspmd.transforms.ir.modules import function_block
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.program import CALLS

Type = np.dtype[Any]
_Known = ChainMap[Value, Type | None]


def narrowest_types(program: Operation) -> tuple[Type | None, ...]:
    """For each result of @main, the narrowest floating-point type among the values from which it is computed.

    None if none of them is floating-point. The values inside a loop, a branch or a function count for all of its
    results.
    """
    block = function_block(program, "main")
    if block is None:
        return ()
    made = _Narrowest().of_block(block, ChainMap())
    return tuple(made.get(value) for value in block.terminator.operands)


class _Narrowest:
    """Walks blocks, and each function once."""

    def __init__(self) -> None:
        self._of_function: dict[str, Type | None] = {}

    def of_block(self, block: Block, around: _Known) -> dict[Value, Type | None]:
        """The narrowest type for each value of a block, given those of the values `around` it."""
        found = {argument: _own(argument) for argument in block.arguments}
        known = around.new_child(found)
        for op in block:
            used = _narrower(self._inside(op, known), *(known.get(value) for value in op.operands))
            for result in op.results:
                found[result] = _narrower(_own(result), used)
        return found

    def _inside(self, op: Operation, known: _Known) -> Type | None:
        """The narrowest type in the regions of an operation, or in the function that it calls."""
        if op.name in CALLS:
            return self._in_function(op, callee_of(op))
        return _narrower(*(each for block in op.regions for each in self.of_block(block, known).values()))

    def _in_function(self, op: Operation, name: str) -> Type | None:
        if name not in self._of_function:
            block = function_block(op, name)
            self._of_function[name] = None if block is None else _narrower(*self.of_block(block, ChainMap()).values())
        return self._of_function[name]


def _own(value: Value) -> Type | None:
    return _float_of(value.type.element) if value.type.is_tensor else None


@functools.cache
def _float_of(element: str) -> Type | None:
    try:
        dtype = numpy_dtype(element)
    except Unsupported:
        return None
    return dtype if is_float(dtype) else None


def _narrower(*types: Type | None) -> Type | None:
    known = [each for each in types if each is not None]
    return min(known, key=lambda each: int(float_limits(each).bits), default=None)
