"""Laws of lists of axis parts, over one axis and over several."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialect_strategies import axis_parts, factorings, index_along, meshes

from gspmd.dialect.axes import (
    Axis,
    atoms,
    canonical,
    common_prefix,
    overlap,
    remove_prefix,
    size_of,
    split_at,
    starts_with,
    subtract,
    take,
    without,
)
from gspmd.dialect.mesh import Mesh


@st.composite
def lists(draw: st.DrawFn) -> tuple[Mesh, list[Axis]]:
    """A mesh, and some parts of its axes in any order, not canonical."""
    mesh = draw(meshes(ids=False))
    parts = draw(axis_parts(mesh))
    return mesh, parts[: draw(st.integers(0, len(parts)))]


def shards(mesh: Mesh, axes: tuple[Axis, ...] | list[Axis]) -> list[int]:
    return [index_along(mesh, axes, position) for position in range(mesh.size)]


@given(lists())
def test_canonical_means_the_same_and_is_its_own_canonical_form(case: tuple[Mesh, list[Axis]]) -> None:
    mesh, axes = case
    merged = canonical(axes)
    assert shards(mesh, merged) == shards(mesh, axes)
    assert canonical(merged) == merged
    for a, b in itertools.pairwise(merged):
        assert a.name != b.name or a.end != b.pre
    assert size_of(merged) == size_of(axes)


@given(lists(), st.data())
def test_equal_lists_of_shards_have_equal_canonical_forms(case: tuple[Mesh, list[Axis]], data: st.DataObject) -> None:
    mesh, axes = case
    other = list(data.draw(st.permutations(axes)))
    assert (canonical(axes) == canonical(other)) == (shards(mesh, axes) == shards(mesh, other))


@given(lists(), st.integers(0, 48))
def test_take_splits_a_list_at_a_number_of_shards(case: tuple[Mesh, list[Axis]], size: int) -> None:
    mesh, parts = case
    axes = canonical(parts)
    taken, rest = take(axes, size)
    assert canonical(taken + rest) == axes
    assert shards(mesh, taken + rest) == shards(mesh, axes)
    assert size % size_of(taken) == 0
    for longer in prefixes(axes):
        if size % size_of(longer) == 0 and all(size % size_of(p) == 0 for p in prefixes(longer)):
            assert size_of(longer) <= size_of(taken)


def prefixes(axes: tuple[Axis, ...]) -> list[tuple[Axis, ...]]:
    """All lists that `axes` begins with, cutting axes too."""
    found: list[tuple[Axis, ...]] = [()]
    for i, axis in enumerate(axes):
        sizes = [part for part in range(2, axis.size + 1) if axis.size % part == 0]
        found += [(*axes[:i], Axis(axis.name, axis.pre, part)) for part in sizes]
    return found


@given(lists(), st.data())
def test_common_prefix_is_the_longest_that_both_begin_with(case: tuple[Mesh, list[Axis]], data: st.DataObject) -> None:
    axes = canonical(case[1])
    stem = data.draw(st.sampled_from(prefixes(axes)))
    left = canonical((*stem, *data.draw(st.permutations(without(axes, stem)))))
    right = axes
    found = common_prefix(left, right)
    assert found == common_prefix(right, left)
    assert starts_with(left, found)
    assert starts_with(right, found)
    both = [p for p in prefixes(left) if p in prefixes(right)]
    longest = max(both, key=size_of)
    assert found == longest
    for axes in (left, right):
        assert canonical(found + remove_prefix(axes, found)) == canonical(axes)


def test_parts_that_exclude_each_other_have_no_common_prefix() -> None:
    # a list of 4 shards and one of 6 agree on no cut of both lists' own parts
    assert common_prefix((Axis("x", 1, 4),), (Axis("x", 1, 6),)) == ()
    assert common_prefix((Axis("x", 1, 4),), (Axis("x", 1, 2), Axis("y", 1, 2))) == (Axis("x", 1, 2),)
    assert common_prefix((Axis("x", 2, 2),), (Axis("x", 1, 2),)) == ()


@given(lists(), st.data())
def test_without_leaves_what_is_not_covered(case: tuple[Mesh, list[Axis]], data: st.DataObject) -> None:
    mesh, parts = case
    used = data.draw(st.lists(st.sampled_from(parts), unique=True)) if parts else []
    left = without(mesh.all_axes(), used)
    assert not overlap(left, used)
    assert size_of(left) * size_of(used) == mesh.size
    assert canonical(left) == left
    assert canonical(mesh.sorted((*left, *used))) == mesh.all_axes()
    assert without(parts, parts) == ()
    assert without(parts, ()) == canonical(parts)


def test_what_is_left_of_an_axis_must_be_a_part_of_it() -> None:
    assert subtract(Axis("x", 1, 12), [Axis("x", 2, 3)]) == (Axis("x", 1, 2), Axis("x", 6, 2))
    assert subtract(Axis("x", 1, 4), [Axis("x", 2, 6)]) == (Axis("x", 1, 2),)
    assert subtract(Axis("x", 1, 12), [Axis("x", 1, 6), Axis("x", 1, 2)]) == (Axis("x", 6, 2),)
    with pytest.raises(ValueError, match="cannot be cut at 4 and 6"):
        subtract(Axis("x", 1, 6), [Axis("x", 1, 4)])
    with pytest.raises(ValueError, match="cannot be cut at 4 and 6"):
        subtract(Axis("x", 1, 12), [Axis("x", 1, 4), Axis("x", 6, 2)])


@given(lists(), st.data())
def test_atoms_cut_every_list_without_changing_it(case: tuple[Mesh, list[Axis]], data: st.DataObject) -> None:
    mesh, parts = case
    all_lists = [canonical(parts), mesh.all_axes(), canonical(data.draw(st.permutations(parts)))]
    cuts = atoms(all_lists)
    for axes in all_lists:
        pieces = split_at(axes, cuts)
        assert canonical(pieces) == canonical(axes)
        assert shards(mesh, pieces) == shards(mesh, axes)
        assert split_at(pieces, cuts) == pieces
        for other in all_lists:
            for a in pieces:
                for b in split_at(other, cuts):
                    assert a == b or not a.overlaps(b)


def test_cuts_that_do_not_nest_have_no_atoms() -> None:
    with pytest.raises(ValueError, match="do not nest"):
        atoms([[Axis("x", 1, 2)], [Axis("x", 1, 3)]])


@given(st.sampled_from([8, 12, 24, 36]), st.data())
def test_parts_nest_when_they_are_of_one_factoring(size: int, data: st.DataObject) -> None:
    def part() -> Axis:
        factors = data.draw(factorings(size, units=False))
        begin = data.draw(st.integers(0, len(factors) - 1))
        end = data.draw(st.integers(begin + 1, len(factors)))
        return Axis("x", math.prod(factors[:begin]), math.prod(factors[begin:end]))

    a, b = part(), part()
    chains = [set(cuts) for cuts in divisor_chains(size)]
    assert a.nests(b) == b.nests(a) == any({a.pre, a.end, b.pre, b.end} <= chain for chain in chains)
    assert a.nests(Axis("y", 5, 7))


def divisor_chains(size: int) -> list[list[int]]:
    """All lists 1, .., size in which each number divides the next."""
    if size == 1:
        return [[1]]
    return [[*chain, size] for d in range(1, size) if size % d == 0 for chain in divisor_chains(d)]
