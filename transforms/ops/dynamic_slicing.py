"""dynamic_slice and dynamic_update_slice: windows that start where scalars say."""

from __future__ import annotations

from typing import Any

from gspmd.dialect.rule import REDUCTION, OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.halo import pad_dim
from gspmd.transforms.support.identity import identity_of, partial_combiner
from gspmd.transforms.support.indices import clamp, index_element, inside, relative
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType


def dynamic_slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions kept whole pass through; of the others each device finds the part that it holds."""
    operand, result = info.operands[0].shape, info.results[0].shape
    element = info.results[0].element
    builder = RuleBuilder(
        [t.shape for t in info.operands], [result], stage=Stage.ELEMENTWISE, combiner=partial_combiner(element)
    )
    scalars = [None] * operand_rank(info)
    for dim, size in enumerate(operand):
        if result[dim] == size:
            builder.factor([dim, *scalars], [dim], size)
        elif result[dim] and not element.startswith("!"):
            builder.factor([dim, *scalars], [None], size, REDUCTION)
    return builder.build()


def operand_rank(info: OpInfo) -> int:
    return info.operands[0].rank


def localize_dynamic_slice(op: LocalOp) -> None:
    """Slice what is in this shard; what is not becomes the neutral element."""
    emit, shape, window = op.emit, op.info.operands[0].shape, op.info.results[0].shape
    split = [d for d, n in enumerate(shape) if window[d] != n and op.operand_axes(0, d)]
    result = op.local_result(0)
    op.ir.attributes["slice_sizes"] = emit.i64s(result.shape)
    if not split:
        op.keep()
        return
    operand, neutral = op.operands[0], identity_of(op.rule.combiner)
    starts = _relative_starts(op, op.operands[1:], window, split)
    wide = [d for d in split if window[d] > 1]
    for dim in wide:
        starts[dim] = _shifted(op, starts[dim], window[dim])
        operand = pad_dim(emit, operand, dim, window[dim], window[dim], neutral)
    within = _limited(op, starts, operand, result)
    value = emit.op("stablehlo.dynamic_slice", [operand, *within], [result], slice_sizes=emit.i64s(result.shape))
    found = _all_inside(op, starts, [d for d in split if d not in wide])
    if found is not None:
        value = emit.op("stablehlo.select", [found, value, emit.constant(result, neutral)], [result])
    op.replace([value])


def dynamic_update_slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions written whole pass through; of the others each device writes the part that it holds,

    for which it needs the whole update.
    """
    operand, update = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([t.shape for t in info.operands], [operand], stage=Stage.ELEMENTWISE)
    scalars = [None] * operand_rank(info)
    for dim, size in enumerate(operand):
        builder.factor([dim, dim if update[dim] == size else None, *scalars], [dim], size)
    return builder.build()


def localize_dynamic_update_slice(op: LocalOp) -> None:
    """Write what falls into this shard."""
    emit, shape, window = op.emit, op.info.operands[0].shape, op.info.operands[1].shape
    split = [d for d, n in enumerate(shape) if window[d] != n and op.operand_axes(0, d)]
    if not split:
        op.keep()
        return
    operand, update = op.operands[:2]
    local, local_update = op.local_operand(0), op.local_operand(1)
    starts = _relative_starts(op, op.operands[2:], window, split)
    wide = [d for d in split if window[d] > 1]
    for dim in wide:
        starts[dim] = _shifted(op, starts[dim], window[dim])
        operand = pad_dim(emit, operand, dim, window[dim], window[dim], 0)
    found = _all_inside(op, starts, [d for d in split if d not in wide])
    starts = _limited(op, starts, operand, local_update)
    if found is not None:
        old = emit.op(
            "stablehlo.dynamic_slice",
            [operand, *starts],
            [local_update],
            slice_sizes=emit.i64s(local_update.shape),
        )
        update = emit.op("stablehlo.select", [found, update, old], [local_update])
    value = emit.op("stablehlo.dynamic_update_slice", [operand, update, *starts], [read_type(operand)])
    op.replace([_cut(op, value, {d: window[d] for d in wide}, local)])


def _relative_starts(op: LocalOp, starts: list[Any], window: tuple[int, ...], split: list[int]) -> list[Any]:
    """Start indices counted from this shard's begin, of one type; clamped globally first."""
    shape, local = op.info.operands[0].shape, op.local_operand(0).shape
    element = index_element(shape)
    found = []
    for dim, start in enumerate(starts):
        position = clamp(op.emit, start, 0, shape[dim] - window[dim], element)
        if dim in split:
            position = relative(op.emit, position, op.operand_axes(0, dim), local[dim])
        found.append(position)
    return found


def _limited(op: LocalOp, starts: list[Any], operand: Any, window: TensorType) -> list[Any]:
    """Start indices as the operation limits them anyway.

    Written out, because XLA adds up the starts of a slice of a slice without limiting the inner one.
    """
    room = [n - w for n, w in zip(read_type(operand).shape, window.shape, strict=True)]
    return [clamp(op.emit, start, 0, most, read_type(start).element) for start, most in zip(starts, room, strict=True)]


def _shifted(op: LocalOp, start: Any, amount: int) -> Any:
    return op.emit.binary("add", start, op.emit.constant(read_type(start), amount))


def _all_inside(op: LocalOp, starts: list[Any], dims: list[int]) -> Any:
    """Whether windows of one element are in this shard along all `dims`; None without any."""
    found = None
    for dim in dims:
        here = inside(op.emit, starts[dim], op.local_operand(0).shape[dim])
        found = here if found is None else op.emit.binary("and", found, here)
    return found


def _cut(op: LocalOp, value: Any, margins: dict[int, int], local: TensorType) -> Any:
    """Without the margins again."""
    if not margins:
        return value
    starts = [margins.get(d, 0) for d in range(local.rank)]
    return op.emit.op(
        "stablehlo.slice",
        [value],
        [local],
        start_indices=op.emit.i64s(starts),
        limit_indices=op.emit.i64s([a + n for a, n in zip(starts, local.shape, strict=True)]),
        strides=op.emit.i64s([1] * local.rank),
    )


OPS = op_table(
    [
        OpDef("stablehlo.dynamic_slice", dynamic_slice_rule, localize_dynamic_slice),
        OpDef("stablehlo.dynamic_update_slice", dynamic_update_slice_rule, localize_dynamic_update_slice),
    ]
)
