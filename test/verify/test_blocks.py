"""Maps in blocks compute what tables of all of their integers do."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import (
    IndexMap,
    Label,
    composed,
    counted,
    digit,
    dim,
    disagreement,
    factors,
    integer_map,
    pointwise,
    set_map,
)
from gspmd.verification.sets import independent

_SIZES = {digit(0): 2, digit(1): 3, dim(0): 12, dim(1): 8}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "multiple": lambda a, b: a * 3 + b * -2,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: (a + b) // 4,
    "rest": lambda a, b: (a - b) % 6,
    "less": lambda a, b: a < b,
    "at least": lambda a, b: (a - 5 >= 0) & (a <= b),
    "equal": lambda a, b: a == b,
    "chosen": lambda a, b: np.where(a > 4, a, b),
    "clipped": lambda a, b: np.clip(a, 1, 7) + b,
    "least": np.minimum,
    "known": lambda a, b: np.where((a == ANY) | (b == ANY), ANY, a + b),
}


def drawn(rng: random.Random, labels: list[Label], unknown: bool = False) -> np.ndarray[Any, Any]:
    """A table over labels that grows evenly in some blocks along some of them."""
    table = np.zeros([_SIZES[label] for label in labels], np.int64)
    known = np.ones_like(table, np.bool_)
    for axis, label in enumerate(labels):
        size = _SIZES[label]
        block = rng.choice([n for n in range(1, size + 1) if size % n == 0])
        start = np.repeat([rng.randrange(-4, 20) for _ in range(size // block)], block)
        grows = start + np.arange(size) % block * rng.choice([-3, -1, 0, 1, 1, 4])
        table = table + grows.reshape([-1 if other == axis else 1 for other in range(len(labels))])
        if unknown and rng.random() < 0.5:
            here = (np.arange(size) // block % 2 == 0).reshape([-1 if a == axis else 1 for a in range(len(labels))])
            known = known & here
    return np.where(known, table, ANY)


def labels_of(rng: random.Random) -> list[Label]:
    return sorted(rng.sample(list(_SIZES), rng.randrange(1, 4)))


def whole(each: IndexMap, labels: list[Label]) -> np.ndarray[Any, Any]:
    return np.broadcast_to(each.spread(labels), [_SIZES[label] for label in labels])


@pytest.mark.parametrize("seed", range(40))
def test_a_map_is_the_table_it_was_made_of(seed: int) -> None:
    rng = random.Random(seed)
    labels = labels_of(rng)
    table = drawn(rng, labels, unknown=True)
    made = integer_map(labels, table)
    found = whole(made, labels)
    assert (found == table)[table != ANY].all()  # what does not matter may be anything
    assert integer_map(labels, found) is made
    place = {label: rng.randrange(_SIZES[label]) for label in labels}
    assert made.at(place) == found[tuple(place[label] for label in labels)]


def test_what_grows_evenly_takes_one_entry() -> None:
    assert counted(dim(0), 1 << 40, 7, 3).core.size == 1
    shards = pointwise(lambda s, i: s * 2000 + i, counted(digit(0), 16), counted(dim(0), 2000))
    assert shards.core.size == 1
    inside = pointwise(lambda p: (p >= 4000) & (p < 6000), counted(dim(0), 32000))
    assert inside.core.size == 16


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_maps_are_those_of_tables(name: str) -> None:
    rng = random.Random(name)
    for _ in range(60):
        first, second = labels_of(rng), labels_of(rng)
        tables = drawn(rng, first, name == "known"), drawn(rng, second, name == "known")
        maps = integer_map(first, tables[0]), integer_map(second, tables[1])
        labels = sorted({*first, *second})
        wanted = _FUNCTIONS[name](*(whole(each, labels) for each in maps)).astype(np.int64)
        found = whole(pointwise(_FUNCTIONS[name], *maps), labels)
        assert (found == wanted)[wanted != ANY].all()


@pytest.mark.parametrize("seed", range(60))
def test_a_map_at_other_places_is_its_table_there(seed: int) -> None:
    rng = random.Random(seed)
    table = drawn(rng, [dim(0), dim(1)], unknown=True)
    places = {dim(d): drawn(rng, [digit(0), dim(0)]) - 2 for d in range(2)}
    outer = integer_map([dim(0), dim(1)], table)
    made = composed(outer, {label: integer_map([digit(0), dim(0)], place) for label, place in places.items()})
    found = whole(made, [digit(0), dim(0)])
    known = whole(outer, [dim(0), dim(1)])
    inside = [(places[dim(d)] >= 0) & (places[dim(d)] < n) for d, n in enumerate(table.shape)]
    there = inside[0] & inside[1]
    rows, columns = (np.where(there, places[dim(d)], 0) for d in range(2))
    wanted = np.where(there, known[rows, columns], ANY)
    assert (found == wanted)[wanted != ANY].all()


@pytest.mark.parametrize("seed", range(60))
def test_maps_that_differ_have_a_place_that_does(seed: int) -> None:
    rng = random.Random(seed)
    labels = labels_of(rng)
    left, right = (integer_map(labels, drawn(rng, labels, unknown=True)) for _ in range(2))
    place = disagreement(left, right)
    tables = whole(left, labels), whole(right, labels)
    differs = (tables[0] != tables[1]) & (tables[0] != ANY) & (tables[1] != ANY)
    assert (place is not None) == bool(differs.any())
    if place is not None:
        assert differs[tuple(place.get(label, 0) for label in labels)]


@pytest.mark.parametrize("seed", range(20))
def test_factors_of_a_mask_are_the_mask(seed: int) -> None:
    rng = random.Random(seed)
    masks = [integer_map([dim(d)], [rng.randrange(2) for _ in range(_SIZES[dim(d)])]) for d in range(2)]
    mask = pointwise(lambda a, b: (a == 1) & (b == 1), *masks)
    found = factors(mask)
    assert pointwise(lambda *each: math.prod(each[1:], start=each[0]), *found) is mask


@pytest.mark.parametrize("seed", range(60))
def test_a_set_is_the_product_of_its_independent_sets(seed: int) -> None:
    rng = random.Random(seed)
    parts = [[[rng.choice([ANY, 0, 1, 2]) for _ in range(n)] for _ in range(rng.randrange(1, 4))] for n in (1, 2, 1)]
    rows = {(*a, *b, *c) for a in parts[0] for b in parts[1] for c in parts[2]}
    if rng.random() < 0.5:
        rows = {row for row in rows if rng.random() < 0.8} or rows
    whole_set = set_map((), np.array([[*row, 1] for row in rows], np.int64))
    found = {()}
    order: list[int] = []
    for columns, part in independent(whole_set):
        order += columns
        found = {(*row, *(int(n) for n in more[:-1])) for row in found for more in part.core if more[-1]}
    assert {tuple(row[order.index(c)] for c in range(4)) for row in found} == rows
