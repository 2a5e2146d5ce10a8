"""Concatenations of slices of one value, such as a roll, become one operation with one exchange.

Partitioned separately, each slice would be spread over all shards, and the concatenation would move it back.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.own_attributes import JOINED_DIMENSION, JOINED_LIMITS, JOINED_SLICES, JOINED_STARTS
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import MANUAL, Op
from gspmd.transforms.ops.concatenation import concatenated_dim
from gspmd.transforms.ops.slicing import kept_range


def join_slices(annotated: AnnotatedProgram) -> bool:
    """Replace concatenations of slices of a value that is split along them; returns whether there were any."""
    found = [(op, source) for op in annotated.program.ops if (source := _source(annotated, op)) is not None]
    for op, source in found:
        _join(annotated, op, source)
    return bool(found)


def _source(annotated: AnnotatedProgram, op: Op) -> int | None:
    """The value whose slices all operands are, if joining them is cheaper; else None."""
    program, dim = annotated.program, concatenated_dim(op.info)
    if dim is None or op.info.results[0].element.startswith("!"):
        return None
    slices = [_slice_of(annotated, value, dim) for value in op.operands]
    sources = {value if made is None else made.operands[0] for value, made in zip(op.operands, slices, strict=True)}
    if len(op.operands) < 2 or len(sources) > 1 or not any(slices):
        return None
    (source,) = sources
    definer = program.value_def[source]
    if definer >= 0 and program.ops[definer].splittable:
        return None
    wanted, have = annotated.of_op(op), _axes_of(annotated, source)
    if wanted is None or not have[dim]:
        return None
    return source


def _slice_of(annotated: AnnotatedProgram, value: int, dim: int) -> Op | None:
    """The slice that defines a value, if it is contiguous and only along this dimension."""
    definer = annotated.program.value_def[value]
    op = annotated.program.ops[definer] if definer >= 0 else None
    return None if op is None or kept_range(op.info, dim) is None else op


def _axes_of(annotated: AnnotatedProgram, value: int) -> tuple[Axes, ...]:
    """The sharding of a value."""
    program = annotated.program
    definer = program.value_def[value]
    whole = ((),) * len(program.value_type[value].shape)
    if definer >= 0:
        op = program.ops[definer]
        made = annotated.of_op(op)
        return whole if made is None else made[op.results.index(value)].dim_axes()
    if value in program.body.arguments:
        given = annotated.arguments[program.body.arguments.index(value)]
        return whole if given is None else given.dim_axes()
    for op in program.ops:
        for block in op.regions:
            if value in block.arguments:
                index = block.arguments.index(value)
                if op.info.name == MANUAL:
                    region = annotated.region(op)
                    return region.inside(region.in_shardings[index]).dim_axes()
                made = annotated.of_op(op)
                return whole if made is None else made[index].dim_axes()
    return whole


def _join(annotated: AnnotatedProgram, op: Op, source: int) -> None:
    dim, context = op.info.integer("dimension"), annotated.codec.context
    whole = (0, annotated.program.value_type[source].shape[dim])
    made = [_slice_of(annotated, value, dim) if value != source else None for value in op.operands]
    ranges = [(s and kept_range(s.info, dim)) or whole for s in made]
    attributes: dict[str, ir.Attribute] = {
        "call_target_name": ir.StringAttr.get(JOINED_SLICES, context),
        JOINED_DIMENSION: ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), dim),
        JOINED_STARTS: ir.DenseI64ArrayAttr.get([start for start, _ in ranges], context),
        JOINED_LIMITS: ir.DenseI64ArrayAttr.get([limit for _, limit in ranges], context),
        "sdy.sharding": op.ir.attributes["sdy.sharding"],
    }
    operand = annotated.program.value_ir[source]
    call = Operation(CUSTOM_CALL, [operand], [op.ir.result.type], attributes, op.ir.location).insert(Point.at(op.ir))
    # Another concatenation may read the result of this one.
    annotated.program.value_ir[op.results[0]] = call.result
    op.ir.replace([call.result])
    for part in {s.index: s for s in made if s is not None}.values():
        if not part.ir.result.is_used:
            part.ir.erase()
