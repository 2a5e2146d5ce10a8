"""reduce: combining dimensions away, with any reducer and any number of operands."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.emitter import INDEX
from gspmd.transforms.support.identity import identity_of, reducer_operation, splat
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType, combiner


def reduce_rule(info: OpInfo) -> OpShardingRule:
    """Kept dimensions pass through; reduced ones leave partial results.

    With several operands (argmax) or an unusual reducer the local form gathers the partial results and
    reduces them once more.
    """
    count = len(info.results)
    shape = info.operands[0].shape
    reduced = info.ints("dimensions")
    reducer = combiner(info) if count == 1 else None
    kind = REDUCTION if reducer else PERMUTATION
    shapes = [t.shape for t in info.operands]
    builder = RuleBuilder(shapes, [t.shape for t in info.results], combiner=reducer or "add")
    out = 0
    for dim, size in enumerate(shape):
        operand_dims = [dim] * count + [None] * count
        if dim in reduced:
            builder.factor(operand_dims, [None] * count, size, kind)
        else:
            builder.factor(operand_dims, [out] * count, size)
            out += 1
    return builder.build()


def localize_reduce(op: LocalOp) -> None:
    count = len(op.info.results)
    reducer = combiner(op.info) if count == 1 else None
    split = [d for d in op.info.ints("dimensions") if op.operand_axes(0, d)]
    for operand in range(count):
        fill = identity_of(reducer) if reducer else op.operands[count + operand]
        for dim in split:
            op.mask_operand(operand, dim, fill)
    axes = tuple(axis for dim in split for axis in op.operand_axes(0, dim))
    if reducer and axes:
        _reduce_split(op, reducer, axes)
    elif axes:
        _reduce_partial_results(op, axes)
    else:
        op.keep()


def _reduce_split(op: LocalOp, reducer: str, axes: Axes) -> None:
    """Leave partial results, of which one starts from the initial value.

    It is combined with them in a step of its own: XLA takes the initial value of a reduction for an identity, and
    forgets or repeats any other where it simplifies, as in reductions of single elements or of concatenations.
    """
    emit, init = op.emit, op.operands[1]
    if _is_identity(init, reducer):
        op.keep()
        return
    neutral = emit.constant(read_type(init), identity_of(reducer))
    start = init if reducer in ("max", "min", "and", "or") else _on_first_shard(op, init, neutral, axes)
    result = op.local_result(0)
    (partial,) = _reduce_like(op, [op.operands[0], neutral], [result], op.ir.attributes["dimensions"])
    starts = emit.broadcast_scalar(start, result) if result.shape else start
    op.replace([emit.op(reducer_operation(reducer), [partial, starts], [result])])


def _on_first_shard(op: LocalOp, init: Any, neutral: Any, axes: Axes) -> Any:
    """The initial value on the first shard along `axes`, where all of them would count it repeatedly."""
    emit = op.emit
    first = emit.op(
        "stablehlo.compare",
        [emit.shard_index(axes), emit.constant(INDEX, 0)],
        [TensorType((), "i1")],
        comparison_direction=ir.Attribute.parse("#stablehlo<comparison_direction EQ>", emit.context),
    )
    return emit.op("stablehlo.select", [first, init, neutral], [read_type(init)])


def _is_identity(init: Any, reducer: str) -> bool:
    owner = init.owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.operation.name != "stablehlo.constant":
        return False
    if "complex" in str(init.type):  # the bindings have no attributes for these
        return False
    value = owner.operation.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr):
        return False
    words = (0.0, -0.0) if reducer == "add" else (identity_of(reducer),)
    return any(value == splat(value.type, word) for word in words)


def _reduce_partial_results(op: LocalOp, axes: Axes) -> None:
    """Gather every shard's results along a new leading dimension and reduce that with the same body."""
    emit, count = op.emit, len(op.info.results)
    locals_ = [op.local_result(i) for i in range(count)]
    inits = op.operands[count:]
    clone = _reduce_like(op, op.operands, locals_, op.ir.attributes["dimensions"])
    cause = op.cause(f"'{op.info.name}' reduces a split dimension: the partial results of all shards are combined")
    partial = [
        emit.all_gather(emit.reshape(value, (1, *type_.shape)), 0, axes, cause)
        for value, type_ in zip(clone, locals_, strict=True)
    ]
    op.replace(_reduce_like(op, [*partial, *inits], locals_, emit.i64s([0])))


def _reduce_like(op: LocalOp, operands: list[Any], results: list[TensorType], dimensions: Any) -> list[Any]:
    """Another reduce with this one's body."""
    clone = op.ir.clone(ip=op.emit.point).operation
    for index, operand in enumerate(operands):
        clone.operands[index] = operand
    clone.attributes["dimensions"] = dimensions
    for result, type_ in zip(clone.results, results, strict=True):
        result.set_type(op.emit.mlir_type(type_))
    return list(clone.results)


OPS = op_table([OpDef("stablehlo.reduce", reduce_rule, localize_reduce)])
