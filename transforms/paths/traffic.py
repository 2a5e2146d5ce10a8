"""Bytes that a device sends for the steps of a reshard, and the fewest that any way has to send."""

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
    """Bytes that devices have to be sent on average, however a value gets from one sharding to the other."""
    ends = (source.dim_axes(), source.unreduced), (target.dim_axes(), target.unreduced)
    devices = source.mesh.size // size_of(target.manual)
    return element_bytes(type_.element) * least_elements(type_.shape, *ends, devices)


def least_elements(shape: tuple[int, ...], source: tuple[Dims, Axes], target: tuple[Dims, Axes], devices: int) -> float:
    """The elements of a value that so many devices have to be sent on average, each of its part.

    `source` and `target` are the axes of dimensions, and those that sums are still to be taken over.

    A device is sent what it lacks. Less is enough where shards are uneven and no device gets a whole shard that has
    nothing in common with what it had. Where partial sums are added up, it is what `docs/least.md` proves for sums, if
    that is more: with h summands, each element is sent once to every device that wants it and h - 2 times besides.
    """
    kept = 1
    held, wanted = local_shape(shape, source[0]), local_shape(shape, target[0])
    for before, after, *counts in zip(source[0], target[0], held, wanted, strict=True):
        # Where neither list begins with the other there are devices whose shards have nothing in common.
        kept *= min(counts) if common_prefix(before, after) in (before, after) else 0
    elements = float(math.prod(wanted))
    lacked, summands = elements - kept, size_of(source[1]) // size_of(target[1])
    if summands > 1 and all(n % size_of(axes) == 0 for n, axes in zip(shape, target[0], strict=True)):
        between = math.prod(shape) * size_of(target[1]) / devices
        return max(lacked, elements + (summands - 2) * between)
    return lacked
