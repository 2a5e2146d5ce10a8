"""Values that annotations leave unreduced: summed where they enter, taken apart where they leave, both in between."""

from __future__ import annotations

from gspmd.dialect.axes import size_of
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.partial_values import apart_sharding, summed, taken_apart
from gspmd.transforms.ingest.annotations import Said
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Operation, Point, Value


def enter_partial(function: Operation, index: int, sharding: TensorSharding) -> None:
    """Let an argument of @main have a leading dimension of summands, split as `sharding` says, and sum these."""
    block = function.regions[0]
    build = _builder(function, Point.at_begin(block))
    argument = block.arguments[index]
    type_ = argument.type
    counted = type_.of_shape((size_of(sharding.dims[0].axes), *type_.shape))
    argument.type = counted
    whole = summed(build, argument)
    argument.replace_all_uses_with(whole, [whole.op])
    declare_types(function)


def leave_partial(function: Operation, index: int, sharding: TensorSharding, target: TargetMesh) -> None:
    """Let @main return summands of a result, split as `sharding` says."""
    last = function.regions[0].terminator
    build = _builder(last, Point.at(last))
    count = size_of(sharding.dims[0].axes)
    last.operands[index] = taken_apart(build, last.operands[index], count, target.write_list([sharding]))
    declare_types(function)


def left_partial(op: Operation, value: Value, said: Said, target: TargetMesh) -> Value | None:
    """The value, in front of `op`, as the sum of summands, split as is said; None if it is not to be partial."""
    sharding, axes = target.resolve(said, 0, [value.type]), target.unreduced(said, value.type)
    if sharding is None or not axes:
        return None
    build = _builder(op, Point.at(op))
    apart = target.write_list([apart_sharding(sharding, axes)])
    return summed(build, taken_apart(build, value, size_of(axes), apart))


def _builder(op: Operation, point: Point) -> Builder:
    build = Builder(context_of(op))
    build.point, build.location = point, op.location
    return build
