"""What stands where in a block: what would have to move with an operation, and whether it can."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from gspmd.transforms.ops import traits_of_op
from gspmd.transforms.optimize.program import block_operations, owner, result_of


def can_move(op: Any) -> bool:
    """Whether the operation can stand later in its block: nothing but its operands says when it runs."""
    return traits_of_op(op).pure


def used(op: Any) -> Iterator[Any]:
    """The values that an operation uses, also those used inside it."""
    yield from op.operands
    if len(op.regions):
        for region in op.regions:
            for block in region.blocks:
                for inner in block_operations(block):
                    yield from used(inner)


def producers_after(value: Any, first: Any) -> dict[Any, Any]:
    """The operations that make the value and stand after `first` in its block, each by its first result."""
    found: dict[Any, Any] = {}
    stack = [value]
    while stack:
        op = owner(stack.pop())
        if op is None or op.block != first.block or op.is_before_in_block(first) or result_of(op) in found:
            continue
        found[result_of(op)] = op
        stack += used(op)
    return found


def users_before(values: list[Any], last: Any) -> dict[Any, Any]:
    """The operations before `last` in its block that use the values, or what is computed from them.

    Each is given by its first result.
    """
    block = last.block
    found: dict[Any, Any] = {}
    stack = [*values]
    while stack:
        for use in stack.pop().uses:
            op = use.owner.operation
            while op.block != block:
                op = op.parent.operation
            if result_of(op) is not None and result_of(op) not in found and op.is_before_in_block(last):
                found[result_of(op)] = op
                stack += op.results
    return found


def in_order(operations: Iterable[Any]) -> list[Any]:
    """Operations of one block as they stand in it."""

    def compare(one: Any, other: Any) -> int:
        return -1 if one.is_before_in_block(other) else 1

    return sorted(operations, key=functools.cmp_to_key(compare))
