"""Reductions whose initial value XLA loses or counts again, written so that it cannot.

XLA takes the initial value of a reduction for an identity wherever it simplifies: it forgets that of a reduction of
single elements and that of one of two reductions in a row, and repeats that of a concatenation's.
"""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir

from gspmd.transforms.emit.bodies import inline_body
from gspmd.transforms.emit.builder import Builder, read_type
from gspmd.transforms.ir.op_info import InfoReader, TensorType, TypeReader, reducers
from gspmd.transforms.ir.reducers import REDUCER_OF, identity_of, is_identity, reducer_operation

REDUCE = "stablehlo.reduce"
_MERGED = frozenset({REDUCE, "stablehlo.concatenate"})  # what XLA makes one reduction of, with the one that follows


def count_once(build: Builder, op: Any) -> None:
    """Rewrite a reduction, in place, so that its initial values are combined with the rest just once."""
    count = len(op.results)
    types = [read_type(value) for value in op.operands]
    combiners = _combiners(op, types)
    if combiners and not any(type_.element.startswith("complex") for type_ in types[:count]):
        _start_apart(build, op, combiners)
    elif math.prod(types[0].shape[int(d)] for d in op.attributes["dimensions"]) == 1:
        _apply(build, op)
    else:
        for index in range(count):
            owner = op.operands[index].owner
            if not isinstance(owner, ir.Block) and owner.operation.name in _MERGED:
                op.operands[index] = build.kept_apart(op.operands[index])


def _combiners(op: Any, types: list[TensorType]) -> list[str]:
    """The reducer of every operand; none where the body does anything else."""
    found = [REDUCER_OF.get(name) for name in reducers(InfoReader(TypeReader())(op, op.name, tuple(types), True))]
    known = [name for name in found if name is not None]
    return known if len(known) == len(found) else []


def _start_apart(build: Builder, op: Any, combiners: list[str]) -> None:
    """Start from the reducers' identities, and combine what comes out with the initial values."""
    count = len(op.results)
    for index, name in enumerate(combiners):
        start, result = op.operands[count + index], op.results[index]
        if is_identity(start, name):
            continue
        build.point = ir.InsertionPoint(op)
        op.operands[count + index] = build.constant(read_type(start), identity_of(name))
        build.point = ir.InsertionPoint.after(op)
        type_ = read_type(result)
        value = build.op(reducer_operation(name), [_spread(build, start, type_), result], [type_])
        result.replace_all_uses_except(value, value.owner.operation)


def _apply(build: Builder, op: Any) -> None:
    """The body of a reduction of single elements, applied once to each."""
    count, block = len(op.results), op.regions[0].blocks[0]
    types = [read_type(result) for result in op.results]
    starts = [_spread(build, op.operands[count + i], type_) for i, type_ in enumerate(types)]
    operands = [*starts, *(build.reshape(op.operands[i], type_.shape) for i, type_ in enumerate(types))]
    for index, type_ in enumerate(types):
        op.results[index].replace_all_uses_with(_mapped(build, block, operands, index, type_))
    op.erase()


def _mapped(build: Builder, block: Any, operands: list[Any], index: int, type_: TensorType) -> Any:
    """What the body returns in one place, for every element."""
    created = ir.Operation.create(
        "stablehlo.map",
        results=[build.mlir_type(type_)],
        operands=operands,
        attributes={"dimensions": build.i64s(range(len(type_.shape)))},
        regions=1,
        loc=build.location,
        ip=build.point,
    )
    arguments = [argument.type for argument in block.arguments]
    body = created.regions[0].blocks.append(*arguments, arg_locs=[build.location] * len(arguments))
    point, build.point = build.point, ir.InsertionPoint(body)
    build.op("stablehlo.return", [inline_body(build, block, list(body.arguments))[index]], [])
    build.point = point
    return created.results[0]


def _spread(build: Builder, start: Any, type_: TensorType) -> Any:
    return build.broadcast_scalar(start, type_) if type_.shape else start
