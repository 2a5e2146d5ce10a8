"""Bytes that a device sends for the steps of a reshard, and the fewest that any way has to send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from gspmd.dialect.axes import common_prefix
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step import ReshardStep
from gspmd.transforms.ir.types import TensorType, element_bytes


def sent_by_step(
    type_: TensorType, source: TensorSharding, steps: Iterable[ReshardStep]
) -> Iterator[tuple[str, float]]:
    """The collectives that steps are: the kind of each, and the bytes that a device sends in it."""
    before = source
    for step in steps:
        for collective in step.sent(type_, before):
            yield collective.kind, collective.bytes
        before = step.after


def sent_bytes(type_: TensorType, source: TensorSharding, steps: Iterable[ReshardStep]) -> float:
    """Bytes that a device sends in all of the steps."""
    return sum(sent for _, sent in sent_by_step(type_, source, steps))


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
