"""Values that annotations leave unreduced: summed where they enter, decomposed into summands where they leave.

Operands of a manual computation are decomposed, and its results summed. A branch whose result is only decomposed
returns the summands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from jaxlib.mlir import ir

from gspmd.dialect.axes import overlap, size_of
from gspmd.dialect.own_attributes import UNREDUCED
from gspmd.dialect.sdy_attrs import read_manual_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.partial_values import apart_sharding, is_taking_apart, summed, taken_apart
from gspmd.transforms.ingest.annotations import OpAnnotation
from gspmd.transforms.ingest.target import TargetMesh
from gspmd.transforms.ir.collective_groups import kind_of
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import CONSTRAINT, CONTROL_FLOW, MANUAL, WHILE
from gspmd.transforms.ir.reducers import is_constant, is_zero
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ir.user_collectives import summed_axes
from gspmd.transforms.ops import traits_of_op
from gspmd.transforms.parsing.mlir import located


def enter_partial(function: Operation, index: int, sharding: TensorSharding) -> None:
    """Give an argument of @main a leading dimension of summands, split by `sharding`, and sum over it."""
    block = function.regions[0]
    build = _builder(function, Point.at_begin(block))
    argument = block.arguments[index]
    type_ = argument.type
    argument.type = type_.of_shape((size_of(sharding.dims[0].axes), *type_.shape))
    _sum_instead(argument, build)
    declare_types(function)


def leave_partial(function: Operation, index: int, sharding: TensorSharding, target: TargetMesh) -> None:
    """Let @main return summands of a result, split by `sharding`."""
    last = function.regions[0].terminator
    build = _builder(last, Point.at(last))
    count = size_of(sharding.dims[0].axes)
    last.operands[index] = taken_apart(build, last.operands[index], count, target.write_list([sharding]))
    declare_types(function)


def split_partial(main: Operation, target: TargetMesh, open_sums: bool) -> None:
    """Decompose the partial values at the boundaries of manual computations, and sink decompositions into branches.

    With `open_sums`, so are the sums that these return. What the program returns as well keeps its sharding.
    """
    last = main.regions[0].terminator
    for op in [op for op in main.walk() if op.name == MANUAL]:
        sums = _leave_sums_open(op, target) if open_sums else {}
        _cross_partial(
            op, target, {each: s for each, s in sums.items() if last in op.results[each].users and s.says_something()}
        )
    _sink_partial(main)


def _leave_sums_open(computation: Operation, target: TargetMesh) -> dict[int, TensorSharding]:
    """Let a manual computation return summands where it returns their sum or mean over some of its axes.

    Then they are summed where and how it is the cheapest: as a reduce-scatter, or behind a loop. Returns the shardings
    of these results, by number.
    """
    outs = list(target.read_list(computation.attributes["out_shardings"]))
    held = read_manual_axes(computation.attributes["manual_axes"])
    last, sums = computation.regions[0].terminator, dict[int, TensorSharding]()
    for index, (value, sharding) in enumerate(zip(last.operands, outs, strict=True)):
        sum_ = _sum_behind(value)
        if sum_ is None:
            continue
        with located(sum_):
            axes = summed_axes(sum_, target.mesh, held)
        if axes and not overlap(axes, sharding.used_axes()):
            sum_.replace(sum_.operands)
            open_ = sharding.unreduced + axes
            outs[index], sums[index] = dataclasses.replace(sharding, unreduced=sharding.mesh.sorted(open_)), sharding
    computation.attributes["out_shardings"] = target.write_list(outs)
    return sums


def _sum_behind(value: Value) -> Operation | None:
    """The all-reduce whose result is this value, or becomes it by reshapes, transposes and scaling by constants."""
    while value.op is not None and value.is_used_once:
        op = value.op
        if kind_of(op) == "all_reduce":
            return op if len(op.operands) == 1 else None
        scaled = _scaled(op)
        if scaled is None:
            return None
        value = scaled
    return None


def _scaled(op: Operation) -> Value | None:
    """The operand in which an operation is linear while all others are constants, for floats of one type."""
    if op.regions or len(op.results) != 1 or not op.results[0].type.element.startswith(("f", "bf")):
        return None
    for together in traits_of_op(op).linear:
        value = op.operands[together[0]]
        others = [other for index, other in enumerate(op.operands) if index != together[0]]
        if len(together) == 1 and value.type.element == op.results[0].type.element and all(map(is_constant, others)):
            return value
    return None


def _cross_partial(computation: Operation, target: TargetMesh, sums: Mapping[int, TensorSharding]) -> None:
    """Give partial values that cross the boundary of a manual computation a dimension of summands.

    Inside, each device has its summand. A value that is unreduced over axes that are not manual is complete inside.
    The results in `sums` have a sharding once they are summed, which is a constraint.
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
            wanted = target.write(sums[index]) if index in sums else None
            _sum_instead(result, _builder(computation, Point.after(computation)), wanted)
    attributes["in_shardings"], attributes["out_shardings"] = target.write_list(ins), target.write_list(outs)


def _counted(sharding: TensorSharding, held: Collection[str]) -> tuple[TensorSharding, int]:
    """The sharding of a boundary value, and the number of summands in its first dimension; 0 for none."""
    axes = tuple(axis for axis in sharding.unreduced if axis.name in held)
    whole = dataclasses.replace(sharding, unreduced=())
    return (apart_sharding(whole, axes), size_of(axes)) if axes else (whole, 0)


def leaves_partial(main: Operation) -> bool:
    """Whether a result of @main is decomposed into summands."""
    return any(UNREDUCED in entry for entry in main.attributes.get("res_attrs", ()))


def _sink_partial(main: Operation) -> None:
    """Let branches return summands if their result is only decomposed into summands.

    A partial value in a branch is then not summed, only to be decomposed again.
    """
    pending = [op for op in main.walk() if is_taking_apart(op)]
    while pending:
        apart = pending.pop()
        result = apart.operands[0]
        chosen = result.op
        if chosen is None or chosen.name not in CONTROL_FLOW or chosen.name == WHILE or not result.is_used_once:
            continue
        type_, sharding = apart.results[0].type, apart.attributes["sdy.sharding"]
        for region in chosen.regions:
            last = region.terminator
            build = _builder(last, Point.at(last))
            made = taken_apart(build, last.operands[result.index], type_.shape[0], sharding)
            last.operands[result.index] = made
            if made.op is not None:
                pending.append(made.op)
        apart.replace([result])
        result.type = type_


def _sum_instead(value: Value, build: Builder, wanted: ir.Attribute | None = None) -> None:
    """Replace summands by their sum for all users, with a constraint to a sharding if one is given."""
    sum_ = whole = summed(build, value)
    if wanted is not None:
        whole = build.op(CONSTRAINT, [sum_], [sum_.type], sharding=wanted)
    value.replace_all_uses_with(whole, [sum_.op])


def is_left_partial(said: OpAnnotation, type_: TensorType, target: TargetMesh) -> bool:
    """Whether a constraint only asks for a partial value, which has no effect: sums are delayed anyway."""
    return bool(target.unreduced(said, type_))


def before_constraints(value: Value) -> Value:
    """The zeros behind constraints, which may be summands of any value; other values are returned unchanged."""
    zeros = value
    while zeros.op is not None and zeros.op.name == CONSTRAINT:
        zeros = zeros.op.operands[0]
    return zeros if is_zero(zeros) else value


def _builder(op: Operation, point: Point) -> Builder:
    build = Builder(context_of(op))
    build.point, build.location = point, op.location
    return build
