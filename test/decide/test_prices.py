"""Moves priced in closed form: they send what the planner's paths send."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.objective import BYTES_ALONE
from gspmd.transforms.decide.prices import PriceBook, never_s
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.paths.placements import AxisParts, Placements
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.traffic import sent_bytes

Pattern = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def patterns(table: Placements, sources: range, targets: range) -> list[tuple[int, int]]:
    """A pair of placements for every way in which two can differ: dimensions and axes in any order are the same."""
    parts = table.parts
    renamed = list(itertools.permutations(range(len(parts.parts))))
    found: dict[tuple[Pattern, int], tuple[int, int]] = {}
    for source, target in itertools.product(sources, targets):
        dims = [(parts.lists[a], parts.lists[b]) for a, b in zip(table.lists[source], table.lists[target], strict=True)]
        left = int(table.partial[source])
        names = []
        for order in renamed:
            rows = sorted((tuple(order[n] for n in a), tuple(order[n] for n in b)) for a, b in dims)
            names.append((tuple(rows), sum(1 << order[n] for n in range(len(order)) if left >> n & 1)))
        found.setdefault(min(names), (source, target))
    return list(found.values())


def differing(axes: int, rank: int, *, partial: bool) -> tuple[int, list[str]]:
    """How many patterns there are, and those of which the price is not what the planner's path sends."""
    mesh = Mesh(tuple((name, 2) for name in "xyz"[:axes]))
    parts = AxisParts(mesh, ())
    table, type_ = parts.of(rank, ()), TensorType((512,) * rank, "f32")
    sources = range(table.finished, len(table.lists)) if partial else range(table.finished)
    planner, prices = Planner(mesh), PriceBook(parts, BYTES_ALONE.hardware)
    pairs, wrong = patterns(table, sources, range(table.finished)), list[str]()
    for source, target in pairs:
        (price,) = prices.moves(type_, table, np.array([source]), np.array([target]))[0]
        before, after = table.sharding(source), table.sharding(target)
        sent = sent_bytes(type_, before, planner.plan(type_, before, after).steps)
        if price != pytest.approx(sent):
            wrong.append(f"{_text(before)} -> {_text(after)}: {price:.0f} and not {sent:.0f} bytes")
    return len(pairs), wrong


def _text(sharding: TensorSharding) -> str:
    return f"{print_dims(sharding)} of {print_axes(sharding.unreduced, sharding.mesh)}"


@pytest.mark.parametrize(("axes", "rank"), [(1, 3), (2, 3), (3, 2), (3, 3)])
def test_moves_of_finished_values(axes: int, rank: int) -> None:
    count, wrong = differing(axes, rank, partial=False)
    assert count >= {1: 4, 2: 20, 3: 100}[axes]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("axes", "rank"), [(1, 3), (2, 3)])
def test_moves_that_take_sums(axes: int, rank: int) -> None:
    _, wrong = differing(axes, rank, partial=True)
    assert not wrong, "\n".join(wrong)


def test_no_move_makes_summands() -> None:
    parts = AxisParts(Mesh((("x", 2),)), ())
    table = parts.of(1, ())
    (summands,) = range(table.finished, len(table.lists))
    found = PriceBook(parts, BYTES_ALONE.hardware).moves(
        TensorType((8,), "f32"), table, np.arange(table.finished), np.array([summands])
    )
    assert (found == never_s(BYTES_ALONE.hardware)).all()
