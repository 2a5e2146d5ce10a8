"""Windows of a split dimension: each device gets the elements beyond its own shard from their holders.

For example, f32[12,8] with x=3 on the first dimension, for windows of three rows that may begin one row before it:
`Windows(size=12, start=-1, step=4, length=6)`. Each shard has 4 rows and needs 6, so that it sends its first row to the
previous device and its last row to the next one: two collective permutes, 64 bytes. The rows beyond both ends of the
dimension get the `fill`.

Source: halo exchange, arXiv 2105.04663, section 4.4 and appendix A.2.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

from gspmd.dialect.axes import Axes, atoms, canonical, size_of, split_at, without
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.exchange.grouped_permute import permute
from gspmd.transforms.exchange.intervals import (
    Exchange,
    Ints,
    Pieces,
    Range,
    blocks,
    cheapest,
    check_shards,
    schedule,
    tiles,
)
from gspmd.transforms.exchange.pieces import cut_at, join_dim, lookup, pad_dim, slice_dim, spread_size
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import Fill, is_splat
from gspmd.transforms.ir.types import TensorType

__all__ = [
    "Windows",
    "joint_axes",
    "positions",
    "realignment",
    "realignments",
    "redistribute",
    "retiling",
    "take_windows",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """One window for every shard of a dimension of `size` elements.

    Shard i needs the positions [start + step * i, start + step * i + length); elements are `spread` positions apart,
    with padding between them. Windows may extend beyond the dimension, overlap, or leave gaps.
    """

    size: int
    start: int
    step: int
    length: int
    spread: int = 1

    def begins(self, count: int) -> Ints:
        """The first position that every shard needs."""
        check_shards(count)
        return self.start + self.step * np.arange(count)

    def ranges(self, count: int) -> tuple[Range, ...]:
        """The elements that every shard needs, equally many: a window with one less also gets the one before or after.

        Of these two, it is one in the shard itself, if possible.
        """
        begins = self.begins(count)
        first, end = -(-begins // self.spread), -(-(begins + self.length) // self.spread)
        most = -(-self.length // self.spread)
        has_before = first > np.arange(count) * -(-self.size // count)
        first = np.where((end - first < most) & has_before, first - 1, first)
        return tuple((begin, begin + most) for begin in first.tolist())

    def exchange(self, count: int, local: int | None = None) -> Exchange:
        """The exchange that gives every shard its window.

        Each shard has `local` elements, or as few as possible if that is None.
        """
        if local is None:
            local = -(-self.size // count)
        return Exchange(local, _within(blocks(local, count), self.size), self.ranges(count))


def take_windows(
    emit: Emitter, value: Value, dim: int, axes: Axes, windows: Windows, fill: Fill | None, cause: Cause
) -> Value:
    """The window of each device along a dimension split over `axes`; its length replaces that of the shard.

    Positions outside the dimension become `fill`, a scalar value or a word for `splat`; None leaves them unspecified.
    Positions between elements always become `fill`.
    """
    exchange = windows.exchange(size_of(axes), value.type.shape[dim])
    found = redistribute(emit, value, dim, axes, axes, exchange, cause)
    if fill is not None and not (_is_zero(fill) and _zeros_outside(exchange, windows.size)):
        found = _fill_outside(emit, found, dim, axes, exchange, windows.size, fill)
    if windows.spread == 1:
        return found
    assert fill is not None, "there are positions between elements"
    return _spread_out(emit, found, dim, axes, exchange, windows, fill)


def _is_zero(fill: Fill) -> bool:
    return fill == "zero" if isinstance(fill, str | int | float) else is_splat(fill, "zero")


def _zeros_outside(exchange: Exchange, size: int) -> bool:
    """Whether elements beyond the first and the last shard are zero without being filled.

    They are if neighbors send the needed elements, every shard needs some, and the shards of the `size` elements have
    no padding.
    """
    even = exchange.local * exchange.devices == size
    return even and cheapest(exchange).margins is not None and bool(_receiving(exchange).all())


@functools.lru_cache(maxsize=4096)
def retiling(size: int, source: Axes, joint: Axes, target: Axes) -> Exchange:
    """The exchange from a dimension split over `source` to `target`, with devices numbered along `joint`."""
    spread, targets = positions(source, joint, target)
    count = size_of(target)
    return Exchange(
        -(-size // size_of(source)), tiles(size, size_of(source)), blocks(-(-size // count), count), spread, targets
    )


@functools.lru_cache(maxsize=4096)
def realignment(size: int, count: int, joined: int) -> Exchange:
    """The exchange that makes a dimension of `count` shards even after groups of `joined` of them were concatenated."""
    few, local = count // joined, -(-size // count) * joined
    return Exchange(local, _within(blocks(local, few), size), blocks(-(-size // few), few))


@functools.lru_cache(maxsize=4096)
def realignments(sizes: tuple[int, int], counts: tuple[int, int], moved: int) -> tuple[Exchange, Exchange]:
    """The exchanges that make the dimensions of an all-to-all even: of the joined one, then of the cut one.

    `counts` are the shards of both before it. Groups of `moved` shards of the first are joined, and each shard of the
    second is cut into as many parts. The parts need not be tiles.
    """
    many, shard = counts[1] * moved, -(-sizes[1] // counts[1])
    part = -(-shard // moved)
    check_shards(many)
    begins = [min(j * shard + m * part, (j + 1) * shard) for j in range(counts[1]) for m in range(moved)]
    held = [(min(a, sizes[1]), min(b, sizes[1])) for a, b in itertools.pairwise((*begins, counts[1] * shard))]
    cut = Exchange(part, tuple(held), blocks(-(-sizes[1] // many), many))
    return realignment(sizes[0], counts[0], moved), cut


def _within(ranges: tuple[Range, ...], size: int) -> tuple[Range, ...]:
    """The parts of ranges inside the dimension."""
    return tuple((min(begin, size), min(end, size)) for begin, end in ranges)


@functools.lru_cache(maxsize=4096)
def joint_axes(source: Axes, target: Axes, free: Axes = ()) -> Axes:
    """The axes along which devices are numbered and values are sent, `source` first.

    After `source` come the parts of `target` that it does not cover or, if axes of the two do not nest, those of
    `free`. Raises ValueError if the rest of an axis is not a sub-axis.
    """
    if all(a.nests(b) for a in source for b in target):
        return source + without(target, source)
    return source + without(free, source)


@functools.lru_cache(maxsize=4096)
def positions(source: Axes, joint: Axes, target: Axes) -> tuple[int, tuple[int, ...]]:
    """The `spread` and `targets` of an exchange from shards over `source` to shards over `target`.

    Devices are numbered along `joint`, which starts with `source`.
    """
    if source == target:
        return 1, ()
    whole = _whole(joint)
    cuts = atoms([joint, whole])
    parts = split_at(joint, cuts)
    coordinates = dict(
        zip(parts, np.unravel_index(np.arange(size_of(parts)), [axis.size for axis in parts]), strict=True)
    )
    index = np.zeros(size_of(parts), np.int64)
    for axis in target:
        # The index of the device along the enclosing part of the mesh axis.
        (full,) = (full for full in whole if full.overlaps(axis))
        coordinate = np.zeros_like(index)
        for part in split_at((full,), cuts):
            coordinate = coordinate * part.size + coordinates[part]
        index = index * axis.size + coordinate // (full.end // axis.end) % axis.size
    return size_of(joint) // size_of(source), tuple(index.tolist())


def _whole(axes: Axes) -> Axes:
    """The same axes, with parts of one mesh axis adjacent and joined if possible."""
    return canonical(sorted(axes))


def redistribute(
    emit: Emitter, value: Value, dim: int, source: Axes, joint: Axes, exchange: Exchange, cause: Cause
) -> Value:
    """The elements that every device needs of a dimension split over `source`.

    Devices are numbered along `joint`. Elements without a holder are unspecified. The method is the one that sends
    least, possibly a gather.
    """
    way = cheapest(exchange)
    if way.margins is not None:
        return _with_neighbors(emit, value, dim, source, exchange, way.margins, cause)
    if way.gathers:
        return _gathered(emit, value, dim, source, joint, exchange, cause)
    return _in_rounds(emit, value, dim, joint, exchange, cause)


# ---- the three methods ----


def _with_neighbors(
    emit: Emitter, value: Value, dim: int, axes: Axes, exchange: Exchange, margins: Range, cause: Cause
) -> Value:
    """Extend every shard with elements of its neighbors, then slice the window."""
    extended = _extend(emit, value, dim, axes, *margins, cause)
    begins = np.array(exchange.wants, np.int64)[:, 0] - exchange.local * np.arange(exchange.devices) + margins[0]
    return cut_at(emit, extended, dim, axes, begins, _receiving(exchange), exchange.length)


def _gathered(
    emit: Emitter, value: Value, dim: int, source: Axes, joint: Axes, exchange: Exchange, cause: Cause
) -> Value:
    """Gather all shards, concatenate their ranges, then slice the window."""
    whole, begins = emit.all_gather(value, dim, source, cause), np.array(exchange.wants, np.int64)[:, 0]
    kept, local = exchange.kept(), exchange.local
    begin = kept[0][2][0] if kept else 0
    if any(low - begin != shard * local + index for shard, index, (low, _) in kept):
        parts = [slice_dim(emit, whole, dim, shard * local + index, high - low) for shard, index, (low, high) in kept]
        whole = join_dim(emit, parts, dim)
    targets = np.array(exchange.targets or np.arange(exchange.devices), np.int64)
    return cut_at(emit, whole, dim, joint, begins[targets] - begin, _receiving(exchange)[targets], exchange.length)


def _receiving(exchange: Exchange) -> Ints:
    """The target shards that need elements with a holder."""
    low, high = np.array(exchange.wants, np.int64).T
    kept = exchange.kept()
    return (low < kept[-1][2][1]) & (high > kept[0][2][0]) if kept else np.zeros(len(low), bool)


def _in_rounds(emit: Emitter, value: Value, dim: int, axes: Axes, exchange: Exchange, cause: Cause) -> Value:
    """Write the device's own elements, then the received ones, round by round."""
    plan, local, length, devices = schedule(exchange), exchange.local, exchange.length, exchange.devices
    messages = [_Message(pieces, local, devices) for pieces in (*plan.own[1:], *plan.rounds)]
    before = max(0, *(-int(m.put.min()) for m in messages)) if messages else 0
    after = max(0, *(int(m.put.max()) + m.length - length for m in messages)) if messages else 0
    starts = care = np.zeros(devices, np.int64)
    for own in plan.own[:1]:
        starts = _scattered(own.target, own.taken - own.put, devices)
        care = _scattered(own.target, np.ones_like(own.put), devices)
    buffer = cut_at(emit, value, dim, axes, starts - before, care, before + length + after)
    groups = replica_groups(emit.mesh, axes)
    for message in messages:
        piece = cut_at(emit, value, dim, axes, message.taken, message.sends, message.length)
        if not np.array_equal(message.source, message.target):
            pairs = np.stack([groups[:, message.source], groups[:, message.target]], axis=-1).reshape(-1, 2)
            piece = permute(emit, piece, pairs, axes, cause)
        buffer = _put(emit, buffer, dim, axes, message, before, piece)
    return slice_dim(emit, buffer, dim, before, length)


class _Message:
    """One round of an exchange, with an entry per device.

    A device sends from `taken` on. It writes the message to `put`, of which only [`low`, `high`) is valid: messages
    have equal lengths and are inside the shard, so a shorter piece at its end has other elements before it.
    """

    def __init__(self, pieces: Pieces, local: int, devices: int) -> None:
        self.source, self.target = pieces.source, pieces.target
        self.length = int(pieces.length.max())
        taken = np.minimum(pieces.taken, local - self.length)
        lead = pieces.taken - taken
        ones = np.ones_like(lead)
        self.sends, self.receives = (_scattered(at, ones, devices) for at in (pieces.source, pieces.target))
        self.taken = _scattered(pieces.source, taken, devices)
        self.put = _scattered(pieces.target, pieces.put - lead, devices)
        self.low = _scattered(pieces.target, lead, devices)
        self.high = _scattered(pieces.target, lead + pieces.length, devices)


def _scattered(where: Ints, values: Ints, devices: int) -> Ints:
    found = np.zeros(devices, np.int64)
    found[where] = values
    return found


def _put(emit: Emitter, buffer: Value, dim: int, axes: Axes, message: _Message, before: int, received: Value) -> Value:
    """Write the valid part of a message to the buffer, on devices with a message."""
    type_, whole = received.type, buffer.type
    start = lookup(emit, axes, message.put + before, message.receives, whole.shape[dim] - message.length)
    zero = emit.constant(INDEX, 0)
    begin = emit.constant(INDEX, start) if isinstance(start, int) else start
    starts = [begin if d == dim else zero for d in range(type_.rank)]
    here = _valid(emit, dim, axes, message, type_)
    if here is not None:
        if isinstance(start, int):
            old = slice_dim(emit, buffer, dim, start, message.length)
        else:
            old = emit.dynamic_slice(buffer, starts, type_.shape)
        received = emit.op("stablehlo.select", [here, received, old], [type_])
    if whole == type_:
        return received
    return emit.op("stablehlo.dynamic_update_slice", [buffer, received, *starts], [whole])


def _valid(emit: Emitter, dim: int, axes: Axes, message: _Message, type_: TensorType) -> Value | None:
    """The mask of the valid part of a message on this device; None if all of it is valid on all devices.

    It is a scalar if all or none of the elements are valid.
    """
    everyone = np.ones_like(message.low)
    if not message.low.any() and set(message.high.tolist()) <= {0, message.length}:
        if message.high.all():
            return None
        length = lookup(emit, axes, message.high, everyone, message.length)
        assert isinstance(length, Value), "some devices get a message, others do not"
        return emit.compare(length, "GT", emit.constant(INDEX, 0))
    indices_type = TensorType(type_.shape, INDEX.element)
    indices = emit.op("stablehlo.iota", [], [indices_type], iota_dimension=emit.i64(dim))
    tests = []
    if message.low.any():
        tests.append(emit.compare(indices, "GE", _spread(emit, dim, axes, message.low, message.receives, indices_type)))
    if message.high.min() < message.length:
        tests.append(emit.compare(indices, "LT", _spread(emit, dim, axes, message.high, everyone, indices_type)))
    return emit.all_of(tests)


def _spread(emit: Emitter, dim: int, axes: Axes, values: Ints, care: Ints, type_: TensorType) -> Value:
    found = lookup(emit, axes, values, care, type_.shape[dim])
    return emit.constant(type_, found) if isinstance(found, int) else emit.broadcast_scalar(found, type_)


def _extend(emit: Emitter, value: Value, dim: int, axes: Axes, left: int, right: int, cause: Cause) -> Value:
    """The shard with `left` elements before and `right` elements after it.

    Elements beyond the first and the last shard are zeros.
    """
    local = value.type.shape[dim]
    groups = replica_groups(emit.mesh, axes)
    parts = [value]
    for distance in range(1, -(-left // local) + 1 if left else 1):
        amount = min(left - (distance - 1) * local, local)
        tail = slice_dim(emit, value, dim, local - amount, amount)
        pairs = np.stack([groups[:, :-distance], groups[:, distance:]], axis=-1).reshape(-1, 2)
        parts.insert(0, permute(emit, tail, pairs, axes, cause))
    for distance in range(1, -(-right // local) + 1 if right else 1):
        amount = min(right - (distance - 1) * local, local)
        head = slice_dim(emit, value, dim, 0, amount)
        pairs = np.stack([groups[:, distance:], groups[:, :-distance]], axis=-1).reshape(-1, 2)
        parts.append(permute(emit, head, pairs, axes, cause))
    return join_dim(emit, parts, dim)


def _fill_outside(
    emit: Emitter, value: Value, dim: int, axes: Axes, exchange: Exchange, size: int, fill: Fill
) -> Value:
    """Replace the elements before the start or after the `size` of the dimension by `fill`."""
    type_ = value.type
    position = TensorType(type_.shape, INDEX.element)
    begins, ends = np.array(exchange.wants, np.int64).T
    if begins.min() >= 0 and ends.max() <= size:
        return value
    # Relative to the start of the first window.
    lowest, highest = int(begins.min()), int(ends.max())
    begin = lookup(emit, axes, begins - lowest, np.ones_like(begins), highest - lowest)
    indices = emit.op("stablehlo.iota", [], [position], iota_dimension=emit.i64(dim))
    if isinstance(begin, Value):  # else it is 0
        indices = emit.binary("add", indices, emit.broadcast_scalar(begin, position))
    tests = []
    if lowest < 0:
        tests.append(emit.compare(indices, "GE", emit.constant(position, -lowest)))
    if highest > size:
        tests.append(emit.compare(indices, "LT", emit.constant(position, size - lowest)))
    here = emit.all_of(tests)
    filler = emit.constant(type_, fill) if isinstance(fill, str | int | float) else emit.broadcast_scalar(fill, type_)
    return emit.op("stablehlo.select", [here, value, filler], [type_])


def _spread_out(
    emit: Emitter, value: Value, dim: int, axes: Axes, exchange: Exchange, windows: Windows, fill: Fill
) -> Value:
    """Dilate the elements of a device's window to positions, with `fill` between them and at its ends."""
    spread, count = windows.spread, size_of(axes)
    # The position of the first element in the window; negative if an extra element was fetched.
    first = spread * np.array(exchange.wants, np.int64)[:, 0] - windows.begins(count)
    before = max(int(first.max()), 0)
    after = max(windows.length - int(first.min()) - spread_size(exchange.length, spread), 0)
    padded = pad_dim(emit, value, dim, before, after, fill, between=spread - 1)
    return cut_at(emit, padded, dim, axes, before - first, np.ones(count, np.int64), windows.length)
