"""Emission of exchanges of several dimensions: blocks in rounds, or one all-to-all for axes that change dimension."""

from __future__ import annotations

import numpy as np

from gspmd.dialect.axes import Axes, Axis, canonical, size_of
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.exchange.blocks import AxisMoves, BlockExchange, Dims
from gspmd.transforms.exchange.grouped_permute import permute
from gspmd.transforms.exchange.intervals import Ints, Pieces
from gspmd.transforms.exchange.pieces import cut_at, lookup
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType


def exchange_blocks(emit: Emitter, value: Value, exchange: BlockExchange, cause: Cause) -> Value:
    """The target shard of every device, in whole blocks, assembled from its own and received blocks.

    The content of padding is unspecified.
    """
    groups = replica_groups(emit.mesh, exchange.axes)
    value = emit.pad_to(value, [n * count for n, count in zip(exchange.block, exchange.held, strict=True)])
    found = None
    for pieces in (*exchange.own, *exchange.rounds):
        block = _taken(emit, value, exchange, pieces)
        if (pieces.source != pieces.target).any():
            pairs = np.stack([groups[:, pieces.source], groups[:, pieces.target]], axis=-1).reshape(-1, 2)
            block = permute(emit, block, pairs, exchange.axes, cause)
        found = _put(emit, found, exchange, pieces, block)
    assert found is not None, "every device needs a block"
    return found


def _by_device(where: Ints, values: Ints, devices: int) -> Ints:
    found = np.zeros(devices, np.int64)
    found[where] = values
    return found


def _taken(emit: Emitter, value: Value, exchange: BlockExchange, pieces: Pieces) -> Value:
    devices = size_of(exchange.axes)
    sends = _by_device(pieces.source, np.ones_like(pieces.source), devices)
    for dim, positions in enumerate(np.unravel_index(pieces.taken, exchange.held)):
        if exchange.held[dim] > 1:
            starts = _by_device(pieces.source, positions * exchange.block[dim], devices)
            value = cut_at(emit, value, dim, exchange.axes, starts, sends, exchange.block[dim])
    return value


def _put(emit: Emitter, whole: Value | None, exchange: BlockExchange, pieces: Pieces, block: Value) -> Value:
    """Write the received block on the devices that get one."""
    devices, axes, type_ = size_of(exchange.axes), exchange.axes, block.type
    shape = tuple(n * count for n, count in zip(exchange.block, exchange.wanted, strict=True))
    gets = _by_device(pieces.target, np.ones_like(pieces.target), devices)
    starts = []
    for dim, positions in enumerate(np.unravel_index(pieces.put, exchange.wanted)):
        begins = _by_device(pieces.target, positions * exchange.block[dim], devices)
        start = lookup(emit, axes, begins, gets, shape[dim] - type_.shape[dim])
        starts.append(emit.constant(INDEX, start) if isinstance(start, int) else start)
    if whole is None:
        whole = emit.constant(TensorType(shape, type_.element), "zero")
    elif not gets.all():
        flag = lookup(emit, axes, gets, np.ones_like(gets), 1)
        assert isinstance(flag, Value), "some devices get a block, others do not"
        here = emit.compare(flag, "GT", emit.constant(INDEX, 0))
        old = whole if shape == type_.shape else emit.dynamic_slice(whole, starts, type_.shape)
        block = emit.op("stablehlo.select", [here, block, old], [type_])
    if shape == type_.shape:
        return block
    return emit.op("stablehlo.dynamic_update_slice", [whole, block, *starts], [whole.type])


def all_to_all_dims(emit: Emitter, value: Value, moves: AxisMoves, after: Dims, cause: Cause) -> Value:
    """One all-to-all for axes that leave or join several dimensions, all evenly.

    `moves` are in the order of the axes in the dimensions that they leave. `after` are the resulting axes of every
    dimension, which give the order in the dimensions that they join.
    """
    local = value.type.shape
    order = range(len(moves))
    sizes = [size_of(axes) for axes, _, _ in moves]

    def coming(dim: int) -> list[int]:
        return sorted((m for m in order if moves[m][2] == dim), key=lambda m: _place(moves[m][0][0], after[dim]))

    parts: list[int] = []
    where, rest = {}, {}
    for dim, n in enumerate(local):
        for m in coming(dim):
            where[m] = len(parts)
            parts.append(sizes[m])
            n //= sizes[m]
        rest[dim] = len(parts)
        parts.append(n)
    value = emit.transpose(emit.reshape(value, parts), [*(where[m] for m in order), *rest.values()])
    kept = [parts[at] for at in rest.values()]
    joined = tuple(axis for axes, _, _ in moves for axis in axes)
    value = emit.all_to_all(emit.reshape(value, (size_of(joined), *kept)), 0, 0, canonical(joined), cause)
    permutation: list[int] = []
    for dim in range(len(local)):
        permutation += [m for m in order if moves[m][1] == dim]
        permutation.append(len(moves) + dim)
    value = emit.transpose(emit.reshape(value, (*sizes, *kept)), permutation)
    counts = [np.prod([sizes[m] for m in order if moves[m][1] == d], dtype=int) for d in range(len(local))]
    return emit.reshape(value, [int(n * count) for n, count in zip(kept, counts, strict=True)])


def _place(axis: Axis, axes: Axes) -> tuple[int, int]:
    """The entry of a list that contains the axis, and its position there."""
    return next((i, axis.pre) for i, other in enumerate(axes) if other.overlaps(axis))
