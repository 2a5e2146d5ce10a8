"""The order of operations in a block: which operations would have to move with another one, and whether they can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ops import traits_of_op


def can_move(op: Operation) -> bool:
    """Whether the operation can stand later in its block: nothing but its operands says when it runs."""
    return traits_of_op(op).pure


def used(op: Operation) -> Iterator[Value]:
    """The values that an operation uses, also those used inside it."""
    yield from op.operands
    for region in op.regions:
        for inner in region:
            yield from used(inner)


def producers_after(value: Value, first: Operation) -> dict[Operation, None]:
    """The operations that make the value and stand after `first` in its block."""
    found: dict[Operation, None] = {}
    stack = [value]
    while stack:
        op = stack.pop().op
        if op is None or op.block != first.block or op.precedes(first) or op in found:
            continue
        found[op] = None
        stack += used(op)
    return found


def users_before(values: Sequence[Value], last: Operation) -> dict[Operation, None]:
    """The operations before `last` in its block that use the values, or what is computed from them."""
    block = last.neighbours()
    found: dict[Operation, None] = {}
    stack = [*values]
    while stack:
        for op in stack.pop().users:
            op = op.within(block)
            if op.results and op not in found and op.precedes(last):
                found[op] = None
                stack += op.results
    return found


def in_order(operations: Iterable[Operation]) -> list[Operation]:
    """Operations of one block as they stand in it."""

    ops = list(operations)
    if ops and ops[0].block is not None:
        ops[0].block.number()
    return sorted(ops, key=lambda op: op.number)
