"""reduce, with any reducer and any number of operands."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.bodies import inline_body, op_with_body
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import COMBINER_OF, OpInfo, combiner, reducers
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import Fill, identity_of, is_identity, reducer_operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Fusion, Traits


def reduce_rule(info: OpInfo) -> OpShardingRule:
    """Kept dimensions pass through; reduced ones leave partial results.

    If all-reduce does not support the reducer (argmax, or bitwise operations), the local form gathers the partial
    results and reduces them again.
    """
    count = len(info.results)
    shape = info.operands[0].shape
    reduced = info.ints("dimensions")
    reducer = combiner(info)
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
    split = [d for d in op.info.ints("dimensions") if op.operand_axes(0, d)]
    axes = tuple(axis for dim in split for axis in op.operand_axes(0, dim))
    if not axes:
        op.keep()
        return
    neutral = _neutral(op)
    if neutral is None:
        _reduce_marked(op, split, axes)
        return
    for operand in range(count):
        for dim in split:
            op.mask_operand(operand, dim, neutral[operand])
    if combiner(op.info):
        _reduce_split(op, neutral, axes)
    else:
        _reduce_partial_results(op, neutral, axes)


def _neutral(op: LocalOp) -> Sequence[Fill] | None:
    """The neutral element for each operand, as an argument of `Emitter.mask`; None if unknown.

    If the reducer only selects one of its operands, the initial value is neutral, since it may occur any number of
    times.
    """
    inits = op.operands[len(op.info.results) :]
    names = [COMBINER_OF.get(name) for name in reducers(op.info)]
    if names and None not in names:
        return [identity_of(name) for name in names if name]
    return inits if set(op.info.body) <= _CHOOSING else None


def _scalars(op: LocalOp, neutral: Sequence[Fill]) -> list[Value]:
    """The neutral elements as scalar values of the operands' element types."""
    return [
        value if isinstance(value, Value) else op.emit.constant(TensorType((), result.element), value)
        for value, result in zip(neutral, op.info.results, strict=True)
    ]


# The operations of reducers that return one of their operands, like argmax.
_NAMES = "and compare constant maximum minimum not or return select xor"
_CHOOSING = {f"stablehlo.{name}" for name in _NAMES.split()} | {"..."}


def _reduce_split(op: LocalOp, neutral: Sequence[Fill], axes: Axes) -> None:
    """Compute partial results, one of which includes the initial value.

    The initial value is combined in a separate operation, since XLA assumes that it is an identity
    (`initial_values.py`).
    """
    emit, count, reducer = op.emit, len(op.info.results), op.rule.combiner
    inits = op.operands[count:]
    if all(is_identity(init, reducer) for init in inits):
        _keep(op)
        return
    neutral, results = _scalars(op, neutral), [op.local_result(i) for i in range(count)]
    starts = inits
    if reducer in ("add", "mul"):
        starts = [on_first_shard(op, init, nothing, axes) for init, nothing in zip(inits, neutral, strict=True)]
    partial = _reduce_like(op, [*op.operands[:count], *neutral], results, op.ir.attributes["dimensions"])
    made = []
    for value, start, result in zip(partial, starts, results, strict=True):
        spread = emit.broadcast_scalar(start, result) if result.shape else start
        made.append(emit.op(reducer_operation(reducer), [value, spread], [result]))
    op.replace(made)


def _keep(op: LocalOp) -> None:
    """The same reduction of a shard; of single elements, it is a reshape."""
    value, result = op.operands[0], op.local_result(0)
    if len(op.info.results) > 1 or math.prod(value.type.shape) != math.prod(result.shape):
        op.keep()
        return
    op.replace([op.emit.reshape(value, result.shape)])


def on_first_shard(op: LocalOp, init: Value, neutral: Value, axes: Axes) -> Value:
    """The initial value on the first shard along `axes`, and the identity on others, so that it counts once."""
    emit = op.emit
    first = emit.compare(emit.shard_index(axes), "EQ", emit.constant(INDEX, 0))
    return emit.op("stablehlo.select", [first, init, neutral], [init.type])


def _reduce_partial_results(op: LocalOp, neutral: Sequence[Fill], axes: Axes) -> None:
    """Gather the results of all shards along a new leading dimension and reduce that with the same body."""
    count = len(op.info.results)
    results = [op.local_result(i) for i in range(count)]
    operands, inits = op.operands[:count], op.operands[count:]
    partial = _reduce_like(op, [*operands, *_scalars(op, neutral)], results, op.ir.attributes["dimensions"])
    gathered = _gather(op, partial, axes)
    op.replace(_reduce_like(op, [*gathered, *inits], results, op.emit.i64s([0])))


def _gather(op: LocalOp, partial: list[Value], axes: Axes) -> list[Value]:
    cause = op.cause(f"'{op.info.name}' reduces a split dimension: the partial results of all shards are combined")
    return [op.emit.all_gather(op.emit.reshape(value, (1, *value.type.shape)), 0, axes, cause) for value in partial]


def _reduce_marked(op: LocalOp, split: list[int], axes: Axes) -> None:
    """The same for reducers without a known neutral element: a flag marks elements as present.

    The initial value is one more partial result, so that it counts once.
    """
    emit, count = op.emit, len(op.info.results)
    operands, inits = op.operands[:count], op.operands[count:]
    here = emit.constant(TensorType(operands[0].type.shape, "i1"), 1)
    for dim in split:
        here = emit.mask(here, dim, op.operand_axes(0, dim), op.info.operands[0].shape[dim], 0)
    partial = _reduce_by_mark(op, [*operands, here], inits, op.info.ints("dimensions"))
    gathered = _gather(op, partial, axes)
    rows = []
    for value, init in zip(gathered, [*inits, emit.constant(TensorType((), "i1"), 1)], strict=True):
        type_ = value.type
        start = emit.broadcast_scalar(init, type_.of_shape((1, *type_.shape[1:])))
        joint = type_.of_shape((type_.shape[0] + 1, *type_.shape[1:]))
        rows.append(emit.op("stablehlo.concatenate", [start, value], [joint], dimension=emit.i64(0)))
    op.replace(_reduce_by_mark(op, rows, inits, (0,))[:count])


def _reduce_by_mark(op: LocalOp, operands: list[Value], inits: list[Value], dimensions: tuple[int, ...]) -> list[Value]:
    """Reduce elements marked as present by the last operand; a result is present if any of its elements was."""
    emit, count = op.emit, len(inits)
    (block,) = op.ir.regions

    def combined(arguments: list[Value]) -> list[Value]:
        left, (marked, *right), other = arguments[:count], arguments[count:-1], arguments[-1]
        both = emit.binary("and", marked, other)
        values = []
        for joint, a, b in zip(inline_body(emit, block, [*left, *right]), left, right, strict=True):
            type_ = a.type
            one = emit.op("stablehlo.select", [marked, a, b], [type_])
            values.append(emit.op("stablehlo.select", [both, joint, one], [type_]))
        return [*values, emit.binary("or", marked, other)]

    shape = operands[0].type.shape
    kept = tuple(n for d, n in enumerate(shape) if d not in dimensions)
    elements = [value.type.element for value in operands]
    return op_with_body(
        emit,
        "stablehlo.reduce",
        [*operands, *inits, emit.constant(TensorType((), "i1"), 0)],
        [TensorType(kept, element) for element in elements],
        [TensorType((), element) for element in elements * 2],
        combined,
        dimensions=emit.i64s(dimensions),
    )


def _reduce_like(
    op: LocalOp, operands: list[Value], results: list[TensorType], dimensions: ir.Attribute
) -> list[Value]:
    """A reduce with the same body."""
    clone = op.ir.clone().insert(op.emit.point)
    for index, operand in enumerate(operands):
        clone.operands[index] = operand
    clone.attributes["dimensions"] = dimensions
    for result, type_ in zip(clone.results, results, strict=True):
        result.type = type_
    return list(clone.results)


def reduce_flops(info: OpInfo) -> float:
    inputs = len(info.results)
    return float(inputs * max(0, math.prod(info.operands[0].shape) - math.prod(info.results[0].shape)))


OPS = op_table(
    [
        OpDef(
            "stablehlo.reduce",
            reduce_rule,
            localize_reduce,
            traits=Traits(linear=((0,),), flops=Flops("reduction", reduce_flops), fusion=Fusion.TAKES_IN),
        )
    ]
)
