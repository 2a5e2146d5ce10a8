"""The regions of operations such as sort and reduce, taken into new ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.op_info import TensorType

Body = Callable[[list[Any]], Sequence[Any]]


def inline_body(emit: Builder, block: Any, arguments: Sequence[Any]) -> list[Any]:
    """Repeat a block's operations for these arguments; returns what it returns."""
    values = dict(zip(block.arguments, arguments, strict=True))
    *content, last = [view.operation for view in block.operations]
    for op in content:
        made = op.clone(ip=emit.point).operation
        for index, operand in enumerate(op.operands):
            made.operands[index] = values.get(operand, operand)
        values.update(zip(op.results, made.results, strict=True))
    return [values.get(value, value) for value in last.operands]


def op_with_body(
    emit: Builder,
    name: str,
    operands: Sequence[Any],
    results: Sequence[TensorType],
    arguments: Sequence[TensorType],
    body: Body,
    **attributes: Any,
) -> list[Any]:
    """An operation with one region, whose block takes `arguments` and returns what `body` makes of them."""
    created = ir.Operation.create(
        name,
        results=[emit.mlir_type(t) for t in results],
        operands=list(operands),
        attributes={k: v for k, v in attributes.items() if v is not None} | emit.also,
        regions=1,
        loc=emit.location,
        ip=emit.point,
    )
    types = [emit.mlir_type(t) for t in arguments]
    block = created.regions[0].blocks.append(*types, arg_locs=[emit.location] * len(types))
    point, emit.point = emit.point, ir.InsertionPoint(block)
    emit.op("stablehlo.return", list(body(list(block.arguments))), [])
    emit.point = point
    return list(created.results)
