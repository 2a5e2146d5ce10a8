"""Values, normal forms and tiles of HLO shardings, against brute force and against XLA's own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib import _hlo  # type: ignore[attr-defined]
from support.dialect_strategies import MAX_DEVICES, ROLES, bodies, expand, named_shardings, placement, tilings

from gspmd.dialect.device_order import Iota, compact, identity
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.hlo_notation import parse_hlo_sharding, print_hlo_sharding
from gspmd.dialect.hlo_sharding import (
    MANUAL,
    REPLICATED,
    UNKNOWN,
    UNREDUCED,
    HloSharding,
    Maximal,
    Metadata,
    Named,
    Role,
    ShardGroup,
    Tiled,
    TupleOf,
    Whole,
    normal_form,
)

parse = parse_hlo_sharding


def reference(sharding: HloSharding) -> Any:
    """XLA's value of the same text."""
    return _hlo.HloSharding.from_string(print_hlo_sharding(sharding))


# ---- equality -------------------------------------------------------------------------------------


@given(tilings())
def test_lists_equal_their_iotas(tiled: Tiled) -> None:
    written = HloSharding(Tiled(tiled.dims, expand(tiled.order), tiled.subgroups))
    assert HloSharding(tiled) == written
    assert hash(HloSharding(tiled)) == hash(written)


@given(named_shardings())
def test_named_axes_equal_tiles(named: Named) -> None:
    sharding = HloSharding(named)
    assert sharding == HloSharding(named.tiled())
    assert hash(sharding) == hash(HloSharding(named.tiled()))
    of_xla = reference(sharding).v3_to_v2_sharding()
    assert sharding == parse(str(of_xla))
    if named.sharding.mesh.size > 1:
        assert sharding.normal(keep_numbers=True).body == with_iota(parse(str(of_xla)).body)


@given(st.integers(1, MAX_DEVICES).flatmap(lambda n: st.tuples(bodies(n), bodies(n))))
def test_equal_means_equal_placement(pair: tuple[Any, Any]) -> None:
    assert_equal_iff_same_placement(*pair)


@given(st.data())
def test_renumbered_members_are_equal_and_moved_devices_are_not(data: st.DataObject) -> None:
    tiled = data.draw(tilings(data.draw(st.integers(2, 12))))
    ids = np.array(expand(tiled.order)).reshape(tiled.dims)
    axis = data.draw(st.integers(0, len(tiled.dims) - 1))
    within = data.draw(st.permutations(range(tiled.dims[axis])))
    moved = Tiled(tiled.dims, tuple(np.take(ids, within, axis).reshape(-1).tolist()), tiled.subgroups)
    assert_equal_iff_same_placement(tiled, moved)
    if axis >= tiled.rank:
        assert HloSharding(tiled) == HloSharding(moved)
    a, b = data.draw(st.tuples(*[st.integers(0, ids.size - 1)] * 2))
    swapped = list(expand(tiled.order))
    swapped[a], swapped[b] = swapped[b], swapped[a]
    assert_equal_iff_same_placement(tiled, Tiled(tiled.dims, tuple(swapped), tiled.subgroups))


@given(st.data())
def test_subgroups_may_be_listed_in_any_order(data: st.DataObject) -> None:
    tiled = data.draw(tilings())
    ids = np.array(expand(tiled.order)).reshape(tiled.dims)
    trailing = data.draw(st.permutations(range(tiled.rank, len(tiled.dims))))
    axes = [*range(tiled.rank), *trailing]
    roles = tuple(tiled.subgroups[i - tiled.rank] for i in trailing)
    moved = Tiled(tuple(tiled.dims[i] for i in axes), tuple(ids.transpose(axes).reshape(-1).tolist()), roles)
    # members of several subgroups of one role are numbered by all of them, so their order counts not
    assert HloSharding(tiled) == HloSharding(moved)


def assert_equal_iff_same_placement(one: Any, other: Any) -> None:
    same = meaning(one) == meaning(other)
    assert (HloSharding(one) == HloSharding(other)) == same
    if same:
        assert hash(HloSharding(one)) == hash(HloSharding(other))


def meaning(body: Any) -> Any:
    if isinstance(body, Whole):
        return (body.role,)
    return placement(body.tiled() if isinstance(body, Named) else body)


def test_what_counts_in_comparisons() -> None:
    text = "{devices=[2,2]<=[4]}"
    assert parse(text) == parse('{devices=[2,2]<=[4] metadata={op_name="a"}}')
    assert parse(text) != parse("{devices=[2,2]<=[4] shard_as 1}")
    assert parse("{replicated shard_as 1}") != parse("{replicated shard_like 1}")
    assert parse("{mesh['a'=2], [{'a', ?}]}") == parse("{mesh['a'=2], [{'a'}]}") == parse("{devices=[2]<=[2]}")
    assert parse("{mesh['a'=4], [{'a':(1)2}, {}]}") == parse("{mesh['x'=2,'y'=2], [{'x'}, {}]}")
    assert parse("{maximal_mesh[device_id=5]}") == parse("{maximal device=5}") != parse("{maximal device=4}")
    assert parse("{single_device[device_id=5]}") == parse("{maximal device=5}")
    assert parse("{{replicated}}") != parse("{replicated}")
    assert parse("{{mesh['a'=2], [{'a'}]}, {manual}}") == parse("{{devices=[2]0,1}, {manual}}")
    assert REPLICATED != MANUAL
    assert REPLICATED != UNKNOWN
    assert UNREDUCED != MANUAL
    assert REPLICATED != "replicated"


# ---- normal form ----------------------------------------------------------------------------------


@given(bodies())
def test_the_normal_form_is_stable(body: Any) -> None:
    normal = normal_form(body)
    assert normal_form(normal) == normal
    assert meaning(normal) == meaning(body)
    assert HloSharding(body).normal() == HloSharding(body)
    if isinstance(normal, Tiled):
        order = [Role.MAXIMAL, Role.MANUAL, Role.UNREDUCED, Role.REPLICATED]
        ranks = [order.index(role) for role in normal.subgroups]
        assert ranks == sorted(set(ranks))
        assert all(n > 1 for n in normal.dims[normal.rank :])


@given(tilings(roles=(*ROLES, Role.MAXIMAL)).filter(lambda t: math.prod(t.dims) > 1))
def test_normal_forms_that_keep_numbers_are_those_of_xla(tiled: Tiled) -> None:
    of_xla = parse(str(reference(HloSharding(tiled))))
    of_xla = parse(str(reference(of_xla)))  # what XLA does not see at first, it sees then
    assert HloSharding(tiled).normal(keep_numbers=True).body == with_iota(of_xla.body)


@given(tilings().filter(lambda t: math.prod(t.dims) > 1))
def test_xla_has_nothing_to_change_in_a_normal_form(tiled: Tiled) -> None:
    ours = HloSharding(tiled).normal()
    assert ours == parse(str(reference(HloSharding(tiled))))
    assert str(reference(ours)) == print_hlo_sharding(ours)


def with_iota(body: Any) -> Any:
    """The body with a list that is an iota as one: XLA leaves lists as they are."""
    return Tiled(body.dims, compact(body.order), body.subgroups) if isinstance(body, Tiled) else body


@given(st.integers(2, MAX_DEVICES).flatmap(lambda n: st.tuples(tilings(n), tilings(n))))
def test_what_xla_calls_equal_is_equal(pair: tuple[Tiled, Tiled]) -> None:
    one, other = map(HloSharding, pair)
    if reference(one) == reference(other):
        assert one == other


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("{devices=[2,2]0,2,1,3}", "{devices=[2,2]<=[2,2]T(1,0)}"),
        ("{devices=[1,4]<=[4] last_tile_dim_replicate}", "{replicated}"),
        ("{devices=[4,1]<=[4] last_tile_dim_replicate}", "{devices=[4]<=[4]}"),
        ("{devices=[2,2]1,0,3,2 last_tile_dim_replicate}", "{devices=[2,2]<=[4] last_tile_dim_replicate}"),
        ("{devices=[2,2]<=[4] last_tile_dims={replicated}}", "{devices=[2,2]<=[4] last_tile_dim_replicate}"),
        (
            "{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
            "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}",
        ),
        (
            "{devices=[2,2,2,2]<=[16] last_tile_dims={manual, replicated, manual}}",
            "{devices=[2,4,2]<=[4,2,2]T(0,2,1) last_tile_dims={manual, replicated}}",
        ),
        (
            "{devices=[2,6]<=[4,3]T(1,0) last_tile_dim_replicate}",
            "{devices=[2,6]0,1,3,4,6,9,2,5,7,8,10,11 last_tile_dim_replicate}",
        ),
        ("{devices=[1,8,1]<=[8] last_tile_dims={manual, replicated}}", "{manual}"),
        ("{devices=[1,8]<=[8] last_tile_dims={unreduced}}", "{unreduced}"),
        ("{devices=[1,2]<=[2] last_tile_dims={maximal}}", "{devices=[1,2]<=[2] last_tile_dims={maximal}}"),
        ("{devices=[1,2]1,0 last_tile_dims={maximal}}", "{devices=[1,2]1,0 last_tile_dims={maximal}}"),
        ("{devices=[1,1]<=[1]}", "{replicated}"),
        ("{devices=[1,1]<=[1] last_tile_dims={manual}}", "{manual}"),
        ("{devices=[1,1]<=[1] last_tile_dims={maximal}}", "{replicated}"),
        ("{devices=[1,1,1]<=[1] last_tile_dims={manual, unreduced}}", "{replicated}"),
        ("{mesh['a'=1], unreduced}", "{unreduced}"),
        ("{mesh['a'=2,'b'=4], [{'b'}, {}], manual={'a'}}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dims={manual}}"),
        ("{mesh[], [{}]}", "{replicated}"),
    ],
)
def test_known_normal_forms(text: str, normal: str) -> None:
    assert print_hlo_sharding(parse(text).normal()) == normal
    assert parse(text) == parse(normal)


def test_a_large_iota_stays_one() -> None:
    text = "{devices=[1048576,16,65536]<=[65536,16777216]T(1,0) last_tile_dims={manual,replicated}}"
    same = "{devices=[1048576,65536,16]<=[65536,1048576,16]T(1,0,2) last_tile_dims={replicated,manual}}"
    assert parse(text) == parse(same)
    assert parse(text).shard_of(3 * 16, 1) == (3,)
    assert parse("{mesh['a'=1048576,'b'=1048576], [{'b'}, {}]}") == parse(
        "{devices=[1048576,1,1048576]<=[1048576,1048576]T(1,0) last_tile_dim_replicate}"
    )


# ---- tiles ----------------------------------------------------------------------------------------


@given(st.data())
def test_tiles_are_where_the_devices_stand(data: st.DataObject) -> None:
    body = data.draw(bodies())
    sharding = HloSharding(body)
    tiled = body.tiled() if isinstance(body, Named) else body
    if isinstance(tiled, Whole):
        assert sharding.shard_of(0, 2) == (0, 0)
        assert sharding.tile_shape((5, 7)) == (5, 7)
        return
    ids = np.array(expand(tiled.order)).reshape(tiled.dims)
    for index in np.ndindex(*tiled.dims):
        assert sharding.shard_of(int(ids[index]), tiled.rank) == index[: tiled.rank]


def part(sharding: HloSharding, shape: Sequence[int], device: int) -> list[tuple[int, int]]:
    """Where what a device holds begins and ends in each dimension; the same for what is empty."""
    index, tile = sharding.shard_of(device, len(shape)), sharding.tile_shape(shape)
    return [(min(i * t, n), min((i + 1) * t, n)) for i, t, n in zip(index, tile, shape, strict=True)]


@given(tilings(), st.data())
def test_tiles_cover_the_shape(tiled: Tiled, data: st.DataObject) -> None:
    sharding = HloSharding(tiled)
    shape = tuple(data.draw(st.integers(0, 7)) for _ in range(min(tiled.rank, 3))) + (1,) * (tiled.rank - 3)
    tile = sharding.tile_shape(shape)
    assert tile == tuple(math.ceil(n / k) for n, k in zip(shape, tiled.shard_counts, strict=True))
    boxes: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for device in range(math.prod(tiled.dims)):
        held = part(sharding, shape, device)
        assert boxes.setdefault(sharding.shard_of(device, tiled.rank), held) == held
        assert all(0 <= a <= b <= n and b - a <= t for (a, b), n, t in zip(held, shape, tile, strict=True))
    seen = np.zeros(shape, int)
    for held in boxes.values():
        seen[tuple(slice(a, b) for a, b in held)] += 1
    assert (seen == 1).all()


@given(tilings(roles=(Role.REPLICATED,)).filter(lambda t: t.rank > 0 and math.prod(t.shard_counts) > 1))
def test_tile_shapes_are_those_of_xla(tiled: Tiled) -> None:
    shape = tuple(range(3, 3 + tiled.rank))
    tile = reference(HloSharding(tiled)).tile(_hlo.Shape.array_shape(_hlo.PrimitiveType.F32, shape, None, None))
    assert tuple(tile.dimensions()) == HloSharding(tiled).tile_shape(shape)


def test_uneven_tiles_may_be_short_or_empty() -> None:
    sharding = parse("{devices=[4]<=[4]}")
    assert sharding.tile_shape((5,)) == (2,)
    assert [part(sharding, (5,), d) for d in range(4)] == [[(0, 2)], [(2, 4)], [(4, 5)], [(5, 5)]]


def test_a_maximal_value_is_on_its_device_only() -> None:
    sharding = parse("{maximal device=3}")
    assert sharding.tile_shape((4, 4)) == (4, 4)
    assert sharding.shard_of(3, 2) == (0, 0)
    with pytest.raises(AnnotationError, match="device 2 has no part"):
        sharding.shard_of(2, 2)


# ---- checks ---------------------------------------------------------------------------------------


def test_shardings_are_checked_against_their_value() -> None:
    tiled = parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
    tiled.check(2, 4)
    with pytest.raises(AnnotationError, match="2 tile dims does not fit a tensor of rank 3"):
        tiled.check(3, 4)
    with pytest.raises(AnnotationError, match="over 4 devices in a program of 8"):
        tiled.check(2, 8)
    with pytest.raises(AnnotationError, match="rank 1"):
        parse("{mesh['a'=4], [{'a'}, {}]}").check(1, 4)
    with pytest.raises(AnnotationError, match="device 4 does not exist in a program of 4"):
        parse("{maximal device=4}").check(1, 4)
    with pytest.raises(AnnotationError, match="one for each leaf"):
        parse("{{replicated}}").check(1, 4)
    with pytest.raises(AnnotationError, match="device 4 is not one of"):
        tiled.shard_of(4, 2)
    for text in ("{mesh['a'=4], replicated}", "{mesh[], replicated}", "{replicated}", "{manual}", "{maximal device=1}"):
        for rank in range(4):
            parse(text).check(rank, 4)


@pytest.mark.parametrize(
    ("dims", "order", "subgroups", "message"),
    [
        ((2, 2), (0, 1, 2), (), "need 4 devices but 3 are given"),
        ((2, 2), identity(8), (), "need 4 devices but 8 are given"),
        ((2,), (0, 0), (), "device 0 is listed twice and device 1 is missing"),
        ((2,), (0, 2), (), "device 2 is out of range"),
        ((2, 0), (), (), "of at least 1"),
        ((), identity(1), (), "must be one or more"),
        ((2,), identity(2), (Role.MANUAL, Role.REPLICATED), "2 subgroups do not fit 1"),
        ((2,), identity(2), (Role.UNKNOWN,), "role of a subgroup"),
    ],
)
def test_tilings_that_make_no_sense_are_refused(
    dims: tuple[int, ...], order: Any, subgroups: tuple[Role, ...], message: str
) -> None:
    with pytest.raises(AnnotationError, match=message):
        Tiled(dims, order, subgroups)


def test_values_that_make_no_sense_are_refused() -> None:
    named = parse("{mesh['a'=2], [{'a'}]}").body
    for make in (
        lambda: Whole(Role.MAXIMAL),
        lambda: Maximal(-1),
        lambda: HloSharding(named, ShardGroup(1)),
        lambda: HloSharding(TupleOf(()), ShardGroup(1)),
        lambda: HloSharding(TupleOf(()), None, (Metadata(),)),
        lambda: TupleOf((HloSharding(TupleOf(())),)),
        lambda: Named(named.sharding, identity(4)),  # type: ignore[union-attr]
        lambda: Named(named.sharding, (1, 1)),  # type: ignore[union-attr]
    ):
        with pytest.raises(AnnotationError):
            make()


def test_leaves_of_tuples() -> None:
    pair = parse("{{replicated}, {manual}}")
    assert pair.is_tuple
    assert pair.leaves(2) == (REPLICATED, MANUAL)
    assert MANUAL.leaves(3) == (MANUAL,) * 3
    assert parse("{}").leaves(0) == ()
    assert parse("{{replicated}}").leaves(0) == ()
    with pytest.raises(AnnotationError, match="sharding of 2 values does not fit 3"):
        pair.leaves(3)


def test_every_small_tiling_agrees_with_xla() -> None:
    """All shapes and transpositions of 8 devices, exhaustively."""
    shapes = [s for n in (1, 2, 3, 4) for s in itertools.product((1, 2, 4, 8), repeat=n) if math.prod(s) == 8]
    iotas_of_8 = {Iota((2, 2, 2), perm) for perm in itertools.permutations(range(3))} | {identity(8)}
    for dims, order in itertools.product(shapes, iotas_of_8):
        for subgroups in ((), (Role.REPLICATED,), (Role.MANUAL, Role.REPLICATED)):
            if len(subgroups) > len(dims):
                continue
            sharding = HloSharding(Tiled(dims, order, subgroups))
            assert sharding == parse(str(reference(sharding)))
            if Role.MANUAL not in subgroups:
                assert print_hlo_sharding(sharding.normal()) == str(reference(sharding))
