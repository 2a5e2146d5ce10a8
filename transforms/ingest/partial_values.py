"""Values that annotations leave unreduced: summed where they enter, taken apart where they leave, both in between.

A manual computation is a program of its own there: what enters it is taken apart, what leaves it is summed. What
control flow gives, or carries around a loop, and is said to be unreduced there, is handed on as summands as well: the
sum of which the program knows is behind it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.sdy_attrs import read_manual_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.partial_values import apart_sharding, summed, taken_apart
from gspmd.transforms.ingest.annotations import Said
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import MANUAL, WHILE
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located


def enter_partial(function: Operation, index: int, sharding: TensorSharding) -> None:
    """Let an argument of @main have a leading dimension of summands, split as `sharding` says, and sum these."""
    block = function.regions[0]
    build = _builder(function, Point.at_begin(block))
    argument = block.arguments[index]
    type_ = argument.type
    argument.type = type_.of_shape((size_of(sharding.dims[0].axes), *type_.shape))
    _sum_instead(argument, build)
    declare_types(function)


def leave_partial(function: Operation, index: int, sharding: TensorSharding, target: TargetMesh) -> None:
    """Let @main return summands of a result, split as `sharding` says."""
    last = function.regions[0].terminator
    build = _builder(last, Point.at(last))
    count = size_of(sharding.dims[0].axes)
    last.operands[index] = taken_apart(build, last.operands[index], count, target.write_list([sharding]))
    declare_types(function)


def cross_partial(computation: Operation, target: TargetMesh) -> None:
    """Let values that cross the boundary of a manual computation as summands do so in a dimension of their own.

    Inside, each device has its summand. What is unreduced over axes that the computation does not hold is whole there.
    """
    attributes, body = computation.attributes, computation.regions[0]
    held = read_manual_axes(attributes["manual_axes"])
    last = body.terminator
    before, begin, end = (
        _builder(op, point)
        for op, point in ((computation, Point.at(computation)), (last, Point.at_begin(body)), (last, Point.at(last)))
    )
    ins, outs = list(target.read_list(attributes["in_shardings"])), list(target.read_list(attributes["out_shardings"]))
    for index, sharding in enumerate(ins):
        ins[index], count = _counted(sharding, held)
        if count:
            whole, argument = computation.operands[index], body.arguments[index]
            written = target.write_list([ins[index]])
            computation.operands[index] = taken_apart(before, whole, count, written)
            shape = argument.type.shape
            argument.type = argument.type.of_shape((1, *shape))
            summand = begin.reshape(argument, shape)
            argument.replace_all_uses_with(summand, [summand.op])
    for index, sharding in enumerate(outs):
        outs[index], count = _counted(sharding, held)
        if count:
            result, summand = computation.results[index], last.operands[index]
            last.operands[index] = end.reshape(summand, (1, *summand.type.shape))
            result.type = result.type.of_shape((count, *result.type.shape))
            _sum_instead(result, _builder(computation, Point.after(computation)))
    attributes["in_shardings"], attributes["out_shardings"] = target.write_list(ins), target.write_list(outs)


def _counted(sharding: TensorSharding, held: Collection[str]) -> tuple[TensorSharding, int]:
    """The sharding of a value that crosses, and how many summands it has in its first dimension; 0 for none."""
    axes = tuple(axis for axis in sharding.unreduced if axis.name in held)
    whole = dataclasses.replace(sharding, unreduced=())
    return (apart_sharding(whole, axes), size_of(axes)) if axes else (whole, 0)


def hand_on_partial(op: Operation, constraints: set[Operation], target: TargetMesh) -> None:
    """Let results of control flow that are only used as partial values be summands in a dimension of their own."""
    for index, result in enumerate(op.results):
        users = result.users
        if users and constraints.issuperset(users):
            sharding = _left_as(users, result.type, target)
            if sharding is not None and not _is_held(op, sharding.dims[0].axes):
                _hand_on(op, index, sharding, target)


def _left_as(constraints: Sequence[Operation], type_: TensorType, target: TargetMesh) -> TensorSharding | None:
    """How summands of a value are split that constraints leave partial, all alike; None for a value that is whole."""
    found: set[TensorSharding | None] = set()
    for op in constraints:
        with located(op):
            said = Said(target.annotations.attribute(op.attributes["sharding"]), None)
            axes, whole = target.unreduced(said, type_), target.resolve(said, 0, [type_])
        found.add(None if not axes or whole is None else apart_sharding(whole, axes))
    return found.pop() if len(found) == 1 else None


def _is_held(op: Operation | None, axes: Axes) -> bool:
    """Whether a manual computation around holds any of the axes: inside, each device has what it has."""
    while op is not None:
        if op.name == MANUAL and any(axis.name in read_manual_axes(op.attributes["manual_axes"]) for axis in axes):
            return True
        op = op.parent
    return False


def _hand_on(op: Operation, index: int, sharding: TensorSharding, target: TargetMesh) -> None:
    count, written = size_of(sharding.dims[0].axes), target.write_list([sharding])
    result = op.results[index]
    counted = result.type.of_shape((count, *result.type.shape))
    loop = op.name == WHILE
    if loop:
        op.operands[index] = taken_apart(_builder(op, Point.at(op)), op.operands[index], count, written)
    for number, region in enumerate(op.regions):
        last = region.terminator
        if loop:
            carried = region.arguments[index]
            carried.type = counted
            if carried.is_used:
                _sum_instead(carried, _builder(last, Point.at_begin(region)))
        if not (loop and number == 0):
            last.operands[index] = taken_apart(_builder(last, Point.at(last)), last.operands[index], count, written)
    result.type = counted
    if "sdy.sharding" in op.attributes:
        shardings = list(target.read_list(op.attributes["sdy.sharding"]))
        op.attributes["sdy.sharding"] = target.write_list([*shardings[:index], sharding, *shardings[index + 1 :]])
    _sum_instead(result, _builder(op, Point.after(op)))


def _sum_instead(value: Value, build: Builder) -> None:
    """Let all users of summands have their sum."""
    whole = summed(build, value)
    value.replace_all_uses_with(whole, [whole.op])


def is_left_partial(said: Said, type_: TensorType, target: TargetMesh) -> bool:
    """Whether a constraint says that a value is to be partial, and so nothing: sums wait until they are needed."""
    return bool(target.unreduced(said, type_))


def _builder(op: Operation, point: Point) -> Builder:
    build = Builder(context_of(op))
    build.point, build.location = point, op.location
    return build
