"""Collectives and Python callbacks run one after the other on CPUs.

XLA's CPU client has as many threads as devices. A collective holds one until all devices of its group have come; a
callback holds one until Python returns, and in JAX's interpreter of kernels that may be after all devices have called.
XLA runs operations that do not depend on each other at the same time. All threads can then belong to operations that
wait for devices that get none, and XLA ends the process 40 seconds later. So each of these operations is made to depend
on the one before it, by an operand that XLA must take for one of two values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.callbacks import is_callback
from gspmd.transforms.ir.collective_groups import is_collective
from gspmd.transforms.ir.modules import context_of, function_block, main_function
from gspmd.transforms.ir.op_info import has_side_effect
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.types import TensorType

_ID = TensorType((), "ui32")
_NO_DEVICE = (1 << 32) - 1


def put_in_order(module: Operation) -> None:
    """Let the collectives and the callbacks of a module run in the order of the program, in place."""
    if any(map(_may_wait, module.walk())) and any(map(is_collective, module.walk())):
        _inline_calls(main_function(module))
        for op in (module, *module.walk()):
            for block in op.regions:
                _chain(block)


def _may_wait(op: Operation) -> bool:
    """Whether an operation is a callback with effects. Others do not wait, and are not called if they are not used."""
    return is_callback(op) and has_side_effect(op.attributes)


def _inline_calls(function: Operation) -> None:
    """Inline all calls, as XLA does: their results may be there before what they contain has ended."""
    while calls := [
        (op, body)
        for op in function.walk()
        if op.name == "func.call" and (body := function_block(op, str(op.attributes["callee"].value))) is not None
    ]:
        for call, body in calls:
            call.replace(body.copy_to(Point.at(call), call.operands))


def _chain(block: Block) -> None:
    """Let each operation that waits, or contains one that does, depend on the one before it."""
    before = None
    for op in block:
        if any(_may_wait(each) or is_collective(each) for each in (op, *op.walk())):
            if before is not None:
                _run_after(op, before)
            if _smallest(op.results) is not None:  # otherwise nothing can depend on it
                before = op


def _run_after(op: Operation, before: Operation) -> None:
    """Select an operand by an element of what `before` makes, which is used on no device."""
    result, operand = _smallest(before.results), _smallest(op.operands)
    if result is None or operand is None or any(value.op is before for value in op.operands):
        return
    build = Builder(context_of(op))
    build.location, build.point = op.location, Point.at(op)
    element = build.reshape(build.slice(result, [1] * result.type.rank), ())
    is_other = build.compare(element, "NE", build.constant(element.type, "zero"))
    own = build.op("stablehlo.partition_id", [], [_ID])
    is_no_device = build.compare(own, "EQ", build.constant(_ID, _NO_DEVICE))
    other, condition = build.constant(operand.type, "zero"), build.binary("and", is_no_device, is_other)
    op.operands[op.operands.index(operand)] = build.op("stablehlo.select", [condition, other, operand], [operand.type])


def _smallest(values: Sequence[Value]) -> Value | None:
    """The smallest array with elements; a constant, by which XLA may count the steps of a loop, only if all are."""

    def order(value: Value) -> tuple[bool, int]:
        return value.op is not None and value.op.name == "stablehlo.constant", math.prod(value.type.shape)

    return min(
        (value for value in values if value.type.is_tensor and 0 not in value.type.shape), key=order, default=None
    )
