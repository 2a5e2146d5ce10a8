"""Bytes that a device sends for the steps of a reshard, and the fewest that any way has to send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from gspmd.dialect.axes import common_prefix, size_of
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.blocks import all_to_all_moves
from gspmd.transforms.exchange.direct import changed_dims, direct_way
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import sent_bytes
from gspmd.transforms.reshard.path import ReshardStep


def sent_by_step(
    type_: TensorType, source: TensorSharding, steps: Iterable[ReshardStep]
) -> Iterator[tuple[str, float]]:
    """The kind of collective that each step is, and what it sends; a slice sends nothing and is left out."""
    before = source
    for step in steps:
        local = math.prod(before.local_shape(type_.shape)) * element_bytes(type_.element)
        if step.kind == "reshard":
            yield _resharded(type_, before, step.after)
        elif step.kind != "all_slice":
            yield step.kind, sent_bytes(step.kind, local, _devices(step))
        before = step.after


def _resharded(type_: TensorType, before: TensorSharding, after: TensorSharding) -> tuple[str, float]:
    """The kind of collective that a direct exchange consists of, and the bytes that a device sends in it."""
    old, new, size = before.dim_axes(), after.dim_axes(), element_bytes(type_.element)
    if len(changed_dims(old, new)) > 1 and (moves := all_to_all_moves(old, new)):
        count = size_of(axis for axes, _, _ in moves for axis in axes)
        return "all_to_all", sent_bytes("all_to_all", math.prod(before.local_shape(type_.shape)) * size, count)
    way = direct_way(before.mesh, type_.shape, old, new, (*before.unreduced, *before.manual))
    return "collective_permute", size * way.sent if way else 0.0


def _devices(step: ReshardStep) -> int:
    """How many devices take part in one group of the collective."""
    if step.kind == "all_reduce":
        return size_of(step.axes)
    if step.kind == "all_to_all":
        return math.prod(size_of(axes) for axes, _, _ in step.moves)
    return math.prod(size_of(axes) for axes in step.dims)


def least_bytes(type_: TensorType, source: TensorSharding, target: TensorSharding) -> float:
    """Bytes that some device has to be sent, however a value gets from one sharding to the other: what it lacks.

    More has to be sent where partial sums are still to be added up. Less is enough where shards are uneven and no
    device gets a whole shard that has nothing in common with what it had.
    """
    kept = 1
    held, wanted = source.local_shape(type_.shape), target.local_shape(type_.shape)
    for before, after, *counts in zip(source.dim_axes(), target.dim_axes(), held, wanted, strict=True):
        # Where neither list begins with the other there are devices whose shards have nothing in common.
        kept *= min(counts) if common_prefix(before, after) in (before, after) else 0
    return float(element_bytes(type_.element) * (math.prod(wanted) - kept))
