"""Scalar computations: bodies of reductions, sorts and similar operations, and functions that custom calls name.

They run for many elements, in the same way on every device, so shardings and device ids have no meaning inside. If a
body takes a wider type than the operand has, the operand is converted before the operation: after ingest, an operation
and its body have the same types.
"""

from __future__ import annotations

import itertools

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ingest.annotations import strip, stripped
from gspmd.transforms.ingest.lone_collectives import PARTITION, REPLICA
from gspmd.transforms.ingest.markers import check_values, target_name
from gspmd.transforms.ir.collective_groups import is_collective
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Block, Operation, Point, Value
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")
_OF_WHOLE_VALUES = (*CONTROL_FLOW, MANUAL)
REDUCING = frozenset(
    f"stablehlo.{name}"
    for name in ("all_reduce", "reduce", "reduce_scatter", "reduce_window", "scatter", "select_and_scatter")
)
"""Operations whose bodies may take wider types than their operands."""


def make_bodies_plain(function: Operation) -> None:
    """Remove annotations from the bodies of a function, and convert operands to the types of bodies.

    Raises Unsupported (located) for operations there that depend on the device.
    """
    for op in function.walk():
        if op.regions and op.name not in _OF_WHOLE_VALUES:
            _make_plain(op, f"in the body of '{op.name}'")
            if op.name in REDUCING:
                widen_operands(op)


def make_function_plain(function: Operation) -> None:
    """Do so for a function that a custom call names."""
    for key in ("arg_attrs", "res_attrs"):
        if key in function.attributes:
            entries = [ir.DictAttr.get(stripped(entry)) for entry in function.attributes[key]]
            function.attributes[key] = ir.ArrayAttr.get(entries)
    _make_plain(function, "inside a function that a custom call compares by")


def widen_operands(op: Operation) -> None:
    """Convert operands to the wider types that the body takes, such as those of accumulators.

    XLA requires this, too.
    """
    count = len(op.results)
    taken = list(range(len(op.operands)))
    if op.name == "stablehlo.scatter":
        del taken[count]
    for index, argument in zip(taken, itertools.cycle(op.regions[-1].arguments), strict=False):
        value, type_ = op.operands[index], TensorType(op.operands[index].type.shape, argument.type.element)
        if value.type != type_:
            op.operands[index] = _converted(op, value, type_, Point.at(op))
            if op.name == "stablehlo.select_and_scatter" and index == 0:
                _narrow_arguments(op, op.regions[0], type_)


def _narrow_arguments(op: Operation, body: Block, taken: TensorType) -> None:
    """Change the argument type of a body, which converts back to the old type."""
    for argument in body.arguments:
        before, argument.type = argument.type, TensorType((), taken.element)
        narrow = _converted(op, argument, before, Point.at_begin(body))
        argument.replace_all_uses_with(narrow, [narrow.op])


def _converted(op: Operation, value: Value, type_: TensorType, point: Point) -> Value:
    build = Builder(context_of(op))
    build.point, build.location = point, op.location
    return build.op("stablehlo.convert", [value], [type_])


def _make_plain(around: Operation, where: str) -> None:
    for op in around.walk():
        if op.name in _CONSTRAINTS:
            op.replace(list(op.operands))
        elif op.name == "stablehlo.custom_call" and target_name(op) == "Sharding":
            with located(op):
                check_values(op, "Sharding")
            op.replace(list(op.operands))
        elif op.name.startswith(("sdy.", "func.call")) or op.name in (REPLICA, PARTITION) or is_collective(op):
            with located(op):
                raise Unsupported(where, hint="compute elements from what they are alone", code=Code.CUSTOM_CALL)
        else:
            strip(op)
