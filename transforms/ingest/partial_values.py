"""Values that annotations leave unreduced: summed where they enter, taken apart where they leave, both in between."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import size_of
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.builder import Builder, read_type
from gspmd.transforms.emit.partial_values import apart_sharding, summed, taken_apart
from gspmd.transforms.ingest.annotations import Said
from gspmd.transforms.ingest.edits import terminator
from gspmd.transforms.ingest.target import TargetMesh


def enter_partial(function: Any, index: int, sharding: TensorSharding) -> None:
    """Let an argument of @main have a leading dimension of summands, split as `sharding` says, and sum these."""
    block = function.regions[0].blocks[0]
    build = _builder(function, ir.InsertionPoint.at_block_begin(block))
    argument = block.arguments[index]
    type_ = read_type(argument)
    counted = type_._replace(shape=(size_of(sharding.dims[0].axes), *type_.shape))
    argument.set_type(build.mlir_type(counted))
    whole = summed(build, argument)
    argument.replace_all_uses_except(whole, whole.owner.operation)
    _write_type(function)


def leave_partial(function: Any, index: int, sharding: TensorSharding, target: TargetMesh) -> None:
    """Let @main return summands of a result, split as `sharding` says."""
    last = terminator(function.regions[0].blocks[0])
    build = _builder(last, ir.InsertionPoint(last))
    count = size_of(sharding.dims[0].axes)
    last.operands[index] = taken_apart(build, last.operands[index], count, target.write_list([sharding]))
    _write_type(function)


def left_partial(op: Any, value: Any, said: Said, target: TargetMesh) -> Any | None:
    """The value, in front of `op`, as the sum of summands, split as is said; None if it is not to be partial."""
    sharding, axes = target.resolve(said, 0, [value.type]), target.unreduced(said, value.type)
    if sharding is None or not axes:
        return None
    build = _builder(op, ir.InsertionPoint(op))
    apart = target.write_list([apart_sharding(sharding, axes)])
    return summed(build, taken_apart(build, value, size_of(axes), apart))


def _builder(op: Any, point: ir.InsertionPoint) -> Builder:
    build = Builder(op.context)
    build.point, build.location = point, op.location
    return build


def _write_type(function: Any) -> None:
    block = function.regions[0].blocks[0]
    inputs = [argument.type for argument in block.arguments]
    results = [value.type for value in terminator(block).operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
