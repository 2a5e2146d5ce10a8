"""The direct exchange from one sharding to another, with nothing in between: what `sdy.reshard` stands for."""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.exchange.blocks import BlockExchange, Dims, block_exchange, free_axes
from gspmd.transforms.exchange.halo import joint_axes, retiling
from gspmd.transforms.exchange.intervals import Exchange, cheapest


@dataclasses.dataclass(frozen=True, slots=True)
class Retiling:
    """The exchange of one dimension, `dim`, that gets other tiles; devices are counted along `joint`.

    `others` are the elements that a device holds of the other dimensions.
    """

    dim: int
    joint: Axes
    exchange: Exchange
    others: int

    @property
    def sent(self) -> int:
        """Elements that a device sends at most."""
        return cheapest(self.exchange).sent * self.others


def changed_dims(before: Dims, after: Dims) -> list[int]:
    """The dimensions whose axes change."""
    return [d for d, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


def direct_way(
    mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, held: Axes
) -> Retiling | BlockExchange | None:
    """The exchange that sends least, without sending along `held`; None if there are too many messages to plan."""
    blocks = block_exchange(mesh, shape, before, after, held)
    changed = changed_dims(before, after)
    tiles = _retiling(mesh, shape, before, after, held) if len(changed) == 1 else None
    if tiles is None or blocks is None:
        return tiles or blocks
    return tiles if tiles.sent <= blocks.sent else blocks


def _retiling(mesh: Mesh, shape: tuple[int, ...], before: Dims, after: Dims, held: Axes) -> Retiling | None:
    (dim,) = changed_dims(before, after)
    old, new = before[dim], after[dim]
    try:
        joint = joint_axes(old, new, free_axes(mesh, (*old, *new), held))
    except ValueError:
        return None
    others = math.prod(
        -(-n // size_of(axes)) for d, (n, axes) in enumerate(zip(shape, before, strict=True)) if d != dim
    )
    return Retiling(dim, joint, retiling(shape[dim], old, joint, new), others)
