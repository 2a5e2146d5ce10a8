"""Routes between all placements at once: what they take is what the planner's paths take, on links that differ, too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.transforms.decide.prices import PriceBook
from gspmd.transforms.exchange.blocks import misaligned
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.target_file import planned_for, read_hardware
from gspmd.transforms.paths.path import MoveBudget
from gspmd.transforms.paths.placements import AxisParts
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.prices import Prices
from gspmd.transforms.paths.routes import RouteBook
from gspmd.transforms.paths.search import Search, common_cuts

TARGETS = {
    "tpu:v5e:4x4": (("x", 4), ("y", 4)),
    "tpu:v5e:4x8": (("x", 8), ("y", 4)),
    "tpu:v4:4x4x2": (("x", 4), ("y", 8)),
    "tpu:v3:4x4": (("x", 8), ("y", 4)),
    "gpu:h100:8*2": (("x", 8), ("y", 2)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [64, 2048])
def test_paths_take_no_longer_than_routes(target: str, size: int) -> None:
    """So what is decided for its price is made for it. Routes do not count that gathered shards are put in order."""
    mesh, type_ = Mesh(TARGETS[target]), TensorType((size, size), "bf16")
    hardware, parts = planned_for(target, mesh), AxisParts(mesh, ())
    table, planner = parts.of(2, ()), Planner(mesh, hardware)
    seconds, dearer = PriceBook(parts, hardware).moves(type_, table, *2 * [np.arange(len(table.lists))]), list[str]()
    for a, b in itertools.product(range(len(table.lists)), range(table.finished)):
        path = planner.plan(type_, table.sharding(a), table.sharding(b))
        ordered_s = 4 * size * size / hardware.memory_bytes_per_s  # the whole value is read and written once more
        allowed = seconds[a, b] * 1.001 + hardware.collective_latency_s + ordered_s
        if path.time_s > allowed:
            ends = " -> ".join(print_dims(table.sharding(number)) for number in (a, b))
            dearer.append(f"{ends}: {path.time_s:.3g} s and not {seconds[a, b]:.3g}")
    assert not dearer, "\n".join(dearer)


@pytest.mark.parametrize("target", ["", *TARGETS])
def test_what_routes_find_is_never_dearer_than_a_search_towards_the_target(target: str) -> None:
    mesh = Mesh(TARGETS.get(target, (("x", 4), ("y", 2))))
    hardware, parts, type_ = planned_for(target, mesh), AxisParts(mesh, ()), TensorType((512, 512), "f32")
    table, planner, faster = parts.of(2, ()), Planner(mesh, hardware), 0
    for a, b in itertools.product(range(len(table.lists)), range(table.finished)):
        source, goal = table.sharding(a), table.sharding(b)
        if a == b:
            continue
        prices, cuts = Prices(type_, source, hardware), common_cuts(source, goal)
        alone = Search(prices, source, goal, cuts, MoveBudget(10**6)).run()
        assert alone is not None
        path = planner.plan(type_, source, goal)
        assert path.time_s <= alone.time_s * (1 + 1e-9)
        faster += path.time_s < alone.time_s * 0.99
    assert faster, "searches towards the target miss nothing"


def test_the_way_through_links_that_lie_idle_is_found() -> None:
    """What devices along y hold alike is cut among them first, and gathered over both lines of the torus."""
    mesh = Mesh((("x", 4), ("y", 4)))
    hardware, parts = read_hardware("tpu:v5e:4x4", mesh), AxisParts(mesh, ())
    table = parts.of(1, ())
    (split,) = [n for n in range(table.finished) if print_dims(table.sharding(n)) == '[{"y"}]']
    path = Planner(mesh, hardware).plan(TensorType((2**24,), "f32"), table.sharding(split), table.sharding(0))
    assert [step.kind for step in path.steps] == ["all_slice", "all_gather"]
    (both,) = path.steps[-1:]
    assert both.dims == ((parts.mesh.axis("y"), parts.mesh.axis("x")),)


UNEVEN = [
    ("", (("x", 4), ("y", 2)), (50,)),
    ("", (("x", 4), ("y", 2)), (50, 64)),
    ("", (("x", 2), ("y", 3)), (128, 50)),
    ("", (("x", 2), ("y", 4)), (50, 6, 8)),
    ("", (("x", 8), ("y", 8)), (20, 600)),
    ("tpu:v5e:4x8", (("x", 8), ("y", 4)), (1001, 60)),
    ("gpu:h100:8*2", (("x", 8), ("y", 2)), (50, 64)),
]


@pytest.mark.parametrize(("target", "axes", "shape"), UNEVEN)
def test_uneven_values_are_moved_at_the_price_of_their_route(
    target: str, axes: tuple[tuple[str, int], ...], shape: tuple[int, ...]
) -> None:
    """Shards that do not nest are realigned or exchanged directly, on the whole in less time than a search finds."""
    mesh, type_ = Mesh(axes), TensorType(shape, "f32")
    hardware, parts = planned_for(target, mesh), AxisParts(mesh, ())
    table, planner, ratios = parts.of(len(shape), ()), Planner(mesh, hardware), list[float]()
    book, every = RouteBook(hardware), np.arange(len(table.lists))
    seconds, has_crossed = PriceBook(parts, hardware).moves(type_, table, every, every), False
    for a, b in itertools.product(range(0, len(table.lists), 2), range(table.finished)):
        source, goal = table.sharding(a), table.sharding(b)
        if a == b:
            continue
        routed = book.of(table, shape, np.array([a, b]))
        assert routed is not None
        path, stops = planner.plan(type_, source, goal), routed.routes.stops(type_, *routed.position[[a, b]].tolist())
        assert path.time_s == pytest.approx(seconds[a, b]), f"{print_dims(source)} -> {print_dims(goal)}"
        assert [step.after for step in path.steps] == [table.sharding(stop) for stop in stops[1:]]
        has_crossed |= any(
            misaligned(shape, *(table.sharding(n).dim_axes() for n in pair)) for pair in itertools.pairwise(stops)
        )
        alone = Search(
            Prices(type_, source, hardware), source, goal, common_cuts(source, goal), MoveBudget(10**6)
        ).run()
        assert alone is not None
        ratios.append(path.time_s / alone.time_s)
    assert has_crossed, "no step is between shards that do not nest"
    assert np.mean(ratios) <= 1
