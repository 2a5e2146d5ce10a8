"""The least that devices send in a program, from what each of its results needs of the arguments."""

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
    """A lower bound for every program with these annotations: `bytes` of its busiest device, sent or received.

    `needs` are what these bytes were counted for. If there are none, nothing is known to be needed.
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
    needs = sorted(_needs(annotated, results), key=lambda need: -need.most)
    ways = dict.fromkeys(axes for need in needs for axes in need.sums) or {(): None}
    return max((_together(needs, results, axes, mesh.size) for axes in ways), key=lambda least: least.bytes)


def _needs(annotated: AnnotatedProgram, results: list[ValueFacts]) -> list[RequiredElements]:
    mesh = annotated.mesh
    ends = read_orders(annotated.function)
    sources = [_source(*pair) for pair in zip(annotated.arguments, ends.arguments, strict=True)]
    needs = []
    for index, (result, sharding, order) in enumerate(zip(results, annotated.results, ends.results, strict=True)):
        if sharding is not None and (sharding.unreduced or sharding.manual):
            continue
        placed = sharding is not None and order is None and not any(dim.is_open for dim in sharding.dims)
        target = sharding.dim_axes() if sharding is not None and placed else None
        for number, image in result.images.items():
            source = sources[number]
            if source is not None:
                need = need_of(index, image, source, target, mesh)
                if need.most:
                    needs.append(need)
    return needs


def _source(sharding: TensorSharding | None, order: DeviceIds | None) -> tuple[Axes, ...] | None:
    """The axes that an argument is split over; None where all devices may have all of it."""
    if sharding is None or order is not None or sharding.unreduced or sharding.manual:
        return None
    return sharding.dim_axes() if any(sharding.dim_axes()) else None


def _together(needs: list[RequiredElements], results: list[ValueFacts], axes: Axes, devices: int) -> LowerBound:
    """Add up needs that are independent, the largest first; sums count as such if they have parts along `axes`.

    They are if no result depends on the argument that one taken later is counted by, and none but the sum itself on
    that of a sum.
    """
    taken: list[RequiredElements] = []
    depends, summed = 0, 0  # the arguments that results taken so far depend on, and those of their sums
    received, total = np.zeros(devices), 0.0
    for need in needs:
        mine, argument = results[need.result].arguments, 1 << need.argument
        if any(need.result == other.result for other in taken) or depends & argument or summed & mine:
            continue
        plain, as_sum = float(need.by_device.sum()), need.sums.get(axes, 0.0)
        if as_sum > plain:
            summed |= argument
        total += need.width * max(plain, as_sum)
        received += need.width * need.by_device
        depends |= mine
        taken.append(need)
    return LowerBound(math.floor(max(total / devices, float(received.max())) + 1e-6), tuple(taken))
