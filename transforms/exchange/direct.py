"""The direct exchange between two shardings, without intermediate shardings: `sdy.reshard`.

There are three kinds. For example, over x=2 and y=4:

- `f32[6,8] [{"x"}, {}] -> [{"y"}, {}]` changes the tiles of one dimension.
- `f32[8,8,8] [{"x"}, {"y"}, {}] -> [{}, {}, {"x", "y"}]` moves axes to another dimension, in one all-to-all.
- `f32[8,8] [{"x"}, {"y"}] -> [{"y"}, {"x"}]` moves blocks of 2x2 elements, in two rounds.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, TypeAlias

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import local_shape
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.exchange.block_emission import all_to_all_dims, exchange_blocks
from gspmd.transforms.exchange.blocks import (
    AxisMoves,
    BlockExchange,
    Dims,
    all_to_all_moves,
    block_exchange,
    free_axes,
    nests_either_way,
)
from gspmd.transforms.exchange.halo import joint_axes, redistribute, retiling
from gspmd.transforms.exchange.intervals import Exchange, cheapest
from gspmd.transforms.ir.operations import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Retiling:
    """The exchange of one dimension, `dim`, of `size` elements, from tiles over `source` to others.

    Devices are numbered along `axes`. `others` is the number of elements of a device's shard of the other dimensions.
    """

    dim: int
    size: int
    source: Axes
    axes: Axes
    exchange: Exchange
    others: int

    kind: ClassVar[str] = "collective_permute"

    @property
    def messages(self) -> int:
        return cheapest(self.exchange).messages

    @property
    def sent(self) -> int:
        """Elements that a device sends at most."""
        return cheapest(self.exchange).sent * self.others

    @property
    def gathered(self) -> int:
        """The elements of temporary values on a device, besides its shards before and after."""
        return self.size * self.others if cheapest(self.exchange).gathers else 0

    def emit(self, emit: Emitter, value: Value, cause: Cause) -> Value:
        """A device's shard after the exchange."""
        made: Value = redistribute(emit, value, self.dim, self.source, self.axes, self.exchange, cause)
        return made


@dataclasses.dataclass(frozen=True, slots=True)
class BlockMoves:
    """The exchange of blocks of several dimensions, in rounds; `local` is the shard shape after it."""

    exchange: BlockExchange
    local: tuple[int, ...]

    kind: ClassVar[str] = "collective_permute"
    gathered: ClassVar[int] = 0

    @property
    def axes(self) -> Axes:
        return self.exchange.axes

    @property
    def messages(self) -> int:
        return self.exchange.messages

    @property
    def sent(self) -> int:
        """Elements that a device sends at most."""
        return self.exchange.sent

    def emit(self, emit: Emitter, value: Value, cause: Cause) -> Value:
        """A device's shard after the exchange."""
        return emit.slice(exchange_blocks(emit, value, self.exchange, cause), self.local)


@dataclasses.dataclass(frozen=True, slots=True)
class AxisSwap:
    """One all-to-all of axes that change their dimension, all evenly; `shape` is global.

    `moves` are in the order of the axes in the dimensions that they leave.
    """

    shape: tuple[int, ...]
    before: Dims
    after: Dims
    moves: AxisMoves

    kind: ClassVar[str] = "all_to_all"
    messages: ClassVar[int] = 1
    gathered: ClassVar[int] = 0

    @property
    def axes(self) -> Axes:
        return tuple(axis for axes, _, _ in self.moves for axis in axes)

    @property
    def sent(self) -> int:
        """The elements that a device sends, of its shard including padding."""
        held, devices = math.prod(self._padded()), size_of(self.axes)
        return held - held // devices

    def emit(self, emit: Emitter, value: Value, cause: Cause) -> Value:
        """A device's shard after the exchange."""
        padded = self._padded()
        if padded != value.type.shape:
            # Pieces that are only padding must not become constants: see `CollectiveBuilder.all_to_all`.
            value = emit.kept_apart(emit.pad_to(value, padded))
        moved = all_to_all_dims(emit, value, self.moves, self.after, cause)
        return emit.slice(moved, local_shape(self.shape, self.after))

    def _padded(self) -> tuple[int, ...]:
        """A device's shard before it, padded in every dimension to a multiple of its shard after it."""
        counts = [math.prod(size_of(axes) for axes, _, to in self.moves if to == d) for d in range(len(self.shape))]
        parts = (local_shape(self.shape, dims) for dims in (self.before, self.after))
        sides = zip(*parts, counts, strict=True)
        return tuple(n if count == 1 else m * count for n, m, count in sides)


DirectExchange: TypeAlias = Retiling | BlockMoves | AxisSwap


def changed_dims(before: Dims, after: Dims) -> list[int]:
    """The dimensions whose axes change."""
    return [d for d, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


def direct_exchange(mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, held: Axes) -> DirectExchange | None:
    """The exchange that sends least, not along `held`; None if there are too many messages to plan.

    If axes only change their dimension, all evenly, it is one all-to-all.
    """
    changed = changed_dims(before, after)
    if len(changed) > 1 and all(map(nests_either_way, shape, before, after)):
        moves = all_to_all_moves(before, after)
        if moves:
            return AxisSwap(shape, before, after, moves)
    found = block_exchange(mesh, shape, before, after, held)
    blocks = None if found is None else BlockMoves(found, local_shape(shape, after))
    tiles = _retiling(mesh, shape, before, after, held) if len(changed) == 1 else None
    if tiles is None or blocks is None:
        return tiles or blocks
    return tiles if (tiles.sent, tiles.messages) <= (blocks.sent, blocks.messages) else blocks


def _retiling(mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, held: Axes) -> Retiling | None:
    (dim,) = changed_dims(before, after)
    old, new = before[dim], after[dim]
    try:
        joint = joint_axes(old, new, free_axes(mesh, (*old, *new), held))
    except ValueError:
        return None
    others = math.prod(n for d, n in enumerate(local_shape(shape, before)) if d != dim)
    return Retiling(dim, shape[dim], old, joint, retiling(shape[dim], old, joint, new), others)
