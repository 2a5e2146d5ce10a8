"""Reshards cost what the planner's paths take and send."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable

import numpy as np
import pytest

from gspmd.dialect.axes import Axis
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.decide.objective import BYTES_ALONE
from gspmd.transforms.decide.prices import PriceBook, never_s
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.paths.placements import AxisParts, Placements
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.routes import MAX_ROUTED
from gspmd.transforms.paths.traffic import sent_bytes

Pair = tuple[int, int]


def every_pair(table: Placements) -> list[Pair]:
    """All sources, partial ones too, with all finished targets."""
    return list(itertools.product(range(len(table.lists)), range(table.finished)))


def patterns(table: Placements, pairs: Iterable[Pair]) -> list[Pair]:
    """A pair of placements for every way in which two can differ: dimensions in any order are the same."""
    lists, found = table.parts.lists, dict[object, Pair]()
    for source, target in pairs:
        dims = [(lists[a], lists[b]) for a, b in zip(table.lists[source], table.lists[target], strict=True)]
        found.setdefault((tuple(sorted(dims)), int(table.partial[source])), (source, target))
    return list(found.values())


def differing(
    sizes: tuple[int, ...], shape: tuple[int, ...], target: str, pairs: list[Pair] | None = None
) -> list[str]:
    """The pairs of which the price in seconds or in bytes is not that of the planner's path."""
    mesh = _mesh(*sizes)
    hardware, parts, type_ = planned_for(target, mesh), AxisParts(mesh, ()), TensorType(shape, "f32")
    table, planner = parts.of(len(shape), ()), Planner(mesh, hardware)
    seconds = PriceBook(parts, hardware)
    sent = PriceBook(parts, BYTES_ALONE.hardware, seconds)
    wrong = []
    for source, goal in pairs or every_pair(table):
        at, ends = (np.array([source]), np.array([goal])), (table.sharding(source), table.sharding(goal))
        path = planner.plan(type_, *ends)
        for book, made, unit in ((seconds, path.time_s, "s"), (sent, sent_bytes(type_, ends[0], path.steps), "bytes")):
            price = book.moves(type_, table, *at)[0, 0]
            if price != pytest.approx(made, rel=1e-9):
                wrong.append(f"{_text(ends[0])} -> {_text(ends[1])}: {price:.6g} and not {made:.6g} {unit}")
    return wrong


def _text(sharding: TensorSharding) -> str:
    return f"{print_dims(sharding)} of {print_axes(sharding.unreduced, sharding.mesh)}"


@pytest.mark.parametrize("target", ["", "tpu:v5e:4x8", "gpu:h100:8*4"])
@pytest.mark.parametrize("rank", [2, 3])
def test_every_way_to_change_over_two_axes(rank: int, target: str) -> None:
    wrong = differing((8, 4), (64,) * rank, target)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("sizes", "target"), [((2, 4, 8), ""), ((2, 2, 16), ""), ((4, 2, 4), "tpu:v4:4x4x2"), ((2, 3, 5), "")], ids=str
)
@pytest.mark.parametrize("rank", [2, 3])
def test_every_way_to_change_over_three_axes(sizes: tuple[int, ...], target: str, rank: int) -> None:
    table = AxisParts(_mesh(*sizes), ()).of(rank, ())
    wrong = differing(sizes, (math.prod(sizes),) * rank, target, patterns(table, every_pair(table)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("target", ["", "gpu:h100:8*4"])
@pytest.mark.parametrize("shape", [(3, 3), (100, 36), (7, 30, 4), (64, 1, 8), (5,), (2**14 + 1, 2**14)], ids=str)
def test_values_with_padding(shape: tuple[int, ...], target: str) -> None:
    pairs = every_pair(AxisParts(_mesh(8, 4), ()).of(len(shape), ()))
    wrong = differing((8, 4), shape, target, random.Random(0).sample(pairs, min(len(pairs), 150)))
    assert not wrong, "\n".join(wrong)


def _mesh(*sizes: int) -> Mesh:
    return Mesh(tuple(zip("xyz", sizes, strict=False)))


def test_a_closed_form_counts_the_bytes_of_reshards_between_many_placements() -> None:
    mesh, type_ = _mesh(2, 2, 2), TensorType((16,) * 5, "f32")
    parts, planner = AxisParts(mesh, ()), Planner(mesh)
    table, prices = parts.of(5, ()), PriceBook(parts, BYTES_ALONE.hardware)
    assert len(table.lists) > MAX_ROUTED
    wrong = []
    for source, goal in random.Random(0).sample([pair for pair in every_pair(table) if pair[0] < table.finished], 400):
        ends = table.sharding(source), table.sharding(goal)
        sent = sent_bytes(type_, ends[0], planner.plan(type_, *ends).steps)
        (price,) = prices.moves(type_, table, np.array([source]), np.array([goal]))[0]
        if price != pytest.approx(sent):
            wrong.append(f"{_text(ends[0])} -> {_text(ends[1])}: {price:.0f} and not {sent:.0f} bytes")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("target", ["", "tpu:v5e:4x8"])
def test_one_uneven_dimension_among_many_placements_needs_no_search(target: str) -> None:
    """Four heads over eight devices: the axis of eight is cut into four and two, and there are over 400 placements."""
    mesh, type_ = _mesh(4, 8), TensorType((64, 4, 2, 64, 64), "bf16")
    cut = (Axis("y", 1, 4), Axis("y", 4, 2))
    parts = AxisParts(mesh, (replicated(mesh, 2).with_axes((cut[:1], cut[1:])),))
    table, hardware = parts.of(5, ()), planned_for(target, mesh)
    is_even = table.is_even(type_.shape, np.arange(len(table.lists)))
    uneven = table.number(replicated(mesh, 5).with_axes(((), (mesh.axis("y"),), (), (), ())))
    assert len(table.lists) > MAX_ROUTED
    assert not is_even[uneven]
    states, book = np.append(np.flatnonzero(is_even), uneven), PriceBook(parts, hardware)
    seconds = book.moves(type_, table, states, states)
    assert np.isfinite(seconds).all()
    assert book.planner.moves_tried == 0
    for other in random.Random(0).sample(range(int(np.count_nonzero(states < table.finished)) - 1), 40):
        path = Planner(mesh, hardware).plan(type_, table.sharding(uneven), table.sharding(int(states[other])))
        assert path.time_s == pytest.approx(seconds[-1, other])


@pytest.mark.parametrize("target", ["", "tpu:v4:4x4x4"])
def test_many_uneven_reshards_are_priced_without_plans_and_never_too_low(target: str) -> None:
    """Their price is that of a gather first and a slice last, which the planner improves on."""
    mesh, type_ = _mesh(4, 4, 4), TensorType((60, 6, 64, 64, 64), "f32")
    table, hardware = AxisParts(mesh, ()).of(5, ()), planned_for(target, mesh)
    book, every = PriceBook(table.parts, hardware), np.arange(table.finished)
    assert len(table.lists) > MAX_ROUTED
    seconds = book.moves(type_, table, every, every)
    assert np.isfinite(seconds).all()
    assert book.planner.moves_tried == 0
    is_even, planner = table.is_even(type_.shape, every), Planner(mesh, hardware)
    pairs = [pair for pair in every_pair(table) if pair[0] < table.finished and not is_even[list(pair)].all()]
    too_low = []
    for source, goal in random.Random(0).sample(pairs, 60):
        path = planner.plan(type_, table.sharding(source), table.sharding(goal))
        if seconds[source, goal] < path.time_s * 0.99:
            ends = " -> ".join(print_dims(table.sharding(number)) for number in (source, goal))
            too_low.append(f"{ends}: {seconds[source, goal]:.3g} s and not {path.time_s:.3g}")
    assert not too_low, "\n".join(too_low)


def test_no_move_makes_summands() -> None:
    parts = AxisParts(Mesh((("x", 2),)), ())
    table = parts.of(1, ())
    (summands,) = range(table.finished, len(table.lists))
    found = PriceBook(parts, BYTES_ALONE.hardware).moves(
        TensorType((8,), "f32"), table, np.arange(table.finished), np.array([summands])
    )
    assert (found == never_s(BYTES_ALONE.hardware)).all()
