"""The lower bound of communication, from the elements of arguments that each result needs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gspmd.dialect.axes import Axes
from gspmd.dialect.limits import MAX_EXCHANGED_SHARDS
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.analysis.least.images import images_of
from gspmd.transforms.analysis.least.known import ValueFacts
from gspmd.transforms.analysis.least.needs import RequiredElements, need_of
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.boundary_orders import DeviceIds, read_orders


@dataclasses.dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound for every program with the same annotations: the `bytes` that its busiest device sends or receives.

    `needs` are the pairs of a result and an argument that contribute. Without any, the bound is unknown.
    """

    bytes: int
    needs: tuple[RequiredElements, ...] = ()


def least_sent(annotated: AnnotatedProgram) -> LowerBound:
    """The bound of an ingested program."""
    mesh = annotated.mesh
    if not 1 < mesh.size <= MAX_EXCHANGED_SHARDS:
        return LowerBound(0)
    known = images_of(annotated.program)
    results = [known[value] for value in annotated.program.body.returned]
    needs = sorted(_needs(annotated, results), key=lambda need: -need.total_bytes)
    sum_axes = dict.fromkeys(axes for need in needs for axes in need.sums) or {(): None}
    return max((_independent(needs, results, axes, mesh.size) for axes in sum_axes), key=lambda bound: bound.bytes)


def _needs(annotated: AnnotatedProgram, results: list[ValueFacts]) -> list[RequiredElements]:
    mesh = annotated.mesh
    orders = read_orders(annotated.function)
    sources = [_source(*pair) for pair in zip(annotated.arguments, orders.arguments, strict=True)]
    needs = []
    for index, (result, sharding, order) in enumerate(zip(results, annotated.results, orders.results, strict=True)):
        if sharding is not None and (sharding.unreduced or sharding.manual):
            continue
        placed = sharding is not None and order is None and not any(dim.is_open for dim in sharding.dims)
        target = sharding.dim_axes() if sharding is not None and placed else None
        for number, image in result.images.items():
            source = sources[number]
            if source is not None:
                need = need_of(index, image, source, target, mesh)
                if need.total_bytes:
                    needs.append(need)
    return needs


def _source(sharding: TensorSharding | None, order: DeviceIds | None) -> tuple[Axes, ...] | None:
    """The axes that split an argument; None if all devices may have all of it."""
    if sharding is None or order is not None or sharding.unreduced or sharding.manual:
        return None
    return sharding.dim_axes() if any(sharding.dim_axes()) else None


def _independent(needs: list[RequiredElements], results: list[ValueFacts], axes: Axes, devices: int) -> LowerBound:
    """Add up independent needs, the largest first. Sums with summands along `axes` count as sums.

    Needs are independent if no counted result depends on the argument of a later need, and if only the sum depends on
    the argument of a sum.
    """
    counted: list[RequiredElements] = []
    depends, summed = 0, 0  # the arguments on which counted results depend, and those of counted sums
    received, total = np.zeros(devices), 0.0
    for need in needs:
        mine, argument = results[need.result].arguments, 1 << need.argument
        if any(need.result == other.result for other in counted) or depends & argument or summed & mine:
            continue
        plain, as_sum = float(need.by_device.sum()), need.sums.get(axes, 0.0)
        if as_sum > plain:
            summed |= argument
        total += need.width * max(plain, as_sum)
        received += need.width * need.by_device
        depends |= mine
        counted.append(need)
    return LowerBound(math.floor(max(total / devices, float(received.max())) + 1e-6), tuple(counted))
