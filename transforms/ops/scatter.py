"""scatter: updates of rows, on the device of the row or of the update."""

from __future__ import annotations

import math

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import (
    NEED_REPLICATION,
    PASS_THROUGH,
    PERMUTATION,
    REDUCTION,
    FactorKind,
    OpShardingRule,
    RuleBuilder,
)
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.indices import IndexVectors, WindowDim, clamp, index_element, inside
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.pieces import pad_dim
from gspmd.transforms.ir.op_info import OpInfo, combiners
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.reducers import identity_of
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits


def scatter_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions of the inputs pass through; whole windows and batching dimensions are split like the updates.

    If updates are plain reductions, splitting the updates, or windows that are only a part of a dimension, leaves
    partial results. The local form combines these if the reducers of results differ. Other updates may depend on their
    order and are not split.
    """
    numbers = _numbers(info)
    count = len(info.results)
    shape, indices, updates = info.operands[0].shape, info.operands[count].shape, info.operands[count + 1].shape
    reducers = _reducers(info)
    kind = NEED_REPLICATION if not reducers else REDUCTION if len(set(reducers)) == 1 else PERMUTATION
    combiner = reducers[0] if reducers else "add"
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results], combiner=combiner)

    def factor(dim: int | None, index_dim: int | None, update_dim: int | None, size: int, kind: FactorKind) -> None:
        """On the same dimension of all inputs and results, of the indices, and of all updates."""
        builder.factor([dim] * count + [index_dim] + [update_dim] * count, [dim] * count, size, kind)

    batching = dict(zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    place = dict(zip(_index_dims(info), _update_scatter_dims(info), strict=True))
    window_place = _window_place(info)
    for dim, size in enumerate(shape):
        if dim in batching:
            factor(dim, batching[dim], place[batching[dim]], size, PASS_THROUGH)
        elif dim in window_place and updates[window_place[dim]] == size:
            factor(dim, None, window_place[dim], size, PASS_THROUGH)
        else:
            factor(dim, None, None, size, PASS_THROUGH)
            if dim in window_place:
                factor(None, None, window_place[dim], updates[window_place[dim]], kind)
    for index_dim, update_dim in place.items():
        if index_dim not in batching.values():
            factor(None, index_dim, update_dim, indices[index_dim], kind)
    return builder.build()


def _numbers(info: OpInfo) -> stablehlo.ScatterDimensionNumbers:
    return stablehlo.ScatterDimensionNumbers(info.attributes["scatter_dimension_numbers"])


def _index_dims(info: OpInfo) -> list[int]:
    """The batch dimensions of the indices."""
    indices = info.operands[len(info.results)]
    return [d for d in range(indices.rank) if d != _numbers(info).index_vector_dim]


def _update_scatter_dims(info: OpInfo) -> list[int]:
    """The dimensions of the updates from the indices."""
    updates = info.operands[len(info.results) + 1]
    return [d for d in range(updates.rank) if d not in _numbers(info).update_window_dims]


def _window_place(info: OpInfo) -> dict[int, int]:
    """The update dimension of each window dimension of the operand."""
    numbers = _numbers(info)
    missing = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    windows = [d for d in range(info.operands[0].rank) if d not in missing]
    return dict(zip(windows, numbers.update_window_dims, strict=True))


def _reducers(info: OpInfo) -> tuple[str, ...] | None:
    """The reductions that combine updates with the operands; None for other bodies.

    Products of complex numbers have no identity: infinity times one is not a number.
    """
    found = combiners(info)
    if found is None or any(
        reducer == "mul" and type_.element.startswith("complex")
        for reducer, type_ in zip(found, info.results, strict=True)
    ):
        return None
    return found


def localize_scatter(op: LocalOp) -> None:
    """On each device, scatter the updates of rows in its shard.

    With split updates, one shard starts from the operand and the others from the identity.
    """
    emit, count = op.emit, len(op.info.results)
    axes = _hide_what_is_split(op)
    if 0 in op.info.operands[count + 1].shape:
        results = op.operands[:count]
    else:
        results = _scatter(op, {w.dim: w for w in _windows(op) if w.is_split})
    combined = _reducers(op.info) or ()
    if axes and len(set(combined)) > 1:
        cause = op.cause(f"'{op.info.name}' has split updates: the partial results of all shards are combined")
        results = [emit.all_reduce(v, axes, reducer, cause) for v, reducer in zip(results, combined, strict=True)]
    op.replace(results)


def _hide_what_is_split(op: LocalOp) -> Axes:
    """Prepare split updates: only the first shard starts from the operand, and padding becomes the identity.

    Returns the axes over which results are partial.
    """
    emit, count = op.emit, len(op.info.results)
    dims = {
        dim: op.operand_axes(count + 1, dim)
        for dim, (factor,) in enumerate(op.rule.operands[count + 1])
        if op.rule.kinds[factor] in (REDUCTION, PERMUTATION) and op.operand_axes(count + 1, dim)
    }
    axes = tuple(axis for mine in dims.values() for axis in mine)
    if not axes:
        return ()
    first = emit.compare(emit.shard_index(axes), "EQ", emit.constant(INDEX, 0))
    for index, reducer in enumerate(_reducers(op.info) or ()):
        for dim in dims:
            op.mask_operand(count + 1 + index, dim, identity_of(reducer))
        type_ = op.local_operand(index)
        neutral = emit.constant(type_, identity_of(reducer))
        op.operands[index] = emit.op("stablehlo.select", [first, op.operands[index], neutral], [type_])
    return axes


def _windows(op: LocalOp) -> list[WindowDim]:
    """The dimensions of which windows are only a part."""
    count = len(op.info.results)
    shape, local = op.info.operands[0].shape, op.local_operand(0).shape
    updates, parts = op.info.operands[count + 1].shape, op.local_operand(count + 1).shape
    place, found = _window_place(op.info), []
    for dim, size in enumerate(shape):
        window, part = 1, 1
        part_axes: Axes = ()
        if dim in place:
            window, part, part_axes = updates[place[dim]], parts[place[dim]], op.operand_axes(count + 1, place[dim])
        if dim not in _numbers(op.info).input_batching_dims and (window < size or dim not in place):
            found.append(WindowDim(dim, size, local[dim], op.operand_axes(0, dim), window, part, part_axes))
    return found


def _margins(window: WindowDim) -> tuple[int, int]:
    """The margins before and after a shard for windows that are only partly inside."""
    return (window.part - 1, window.part - 1) if window.axes else (0, window.overhang)


def _scatter(op: LocalOp, windows: dict[int, WindowDim]) -> list[Value]:
    """The operation on shards with margins, which are then removed."""
    emit, count = op.emit, len(op.info.results)
    mapped = list(_numbers(op.info).scattered_dims_to_operand_dims)
    added = [d for d in windows if d not in mapped] or ([] if mapped else _any_dim(op))
    indices, numbers = op.operands[count], None
    if windows or added:
        indices, numbers = _shard_indices(op, windows, [*mapped, *added])
    inputs = list(op.operands[:count])
    for index in range(count):
        for dim, window in windows.items():
            inputs[index] = pad_dim(emit, inputs[index], dim, *_margins(window), 0)
        if windows and math.prod(op.local_operand(count).shape[d] for d in _index_dims(op.info)) == 1:
            # XLA turns a single row into a slice and, for a sliced shard, adds both starts without clamping the inner
            # one.
            inputs[index] = emit.kept_apart(inputs[index])
    clone = op.ir.clone().insert(emit.point)
    for index, operand in enumerate([*inputs, indices, *op.operands[count + 1 :]]):
        clone.operands[index] = operand
    for result, operand in zip(clone.results, inputs, strict=True):
        result.type = operand.type
    if numbers is not None:
        clone.attributes["scatter_dimension_numbers"] = numbers
    _keep_promises(op, clone, changed=bool(windows))
    begins = [_margins(windows[d])[0] if d in windows else 0 for d in range(op.info.operands[0].rank)]
    return [_cut(op, value, begins, op.local_result(index).shape) for index, value in enumerate(clone.results)]


def _keep_promises(op: LocalOp, clone: Operation, changed: bool) -> None:
    """Changed indices are not sorted, and padding is not unique either."""
    count = len(op.info.results)
    padded = not op.operand_shardings[count].divides(op.info.operands[count].shape)
    broken = {"indices_are_sorted": changed or padded, "unique_indices": padded}
    for name, gone in broken.items():
        if gone and name in op.ir.attributes:
            clone.attributes[name] = ir.BoolAttr.get(False, op.emit.context)


def _any_dim(op: LocalOp) -> list[int]:
    """A dimension for a component of index vectors, if there is one.

    With empty index vectors, XLA on CPUs applies only one of several updates of an element.
    """
    return [d for d in range(op.info.operands[0].rank) if d not in _numbers(op.info).input_batching_dims][:1]


def _shard_indices(
    op: LocalOp, windows: dict[int, WindowDim], dims: list[int]
) -> tuple[Value, stablehlo.ScatterDimensionNumbers]:
    """The indices into this shard with its margins, with components for `dims`, and the dimension numbers.

    An index out of range of the whole operand stays out of range in every shard: it is first clamped to just outside,
    so that no subtraction wraps. An element after the end may then be in the padding of the last shard, which is never
    read.
    """
    emit, info, count = op.emit, op.info, len(op.info.results)
    numbers, shape = _numbers(info), info.operands[0].shape
    place, updates = _window_place(info), info.operands[count + 1].shape
    vector_dim, mapped = numbers.index_vector_dim, numbers.scattered_dims_to_operand_dims
    vectors = IndexVectors(emit, op.operands[count], vector_dim, mapped)
    parts = []
    for dim in dims:
        room = shape[dim] - (updates[place[dim]] if dim in place else 1)
        start = clamp(emit, vectors.component(dim), -1, room + 1, index_element(shape))
        parts.append(_part_start(op, start, windows[dim]) if dim in windows else start)
    numbers = stablehlo.ScatterDimensionNumbers.get(
        numbers.update_window_dims,
        numbers.inserted_window_dims,
        numbers.input_batching_dims,
        numbers.scatter_indices_batching_dims,
        dims,
        vector_dim,
        emit.context,
    )
    return vectors.join(parts), numbers


def _part_start(op: LocalOp, start: Value, window: WindowDim) -> Value:
    """The start of this device's part of a window in its shard with margins; outside if the window does not fit."""
    emit, type_ = op.emit, start.type
    found = window.position(emit, start)
    if window.window == 1:
        return found
    before, _ = _margins(window)
    if before:
        found = emit.binary("add", found, emit.constant(type_, before))
    fits = inside(emit, start, window.size - window.window + 1)
    return emit.op("stablehlo.select", [fits, found, emit.constant(type_, -1)], [type_])


def _cut(op: LocalOp, value: Value, begins: list[int], shape: tuple[int, ...]) -> Value:
    """The shard without its margins."""
    type_ = value.type
    if type_.shape == shape:
        return value
    return op.emit.op(
        "stablehlo.slice",
        [value],
        [type_.of_shape(shape)],
        start_indices=op.emit.i64s(begins),
        limit_indices=op.emit.i64s([a + n for a, n in zip(begins, shape, strict=True)]),
        strides=op.emit.i64s([1] * len(shape)),
    )


def scatter_flops(info: OpInfo) -> float:
    combines = any(name != "stablehlo.return" for name in info.body)
    return float(math.prod(info.operands[-1].shape)) if combines else 0.0


OPS = op_table(
    [
        OpDef(
            "stablehlo.scatter",
            scatter_rule,
            localize_scatter,
            traits=Traits(linear=((2,),), flops=Flops("reduction", scatter_flops), in_place=True, update=-1),
        )
    ]
)
