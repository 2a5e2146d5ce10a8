"""scatter: updates of scattered rows, on whichever device holds them or brings the update."""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.emitter import INDEX
from gspmd.transforms.support.identity import identity_of
from gspmd.transforms.support.indices import clamp, compare, components, index_element, join_components, relative
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, combiner


def scatter_rule(info: OpInfo) -> OpShardingRule:
    """Whole windows, batching dimensions and dimensions written one element at a time pass through.

    Splitting the updates leaves partial results where the update is a plain reduction; other updates may
    depend on their order and are not split.
    """
    numbers = _numbers(info)
    count = len(info.results)
    shape, indices, updates = info.operands[0].shape, info.operands[count].shape, info.operands[count + 1].shape
    reducer = _reducer(info)
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results], combiner=reducer or "add")
    batching = dict(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    place = dict(zip(_index_dims(info), _update_scatter_dims(info), strict=True))
    window_place = _window_place(info)
    for dim, size in enumerate(shape):
        index_dim = update_dim = None
        if dim in batching:
            index_dim, update_dim = batching[dim], place[batching[dim]]
        elif dim in window_place and updates[window_place[dim]] == size and dim not in _indexed_dims(info):
            update_dim = window_place[dim]
        elif dim not in _indexed_dims(info) or _window_size(info, dim) != 1:
            _add(builder, count, dim, None, None, size, NEED_REPLICATION)
            continue
        _add(builder, count, dim, index_dim, update_dim, size)
    for index_dim, update_dim in place.items():
        if index_dim not in batching.values():
            kind = REDUCTION if reducer and _indexed_dims(info) else NEED_REPLICATION
            _add(builder, count, None, index_dim, update_dim, indices[index_dim], kind)
    return builder.build()


def _add(
    builder: RuleBuilder,
    count: int,
    dim: int | None,
    index_dim: int | None,
    update_dim: int | None,
    size: int,
    *kind: Any,
) -> None:
    """A factor on the same dimension of all inputs and results, of the indices, and of all updates."""
    builder.factor([dim] * count + [index_dim] + [update_dim] * count, [dim] * count, size, *kind)


def _numbers(info: OpInfo) -> Any:
    return stablehlo.ScatterDimensionNumbers(info.attributes["scatter_dimension_numbers"])


def _indexed_dims(info: OpInfo) -> list[int]:
    """Operand dimension of every component of an index vector."""
    return list(_numbers(info).scattered_dims_to_operand_dims)


def _index_dims(info: OpInfo) -> list[int]:
    """Dimensions of the indices other than the index vector's."""
    indices = info.operands[len(info.results)]
    return [d for d in range(indices.rank) if d != _numbers(info).index_vector_dim]


def _update_scatter_dims(info: OpInfo) -> list[int]:
    """Dimensions of the updates that come from the indices."""
    updates = info.operands[len(info.results) + 1]
    return [d for d in range(updates.rank) if d not in _numbers(info).update_window_dims]


def _window_place(info: OpInfo) -> dict[int, int]:
    """Update dimension by operand dimension that the window spans."""
    numbers = _numbers(info)
    missing = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windows = [d for d in range(info.operands[0].rank) if d not in missing]
    return dict(zip(windows, numbers.update_window_dims, strict=True))


def _window_size(info: OpInfo, dim: int) -> int:
    place = _window_place(info)
    return info.operands[len(info.results) + 1].shape[place[dim]] if dim in place else 1


def _reducer(info: OpInfo) -> str | None:
    """The plain reduction that combines updates with what is there, None for anything else."""
    return combiner(info) if len(info.results) == 1 else None


def localize_scatter(op: LocalOp) -> None:
    """Shards drop the updates of rows that they do not hold; of split updates, one shard starts from the

    operand and the others from the identity.
    """
    info, emit, count = op.info, op.emit, len(op.info.results)
    shape = info.operands[0].shape
    split = [d for d in _indexed_dims(info) if op.operand_axes(0, d)]
    reduced = _reduced_dims(op)
    axes = tuple(axis for d in reduced for axis in op.operand_axes(count, d))
    ragged = [d for d in reduced if info.operands[count].shape[d] % op.operand_shardings[count].shard_counts()[d]]
    if split or ragged:
        op.operands[count] = _relative_indices(op, split)
        for dim in ragged:
            op.mask_operand(count, dim, -1 - max(shape))
    if split or not op.operand_shardings[count].divides(info.operands[count].shape):
        op.ir.attributes["indices_are_sorted"] = ir.BoolAttr.get(False, emit.context)
    if axes:
        _start_once(op, axes)
    if split and math.prod(op.local_operand(count).shape[d] for d in _index_dims(info)) == 1:
        # XLA turns a single row into a slice and, of a shard just cut, adds up both starts without limiting its own.
        for index in range(count):
            operand = op.operands[index]
            op.operands[index] = emit.op("stablehlo.optimization_barrier", [operand], [read_type(operand)])
    op.keep()


def _reduced_dims(op: LocalOp) -> list[int]:
    """Split dimensions of the indices over which results are partial."""
    count = len(op.info.results)
    kinds = op.rule.kinds
    return [
        dim
        for dim, factors in enumerate(op.rule.operands[count])
        if any(kinds[f] is REDUCTION for f in factors) and op.operand_axes(count, dim)
    ]


def _relative_indices(op: LocalOp, split: list[int]) -> Any:
    """Indices into this shard. What is out of range of the whole operand stays so in every shard:

    it is brought to just outside first, so that no subtraction can wrap. The first index behind the end may
    then point at the last shard's padding, which nobody reads.
    """
    emit, info, count = op.emit, op.info, len(op.info.results)
    shape, local = info.operands[0].shape, op.local_operand(0).shape
    vector_dim = _numbers(info).index_vector_dim
    dims = _indexed_dims(info)
    element = index_element(shape)
    parts = []
    for dim, value in zip(dims, components(emit, op.operands[count], vector_dim, len(dims)), strict=True):
        position = clamp(emit, value, -_window_size(info, dim), shape[dim], element)
        if dim in split:
            position = relative(emit, position, op.operand_axes(0, dim), local[dim])
        parts.append(position)
    return join_components(emit, parts, vector_dim)


def _start_once(op: LocalOp, axes: Axes) -> None:
    """Only the first shard along `axes` starts from the operand."""
    emit, type_ = op.emit, op.local_operand(0)
    first = compare(emit, emit.shard_index(axes), "EQ", emit.constant(INDEX, 0))
    neutral = emit.constant(type_, identity_of(op.rule.combiner))
    op.operands[0] = emit.op("stablehlo.select", [first, op.operands[0], neutral], [type_])


OPS = op_table([OpDef("stablehlo.scatter", scatter_rule, localize_scatter)])
