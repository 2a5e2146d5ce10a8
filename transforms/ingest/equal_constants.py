"""Merge equal constants at the beginning of their block.

A traced program repeats a constant for every use, often with a broadcast: these are more than a third of the operations
of an unrolled Transformer. Later stages decide each use of a constant separately and emit a copy for each sharding, so
merging does not restrict them.
"""

from __future__ import annotations

from collections.abc import Hashable

from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.program import SPLITTABLE

_BROADCAST = "stablehlo.broadcast_in_dim"


def merge_constants(function: Operation) -> None:
    """Merge constants, iotas and broadcasts of scalar constants, block by block, in a function without calls."""
    for region in function.regions:
        _merge(region)


def _merge(block: Block) -> None:
    known: dict[tuple[Hashable, ...], Operation] = {}
    shared: dict[Operation, None] = {}
    for op in block:
        for region in op.regions:
            _merge(region)
        name = op.name
        if name in SPLITTABLE or (name == _BROADCAST and _is_scalar_constant(op.operands[0])):
            if op.source is not None:  # it has attributes that cannot be compared
                continue
            attributes, result = op.attributes, op.results[0]
            first = known.setdefault((name, result.type, *op.operands, *attributes, *attributes.values()), op)
            if first is not op:
                shared[first] = None
                result.replace_all_uses_with(first.results[0])
                op.erase()
    # A constant with one use keeps its location. A shared one must not seem to belong to its first user.
    first_of_all = list(dict.fromkeys([each for op in shared for each in (*_made_of(op, block), op)]))
    moved = set(first_of_all)
    point = Point.at(next(op for op in block if op not in moved))
    for op in first_of_all:
        op.move(point)


def _is_scalar_constant(value: Value) -> bool:
    maker = value.op
    return maker is not None and maker.name in SPLITTABLE and not value.type.shape


def _made_of(op: Operation, block: Block) -> list[Operation]:
    """The constant of the same block that an operation broadcasts, if it does."""
    return [value.maker for value in op.operands if value.op is not None and value.op.block is block]
