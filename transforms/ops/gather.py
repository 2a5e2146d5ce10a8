"""gather: look-ups, such as those of an embedding, of rows that may be on other devices."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.rule import REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.indices import IndexVectors, WindowDim, both, clamp, index_element, inside
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.pieces import pad_dim
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import identity_of, partial_combiner
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import MOVED, Traits


def gather_rule(info: OpInfo) -> OpShardingRule:
    """Whole windows, batching dimensions and dimensions of the indices pass through.

    If windows are only a part of a split dimension, results are partial: each device looks up the elements in its
    shard. Such a window can be split, too: each device looks up its part. Index vectors cannot be split.
    """
    numbers = _numbers(info)
    operand, indices, result = info.operands[0].shape, info.operands[1].shape, info.results[0].shape
    element = info.results[0].element
    sizes = info.ints("slice_sizes")
    builder = RuleBuilder([operand, indices], [result], combiner=partial_combiner(element))
    place = dict(zip(_index_dims(info), _batch_dims(info), strict=True))
    batching = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    window_place = _window_place(info)
    for dim, size in enumerate(operand):
        if dim in batching:
            builder.factor([dim, batching[dim]], [place[batching[dim]]], size)
        elif dim in window_place and sizes[dim] == size:
            builder.factor([dim, None], [window_place[dim]], size)
        elif sizes[dim] and not element.startswith("!"):
            builder.factor([dim, None], [None], size, REDUCTION)
            if dim in window_place:
                builder.factor([None, None], [window_place[dim]], sizes[dim])
    for dim, target in place.items():
        if dim not in batching.values():
            builder.factor([None, dim], [target], indices[dim])
    return builder.build()


def _numbers(info: OpInfo) -> stablehlo.GatherDimensionNumbers:
    return stablehlo.GatherDimensionNumbers(info.attributes["dimension_numbers"])


def _index_dims(info: OpInfo) -> list[int]:
    """The batch dimensions of the indices."""
    return [d for d in range(info.operands[1].rank) if d != _numbers(info).index_vector_dim]


def _batch_dims(info: OpInfo) -> list[int]:
    """The dimensions of the result from the indices."""
    return [d for d in range(info.results[0].rank) if d not in _numbers(info).offset_dims]


def _window_place(info: OpInfo) -> dict[int, int]:
    """The result dimension of each window dimension of the operand."""
    numbers = _numbers(info)
    missing = {*numbers.operand_batching_dims, *numbers.collapsed_slice_dims}
    windows = [d for d in range(info.operands[0].rank) if d not in missing]
    return dict(zip(windows, numbers.offset_dims, strict=True))


def localize_gather(op: LocalOp) -> None:
    """Look up the elements in this shard; elements of other shards become the neutral element."""
    emit, result = op.emit, op.local_result(0)
    if 0 in op.info.results[0].shape:
        op.replace([emit.constant(result, "zero")])
        return
    windows = {w.dim: w for w in _windows(op) if w.is_split}
    shape, sizes, local = op.info.operands[0].shape, list(op.info.ints("slice_sizes")), op.local_operand(0).shape
    for dim, size in enumerate(sizes):
        sizes[dim] = windows[dim].part if dim in windows else local[dim] if size == shape[dim] else size
    op.ir.attributes["slice_sizes"] = emit.i64s(sizes)
    if windows or not op.operand_shardings[1].divides(op.info.operands[1].shape):
        op.ir.attributes["indices_are_sorted"] = ir.BoolAttr.get(False, emit.context)
    if not windows:
        op.keep()
        return
    indices, found, numbers = _shard_indices(op, windows)
    operand, neutral = op.operands[0], identity_of(op.rule.combiner)
    for dim, window in windows.items():
        operand = pad_dim(emit, operand, dim, *_margins(window), neutral)
    names = ("slice_sizes", "indices_are_sorted")
    kept = {name: op.ir.attributes[name] for name in names if name in op.ir.attributes}
    value = emit.op("stablehlo.gather", [operand, indices], [result], dimension_numbers=numbers, **kept)
    if found is not None:
        dims = emit.i64s(_batch_dims(op.info))
        mask = emit.op("stablehlo.broadcast_in_dim", [found], [result.of_element("i1")], broadcast_dimensions=dims)
        value = emit.op("stablehlo.select", [mask, value, emit.constant(result, neutral)], [result])
    op.replace([value])


def _windows(op: LocalOp) -> list[WindowDim]:
    """The dimensions of which windows are only a part."""
    shape, local, sizes = op.info.operands[0].shape, op.local_operand(0).shape, op.info.ints("slice_sizes")
    place, result, parts = _window_place(op.info), op.result_shardings[0], op.local_result(0).shape
    found = []
    for dim, (size, window) in enumerate(zip(shape, sizes, strict=True)):
        if (dim in place and window == size) or dim in _numbers(op.info).operand_batching_dims:
            continue
        part, part_axes = (parts[place[dim]], result.dims[place[dim]].axes) if dim in place else (window, ())
        found.append(WindowDim(dim, size, local[dim], op.operand_axes(0, dim), window, part, part_axes))
    return found


def _margins(window: WindowDim) -> tuple[int, int]:
    """Neutral elements before and after a shard, so that windows may be partly or completely outside.

    Windows of one element need none: elements outside the shard are replaced.
    """
    if window.part == 1:
        return 0, 0
    return (window.part, window.part) if window.axes else (0, window.overhang)


def _shard_indices(
    op: LocalOp, windows: dict[int, WindowDim]
) -> tuple[Value, Value | None, stablehlo.GatherDimensionNumbers]:
    """The indices into this shard with its margins, the mask of those inside, and the dimension numbers.

    The mask is a tensor of i1 with the batch dimensions of the indices, or None if all are inside. The dimension
    numbers change because split dimensions may add components. The indices are first clamped to the whole operand, as
    the operation does, which determines the shard.
    """
    emit, shape, sizes = op.emit, op.info.operands[0].shape, op.info.ints("slice_sizes")
    numbers = _numbers(op.info)
    vectors = IndexVectors(emit, op.operands[1], numbers.index_vector_dim, numbers.start_index_map)
    dims = [*vectors.dims, *(d for d in windows if d not in vectors.dims)]
    parts, found = [], None
    for dim in dims:
        start = clamp(emit, vectors.component(dim), 0, shape[dim] - sizes[dim], index_element(shape))
        if dim in windows:
            window = windows[dim]
            start = window.position(emit, start)
            before, _ = _margins(window)
            if before:
                start = emit.binary("add", start, emit.constant(start.type, before))
            elif window.axes:
                found = both(emit, found, inside(emit, start, window.shard))
        parts.append(start)
    if found is not None:
        found = emit.reshape(found, vectors.batch_shape)
    return vectors.join(parts), found, _with_dims(op, dims)


def _with_dims(op: LocalOp, dims: list[int]) -> stablehlo.GatherDimensionNumbers:
    """The dimension numbers of the operation, with index vectors for these dimensions."""
    numbers = _numbers(op.info)
    return stablehlo.GatherDimensionNumbers.get(
        numbers.offset_dims,
        numbers.collapsed_slice_dims,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
        dims,
        numbers.index_vector_dim,
        op.emit.context,
    )


OPS = op_table([OpDef("stablehlo.gather", gather_rule, localize_gather, traits=Traits(flops=MOVED, looks_up=True))])
