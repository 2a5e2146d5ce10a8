"""Reductions whose initial value XLA loses or counts again, written so that it cannot.

XLA takes the initial value of a reduction for an identity wherever it simplifies: it forgets that of a reduction of
single elements and that of one of two reductions in a row, and repeats that of a concatenation's.
"""

from __future__ import annotations

import math

from gspmd.transforms.emit.bodies import mapped
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.op_info import COMBINER_OF, InfoReader, reducers
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.reducers import identity_of, is_identity, reducer_operation
from gspmd.transforms.ir.types import TensorType

REDUCE = "stablehlo.reduce"
_MERGED = frozenset({REDUCE, "stablehlo.concatenate"})  # what XLA makes one reduction of, with the one that follows


def count_once(build: Builder, op: Operation) -> None:
    """Rewrite a reduction, in place, so that its initial values are combined with the rest just once."""
    count = len(op.results)
    types = [value.type for value in op.operands]
    combiners = _combiners(op, types)
    if combiners and not any(type_.element.startswith("complex") for type_ in types[:count]):
        _start_apart(build, op, combiners)
    elif math.prod(types[0].shape[int(d)] for d in op.attributes["dimensions"]) == 1:
        _apply(build, op)
    else:
        for index in range(count):
            made = op.operands[index].op
            if made is not None and made.name in _MERGED:
                op.operands[index] = build.kept_apart(op.operands[index])


def _combiners(op: Operation, types: list[TensorType]) -> list[str]:
    """The reducer of every operand; none where the body does anything else."""
    found = [COMBINER_OF.get(name) for name in reducers(InfoReader()(op, tuple(types)))]
    known = [name for name in found if name is not None]
    return known if len(known) == len(found) else []


def _start_apart(build: Builder, op: Operation, combiners: list[str]) -> None:
    """Start from the reducers' identities, and combine what comes out with the initial values."""
    count = len(op.results)
    for index, name in enumerate(combiners):
        start, result = op.operands[count + index], op.results[index]
        if is_identity(start, name):
            continue
        build.point = Point.at(op)
        op.operands[count + index] = build.constant(start.type, identity_of(name))
        build.point = Point.after(op)
        type_ = result.type
        value = build.op(reducer_operation(name), [_spread(build, start, type_), result], [type_])
        result.replace_all_uses_with(value, [value.op])


def _apply(build: Builder, op: Operation) -> None:
    """The body of a reduction of single elements, applied once to each."""
    count, block = len(op.results), op.regions[0]
    types = [result.type for result in op.results]
    starts = [_spread(build, op.operands[count + i], type_) for i, type_ in enumerate(types)]
    operands = [*starts, *(build.reshape(op.operands[i], type_.shape) for i, type_ in enumerate(types))]
    op.replace(mapped(build, block, operands))


def _spread(build: Builder, start: Value, type_: TensorType) -> Value:
    return build.broadcast_scalar(start, type_) if type_.shape else start
