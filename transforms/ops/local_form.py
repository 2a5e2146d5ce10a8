"""The communication of an operation's local form, counted by building the form on temporary values.

For example, `pad` of f32[12,8] by one row on both sides, split over x=3 as [{"x"}, {}]: shards of the operand have 4
rows and those of the result 5, and the local form has a collective permute of one row, for which a device sends 32
bytes.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.rule import OpShardingRule
from gspmd.transforms.emit.counting import CountingEmitter, Sent, mesh_along
from gspmd.transforms.emit.local_op import LocalOp, local_type
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Block, Point
from gspmd.transforms.ops.op_definition import Localizer, Shardings


def sent_by(
    localize: Localizer,
    info: OpInfo,
    rule: OpShardingRule,
    operands: Shardings,
    results: Shardings,
    context: ir.Context,
) -> tuple[Sent, ...]:
    """The collectives of an operation's local form, for shardings of its operands and results that fit `rule`.

    Raises Unsupported if there is no local form for these.
    """
    location = ir.Location.unknown(context)
    types = [local_type(type_, sharding) for type_, sharding in zip(info.operands, operands, strict=True)]
    entry = Block(types, [location] * len(types))
    op = info.operation(entry.arguments, location).insert(Point(entry))
    used = tuple(axis for sharding in (*operands, *results) for axis in sharding.used_axes())
    emit = CountingEmitter(context, mesh_along(results[0].mesh, used), entry)
    emit.point = Point.at(op)
    localize(LocalOp(op, info, rule, operands, results, emit))
    return tuple(emit.sent)
