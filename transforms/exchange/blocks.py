"""The messages of an exchange of several dimensions at once, as plain values.

Shards are cut into blocks at all boundaries of source and target shards. Every device gets the blocks that it lacks
from a holder, in rounds of one block each, which is the least possible traffic.

For example, `f32[8,8] [{"x"}, {"y"}] -> [{"y"}, {"x"}]` over x=2, y=4: shards of 4x2 become shards of 2x4, so that
blocks are 2x2 and every device needs two. Devices 0, 1, 6 and 7 already have one of theirs. The others receive both, in
two rounds, and no device sends more than 32 bytes.

Source: edge coloring, as for one dimension (`intervals.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gspmd.dialect.axes import Axes, Axis, atoms, common_prefix, remove_prefix, size_of, split_at, without
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.exchange.intervals import MAX_ROUNDS, Ints, Pieces, in_rounds, nests, one_each

Dims = tuple[Axes, ...]
AxisMoves = tuple[tuple[Axes, int, int], ...]
"""Axes, the dimension that they leave, and the one that they join."""

# With more blocks than this, over all devices of a group, no rounds are planned.
MAX_BLOCKS = 4096


def free_axes(mesh: Mesh, axes: Iterable[Axis], held: Axes) -> Axes:
    """The axes along which an exchange sends: all mesh axes of both sides, except `held`.

    Along `held`, which are partial or manual axes, devices have different values.
    """
    names = {axis.name for axis in axes}
    return without(tuple(axis for axis in mesh.all_axes() if axis.name in names), held)


def block_exchange(
    mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, held: Axes, mirrored: tuple[int, ...] = ()
) -> BlockExchange | None:
    """The exchange from axes of every dimension to others, without sending along `held`.

    Along the dimensions `mirrored`, every device gets the shard at the mirrored position. Their shards are even:
    size_of(after[dim]) divides shape[dim]. None if there are too many rounds, or too many blocks to plan.
    """
    axes = _sent_along(mesh, before, after, held, mirrored)
    return _carried_out(_outline(axes, shape, before, after, mirrored=mirrored))


def exchange_between_orders(
    mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, source: Sequence[int], target: Sequence[int]
) -> BlockExchange | None:
    """`block_exchange` between orders of the devices: lists of the device at each position of the mesh.

    The exchange counts devices along all axes, in the mesh's own order.
    """
    own = np.array(mesh.device_ids or range(mesh.size))
    device_positions = tuple(tuple(np.argsort(np.array(order))[own].tolist()) for order in (source, target))
    return _carried_out(_outline(mesh.all_axes(), shape, before, after, device_positions))


def least_sent(mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, held: Axes) -> int | None:
    """The most elements that a device lacks, computed without senders; None if there are too many blocks."""
    outline = _outline(_sent_along(mesh, before, after, held), shape, before, after)
    if outline is None:
        return None
    return int((outline.used & ~outline.here).sum(axis=1).max()) * math.prod(outline.block)


def _sent_along(mesh: Mesh, before: Dims, after: Dims, held: Axes, mirrored: tuple[int, ...] = ()) -> Axes:
    moved = [(a, b) for dim, (a, b) in enumerate(zip(before, after, strict=True)) if a != b or dim in mirrored]
    return free_axes(mesh, [axis for a, b in moved for axis in (*a, *b)], held)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _NeededBlocks:
    """The blocks that devices need, before senders are chosen.

    `source` are the shards of devices, `[devices, rank]`. `shards` and `positions` are the shard and the position of
    each needed block, `[devices, blocks, rank]` and `[devices, blocks]`. `used` marks blocks with elements, and `here`
    those that the device has.
    """

    axes: Axes
    block: tuple[int, ...]
    held: tuple[int, ...]
    wanted: tuple[int, ...]
    source: Ints
    shards: Ints
    positions: Ints
    used: npt.NDArray[np.bool_]
    here: npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BlockExchange:
    """An exchange of blocks of shape `block` between devices numbered along `axes`.

    A source shard has `held` blocks in every dimension, a target shard `wanted`, the last of which may contain padding.
    Pieces number the blocks of a shard in row-major order. A device sends at most `messages` blocks. Senders are only
    planned when `own` or `rounds` is read.
    """

    axes: Axes
    block: tuple[int, ...]
    held: tuple[int, ...]
    wanted: tuple[int, ...]
    messages: int
    _outline: _NeededBlocks

    @property
    def sent(self) -> int:
        """Elements that a device sends at most."""
        return self.messages * math.prod(self.block)

    @property
    def own(self) -> tuple[Pieces, ...]:
        """The blocks that devices already have."""
        return _planned(self._outline)[0]

    @property
    def rounds(self) -> tuple[Pieces, ...]:
        """The received blocks: `messages` rounds of one block each."""
        return _planned(self._outline)[1]


def _carried_out(outline: _NeededBlocks | None) -> BlockExchange | None:
    """The exchange, unless it takes too many rounds."""
    if outline is None or (messages := _messages(outline)) > MAX_ROUNDS:
        return None
    return BlockExchange(outline.axes, outline.block, outline.held, outline.wanted, messages, outline)


@functools.lru_cache(maxsize=4096)
def _outline(
    axes: Axes,
    shape: tuple[int, ...],
    before: Dims,
    after: Dims,
    device_positions: tuple[tuple[int, ...], ...] = (),
    mirrored: tuple[int, ...] = (),
) -> _NeededBlocks | None:
    """The blocks that devices need; None if there are too many, or no elements.

    `device_positions` has the position of each device in the orders before and after, if these are not the mesh's own.
    Shards of the dimensions `mirrored` are numbered from the end after the exchange.
    """
    if 0 in shape:
        return None
    counts, goals = ([size_of(a) for a in dims] for dims in (before, after))
    same = [a == b for a, b in zip(before, after, strict=True)]
    block = tuple(map(_block, shape, counts, goals, same))
    held, wanted = ([_ceil(_ceil(n, c), b) for n, c, b in zip(shape, k, block, strict=True)] for k in (counts, goals))
    if math.prod(wanted) > MAX_ROUNDS or size_of(axes) * math.prod(wanted) > MAX_BLOCKS:
        return None
    ends = tuple(n if keep else _ceil(n, b) for n, b, keep in zip(shape, block, same, strict=True))
    source, target = _shards(axes, before), _shards(axes, after)
    if device_positions:
        source, target = source[list(device_positions[0])], target[list(device_positions[1])]
    for dim in mirrored:
        target[:, dim] = goals[dim] - 1 - target[:, dim]
    inside = np.array(list(itertools.product(*map(range, wanted))), np.int64).reshape(-1, len(wanted))
    blocks = target[:, None, :] * wanted + inside
    shards, held_at = blocks // held, np.ravel_multi_index(tuple(np.moveaxis(blocks % held, -1, 0)), held)
    used, here = np.all(blocks < ends, axis=-1), np.all(shards == source[:, None, :], axis=-1)
    return _NeededBlocks(axes, block, tuple(held), tuple(wanted), source, shards, held_at, used, here)


def _ceil(size: int, parts: int) -> int:
    return -(-size // parts)


@functools.lru_cache(maxsize=4096)
def _messages(outline: _NeededBlocks) -> int:
    """The blocks that the busiest device sends or receives: as many rounds suffice (Koenig 1916)."""
    away = outline.used & ~outline.here
    received = int(away.sum(axis=1).max())
    if not received:
        return 0
    counts = 1 + np.maximum(outline.shards[away].max(axis=0), outline.source.max(axis=0))
    asked, holders = (
        np.bincount(np.ravel_multi_index(tuple(shards.T), tuple(counts)), minlength=math.prod(counts))
        for shards in (outline.shards[away], outline.source)
    )
    # The devices that have a shard take turns to send its blocks.
    return max(received, int(np.max(-(-asked // np.maximum(holders, 1)))))


@functools.lru_cache(maxsize=4096)
def _planned(outline: _NeededBlocks) -> tuple[tuple[Pieces, ...], tuple[Pieces, ...]]:
    """The blocks that devices already have, and the rounds of received ones."""
    own, moved = _pieces(outline)
    return one_each(own), in_rounds(moved, size_of(outline.axes))


def _block(size: int, count: int, goal: int, same: bool) -> int:
    """The block size of a dimension.

    If the dimension is whole on one side, it is the tile size of the other side.
    """
    local, wanted = _ceil(size, count), _ceil(size, goal)
    if same:
        return local
    return min(local, wanted) if 1 in (count, goal) else math.gcd(local, wanted)


def _shards(axes: Axes, dims: Dims) -> Ints:
    """The shard of every device, `[devices, rank]`, numbered along `axes` alone."""
    coordinates = np.unravel_index(np.arange(size_of(axes)), [axis.size for axis in axes] or [1])
    found = np.zeros((size_of(axes), len(dims)), np.int64)
    for d, listed in enumerate(dims):
        for axis in listed:
            for part, coordinate in zip(axes, coordinates, strict=False):
                if part.overlaps(axis):
                    found[:, d] = found[:, d] * axis.size + coordinate // (part.end // axis.end) % axis.size
    return found


def _pieces(outline: _NeededBlocks) -> tuple[Pieces, Pieces]:
    """Blocks that devices already have, and received ones, each from the device with the fewest messages so far."""
    here, away = (np.argwhere(outline.used & mask) for mask in (outline.here, ~outline.here))
    own = [(device, device, int(outline.positions[device, put]), put, 1) for device, put in here.tolist()]
    holders: dict[tuple[int, ...], list[int]] = {}
    for device, shard in enumerate(map(tuple, outline.source.tolist())):
        holders.setdefault(shard, []).append(device)
    moved = []
    load = [0] * len(outline.source)
    for device, put in away.tolist():
        choices = holders[tuple(outline.shards[device, put].tolist())]
        sender = min(choices, key=lambda other: (load[other], abs(other - device)))
        load[sender] += 1
        moved.append((sender, device, int(outline.positions[device, put]), put, 1))
    return _columns(own), _columns(moved)


def _columns(rows: Sequence[tuple[int, ...]]) -> Pieces:
    return Pieces(*np.array(rows, np.int64).reshape(-1, 5).T)


def nests_either_way(size: int, before: Axes, after: Axes) -> bool:
    """Whether the shards of a dimension on one side are unions of shards of the other side."""
    few, many = sorted((size_of(before), size_of(after)))
    return nests(size, few, many)


def misaligned(shape: tuple[int, ...], before: Dims, after: Dims) -> list[int]:
    """The dimensions whose shards on neither side are unions of shards of the other side."""
    sides = zip(shape, before, after, strict=True)
    return [dim for dim, each in enumerate(sides) if not nests_either_way(*each)]


@functools.lru_cache(maxsize=4096)
def all_to_all_moves(before: Dims, after: Dims) -> AxisMoves | None:
    """The axes that an all-to-all moves from the end of one dimension to the end of another; None if more changes.

    Each entry has one axis, cut into the parts that occur in `before` or `after`. None, too, where these parts do not
    nest.
    """
    kept = [common_prefix(a, b) for a, b in zip(before, after, strict=True)]
    left = [remove_prefix(a, k) for a, k in zip(before, kept, strict=True)]
    come = [remove_prefix(b, k) for b, k in zip(after, kept, strict=True)]
    if any(a and b for a, b in zip(left, come, strict=True)):
        return None
    try:
        cuts = atoms([*left, *come])
    except ValueError:
        return None
    homes = {axis: d for d, axes in enumerate(left) for axis in split_at(axes, cuts)}
    goals = {axis: d for d, axes in enumerate(come) for axis in split_at(axes, cuts)}
    if homes.keys() != goals.keys():
        return None
    return tuple(((axis,), home, goals[axis]) for axis, home in homes.items())
