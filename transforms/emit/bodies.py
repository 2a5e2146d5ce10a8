"""The regions of operations such as sort and reduce, taken into new ones."""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.transforms.emit.builder import Body, Builder
from gspmd.transforms.ir.operations import Attribute, Block, Value
from gspmd.transforms.ir.types import TensorType


def inline_body(emit: Builder, block: Block, arguments: Sequence[Value]) -> list[Value]:
    """Repeat a block's operations for these arguments; returns what it returns."""
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
    """An operation with one region, whose block takes `arguments` and returns what `body` makes of them."""
    block = emit.block(arguments, body)
    return emit.create(name, operands, results, attributes, [block]).results


def mapped(emit: Builder, block: Block, operands: Sequence[Value]) -> list[Value]:
    """A reducer's block applied to every element: of accumulated values and as many new ones, all of one shape."""
    scalars = [argument.type for argument in block.arguments]
    results = [value.type for value in operands[: len(operands) // 2]]
    dimensions = emit.i64s(range(len(results[0].shape)))

    def one(index: int) -> Value:
        def body(arguments: Sequence[Value]) -> list[Value]:
            return [inline_body(emit, block, arguments)[index]]

        return op_with_body(emit, "stablehlo.map", operands, [results[index]], scalars, body, dimensions=dimensions)[0]

    return [one(index) for index in range(len(results))]
