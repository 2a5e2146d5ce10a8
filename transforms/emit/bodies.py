"""Copies of the regions of operations such as sort and reduce."""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.transforms.emit.builder import Body, Builder
from gspmd.transforms.ir.operations import Attribute, Block, Value
from gspmd.transforms.ir.types import TensorType


def inline_body(emit: Builder, block: Block, arguments: Sequence[Value]) -> list[Value]:
    """Copy the operations of a block for these arguments; returns its results."""
    return block.copy_to(emit.point, arguments)


def op_with_body(
    emit: Builder,
    name: str,
    operands: Sequence[Value],
    results: Sequence[TensorType],
    arguments: Sequence[TensorType],
    body: Body,
    **attributes: Attribute | None,
) -> list[Value]:
    """An operation with one region, whose block takes `arguments` and returns the results of `body`."""
    block = emit.block(arguments, body)
    return emit.create(name, operands, results, attributes, [block]).results


def mapped(emit: Builder, block: Block, operands: Sequence[Value]) -> list[Value]:
    """The block of a reducer applied elementwise to accumulated and new values, all of one shape."""
    scalars = [argument.type for argument in block.arguments]
    results = [value.type for value in operands[: len(operands) // 2]]
    dimensions = emit.i64s(range(len(results[0].shape)))

    def one(index: int) -> Value:
        def body(arguments: Sequence[Value]) -> list[Value]:
            return [inline_body(emit, block, arguments)[index]]

        return op_with_body(emit, "stablehlo.map", operands, [results[index]], scalars, body, dimensions=dimensions)[0]

    return [one(index) for index in range(len(results))]
