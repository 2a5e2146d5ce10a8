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
