"""Iotas and lists of devices against numpy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialect_strategies import MAX_DEVICES, device_counts, expand, factorings, iotas, orders, permutations

from gspmd.dialect import device_order
from gspmd.dialect.axes import Axis
from gspmd.dialect.device_order import ALL, Iota
from gspmd.dialect.errors import AnnotationError


@given(st.data())
def test_an_iota_is_the_transpose_of_a_reshape(data: st.DataObject) -> None:
    count = data.draw(device_counts)
    dims = data.draw(factorings(count)) or (1,)
    perm = data.draw(permutations(len(dims)))
    expected = tuple(np.arange(count).reshape(dims).transpose(perm).reshape(-1).tolist())
    iota = Iota(dims, perm)
    assert iota.expand() == expected
    assert [iota.position(device) for device in expected] == list(range(count))
    assert Iota(iota.dims, iota.perm) == iota  # canonical
    assert 1 not in iota.dims or iota.dims == (1,)
    assert iota.is_identity == (expected == tuple(range(count)))
    assert device_order.from_parts(iota.parts()) == iota
    assert device_order.compact(expected) == iota  # equal orders have equal forms


@pytest.mark.parametrize(
    ("dims", "perm", "canonical"),
    [
        ((1, 3, 2, 1), (2, 3, 1, 0), ((3, 2), (1, 0))),
        ((3, 4, 5), (1, 2, 0), ((3, 20), (1, 0))),
        ((3, 4, 5), (0, 1, 2), ((60,), (0,))),
        ((1, 1), (1, 0), ((1,), (0,))),
    ],
)
def test_canonical_forms(
    dims: tuple[int, ...], perm: tuple[int, ...], canonical: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    iota = Iota(dims, perm)
    assert (iota.dims, iota.perm) == canonical


@given(st.integers(1, 8).flatmap(permutations))
def test_compact_finds_iotas_and_only_them(ids: tuple[int, ...]) -> None:
    found = device_order.compact(ids)
    assert isinstance(found, Iota) == (ids in all_iotas(len(ids)))
    assert expand(found) == ids


def all_iotas(count: int) -> set[tuple[int, ...]]:
    def shapes(n: int) -> list[tuple[int, ...]]:
        return [(n,)] + [(d, *rest) for d in range(2, n) if n % d == 0 for rest in shapes(n // d)]

    return {
        tuple(np.arange(count).reshape(dims).transpose(perm).reshape(-1).tolist())
        for dims in shapes(count)
        for perm in itertools.permutations(range(len(dims)))
    }


@given(device_counts.flatmap(lambda n: st.tuples(orders(n), orders(n))))
def test_compose_and_inverse_are_those_of_permutations(case: tuple[device_order.DeviceOrder, ...]) -> None:
    outer, inner = case
    a, b = expand(outer), expand(inner)
    assert expand(device_order.compose(outer, inner)) == tuple(a[i] for i in b)
    assert expand(device_order.compose(outer, device_order.inverse(outer))) == tuple(range(len(a)))
    assert all(device_order.position(outer, device) == a.index(device) for device in a)
    assert device_order.size(outer) == len(a)
    assert device_order.expand(outer) == a


@given(device_counts.flatmap(lambda n: st.tuples(orders(n), factorings(n))))
def test_split_gives_the_parts_of_every_dim(case: tuple[device_order.DeviceOrder, tuple[int, ...]]) -> None:
    order, dims = case
    lists = device_order.split(order, dims)
    ids = np.array(expand(order)).reshape(dims)
    if lists is None:
        # then some dim is no part: its devices are not those of an iota in every position of the others
        assert not isinstance(device_order.compact(order), Iota) or not nests(device_order.compact(order), dims)
        return
    assert device_order.from_parts(p for parts in lists for p in parts) == device_order.compact(order)
    count = math.prod(dims)
    for index in np.ndindex(*dims):
        for i, parts in zip(index, lists, strict=True):
            along = 0
            for part in parts:
                along = along * part.size + int(ids[index]) // (count // part.end) % part.size
            assert along == i


def nests(iota: device_order.DeviceOrder, dims: tuple[int, ...]) -> bool:
    assert isinstance(iota, Iota)
    cuts = {math.prod(p.size for p in iota.parts()[:i]) for i in range(len(iota.parts()) + 1)}
    ends = {math.prod(dims[:i]) for i in range(len(dims) + 1)}
    both = sorted(cuts | ends)
    return all(b % a == 0 for a, b in itertools.pairwise(both))


def test_regroup_cuts_where_axes_end_or_gives_up() -> None:
    axes = (Axis("a", 1, 2), Axis("b", 1, 6))
    assert device_order.regroup([Axis(ALL, 1, 4)], axes) == (Axis("a", 1, 2), Axis("b", 1, 2))
    assert device_order.regroup([Axis(ALL, 4, 3), Axis(ALL, 1, 2)], axes) == (Axis("b", 2, 3), Axis("a", 1, 2))
    assert device_order.regroup([Axis(ALL, 1, 3)], axes) is None
    assert device_order.regroup([Axis(ALL, 3, 2)], axes) is None
    assert device_order.regroup([Axis(ALL, 12, 2)], axes) is None


def test_a_large_iota_is_not_written_out() -> None:
    count = 2**60
    iota = Iota((2**20, 2**20, 2**20), (2, 0, 1))
    assert device_order.compose(iota, device_order.inverse(iota)) == device_order.identity(count)
    assert iota.position(2**40 + 5) == 5 * 2**40 + 2**20
    lists = device_order.split(iota, (2**10, 2**30, 2**20))
    assert lists is not None
    assert [len(parts) for parts in lists] == [1, 2, 1]


@pytest.mark.parametrize(
    ("dims", "perm", "message"),
    [
        ((2, 0), (0, 1), "at least 1"),
        ((2, 2), (0, 0), "permutation"),
        ((2, 2), (0,), "permutation"),
        ((2,), (1,), "perm"),
    ],
)
def test_iotas_that_are_none_are_refused(dims: tuple[int, ...], perm: tuple[int, ...], message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        Iota(dims, perm)


@given(st.lists(st.integers(-1, 5), max_size=6))
def test_ids_are_each_device_once(ids: list[int]) -> None:
    if sorted(ids) == list(range(len(ids))):
        device_order.check_ids(tuple(ids))
    else:
        with pytest.raises(AnnotationError, match=r"out of range|listed twice and device \d+ is missing"):
            device_order.check_ids(tuple(ids))


@given(st.integers(1, MAX_DEVICES).flatmap(iotas))
def test_inverse_of_an_iota_is_one(iota: Iota) -> None:
    assert isinstance(device_order.inverse(iota), Iota)
