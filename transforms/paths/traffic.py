"""The bytes that a device sends for the steps of a reshard, and a lower bound of these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from gspmd.dialect.axes import Axes, common_prefix, size_of
from gspmd.dialect.sharding import TensorSharding, local_shape
from gspmd.transforms.exchange.blocks import Dims
from gspmd.transforms.exchange.step import ReshardStep
from gspmd.transforms.ir.types import TensorType, element_bytes


def sent_by_step(
    type_: TensorType, source: TensorSharding, steps: Iterable[ReshardStep]
) -> Iterator[tuple[str, float]]:
    """The collectives of steps: their kinds, and the bytes that a device sends."""
    before = source
    for step in steps:
        for collective in step.sent(type_, before):
            yield collective.kind, collective.bytes
        before = step.after


def sent_bytes(type_: TensorType, source: TensorSharding, steps: Iterable[ReshardStep]) -> float:
    """Bytes that a device sends in all of the steps."""
    return sum(sent for _, sent in sent_by_step(type_, source, steps))


def least_bytes(type_: TensorType, source: TensorSharding, target: TensorSharding) -> float:
    """A lower bound of the bytes that devices receive on average, for any path between the shardings."""
    ends = (source.dim_axes(), source.unreduced), (target.dim_axes(), target.unreduced)
    devices = source.mesh.size // size_of(target.manual)
    return element_bytes(type_.element) * least_elements(type_.shape, *ends, devices)


def least_elements(shape: tuple[int, ...], source: tuple[Dims, Axes], target: tuple[Dims, Axes], devices: int) -> float:
    """A lower bound of the elements that each of so many devices receives on average.

    `source` and `target` are the axes of dimensions, and the partial axes.

    A device receives the elements that it lacks. Less suffices if shards are uneven and no device gets a whole shard
    that is disjoint from its own. For partial values it is the bound of `docs/least.md` for sums, if that is larger:
    with h summands, each element is sent once to every device that needs it, and h - 2 more times.
    """
    kept = 1
    held, wanted = local_shape(shape, source[0]), local_shape(shape, target[0])
    for before, after, *counts in zip(source[0], target[0], held, wanted, strict=True):
        # If neither list is a prefix of the other, there are devices whose shards are disjoint.
        kept *= min(counts) if common_prefix(before, after) in (before, after) else 0
    elements = float(math.prod(wanted))
    lacked, summands = elements - kept, size_of(source[1]) // size_of(target[1])
    if summands > 1 and all(n % size_of(axes) == 0 for n, axes in zip(shape, target[0], strict=True)):
        between = math.prod(shape) * size_of(target[1]) / devices
        return max(lacked, elements + (summands - 2) * between)
    return lacked
