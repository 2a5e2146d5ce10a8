"""HLO shardings to mesh axes and back: device by device, and inverse up to the normal form."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.dialect_strategies import (
    MAX_DEVICES,
    bodies,
    classes,
    device_at,
    expand,
    index_along,
    iotas,
    meshes,
    named_shardings,
    permutations,
    placement,
    tensor_shardings,
    tilings,
)

from gspmd.dialect import device_order
from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.common_mesh import express, order_of, unify_meshes
from gspmd.dialect.device_order import Iota
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.hlo_convert import common_mesh, to_hlo_sharding, to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding, print_hlo_sharding
from gspmd.dialect.hlo_sharding import REPLICATED, UNKNOWN, HloSharding, Named, Role, Tiled, TupleOf, Whole, tile
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, parse_sharding, print_mesh, print_sharding
from gspmd.dialect.sharding import CLOSED, OPEN, DimSharding, TensorSharding

parse = parse_hlo_sharding
_T = TypeVar("_T")


def meaning_on_mesh(sharding: TensorSharding) -> Any:
    """What a sharding says in terms of devices, as `placement` says it of tiles."""
    mesh = sharding.mesh
    shards: dict[int, tuple[int, ...]] = {}
    manual: dict[int, tuple[int, ...]] = {}
    unreduced: dict[int, tuple[int, ...]] = {}
    for position in range(mesh.size):
        device = device_at(mesh, position)
        shards[device] = tile_at(sharding, position)
        manual[device] = (index_along(mesh, sharding.manual, position),)
        unreduced[device] = (index_along(mesh, sharding.unreduced, position),)
    return sharding.shard_counts(), tuple(sorted(shards.items())), (classes(manual), classes(unreduced))


def tile_at(sharding: TensorSharding, position: int) -> tuple[int, ...]:
    """The index of the shard on the device at a position of the mesh."""
    return tuple(index_along(sharding.mesh, axes, position) for axes in sharding.dim_axes())


def assert_agree(hlo: HloSharding, sharding: TensorSharding) -> None:
    """Device by device the same tile, and the same devices together in every role."""
    mesh, rank = sharding.mesh, sharding.rank
    for position in range(mesh.size):
        assert hlo.shard_of(device_at(mesh, position), rank) == tile_at(sharding, position)
    if isinstance(hlo.body, Whole):
        assert not any(sharding.dim_axes())
        assert sharding.manual == (mesh.all_axes() if hlo.body.role is Role.MANUAL else ())
        assert sharding.unreduced == (mesh.all_axes() if hlo.body.role is Role.UNREDUCED else ())
        return
    tiled = hlo.body.tiled() if isinstance(hlo.body, Named) else hlo.body
    assert isinstance(tiled, Tiled)
    expected = placement(tiled)
    if len(expected) == 1:
        assert_agree(HloSharding(Whole(expected[0])), sharding)
    else:
        assert meaning_on_mesh(sharding) == expected


def rank_of(hlo: HloSharding) -> int:
    match hlo.body:
        case Tiled() as tiled:
            return tiled.rank
        case Named(sharding=sharding):
            return sharding.rank
    return 2


def outcome(compute: Callable[[], _T]) -> tuple[str, _T | None]:
    """The message of a refusal, or what came out."""
    try:
        return "", compute()
    except Unsupported as error:
        return error.message, None


def comes_back(hlo: HloSharding, count: int) -> bool:
    """All but what is only open, and roles where there is one device."""
    return hlo != UNKNOWN and (count > 1 or hlo == REPLICATED)


# ---- one sharding ---------------------------------------------------------------------------------


@given(st.integers(1, MAX_DEVICES).flatmap(lambda n: st.tuples(st.just(n), bodies(n))))
def test_any_sharding_alone_goes_to_a_mesh_and_back(case: tuple[int, Any]) -> None:
    count, body = case
    hlo = HloSharding(body)
    mesh = common_mesh([hlo], count)
    assert mesh.size == count
    sharding = to_tensor_sharding(hlo, rank_of(hlo), mesh)
    assert_agree(hlo, sharding)
    if comes_back(hlo, count):
        assert to_hlo_sharding(sharding) == hlo
        assert print_hlo_sharding(to_hlo_sharding(sharding).normal()) == print_hlo_sharding(hlo.normal())


@given(tensor_shardings())
def test_any_sharding_in_axes_goes_to_hlo_and_back(sharding: TensorSharding) -> None:
    hlo = to_hlo_sharding(sharding)
    assert_agree(hlo, sharding)
    assert print_hlo_sharding(hlo) == print_hlo_sharding(hlo.normal(keep_numbers=True))
    again = to_tensor_sharding(hlo, sharding.rank, sharding.mesh)
    assert meaning_on_mesh(again) == meaning_on_mesh(sharding)
    if all(size > 1 for _, size in sharding.mesh.axes):
        assert again == sharding.closed()


@given(named_shardings())
def test_named_shardings_keep_all_they_say_on_their_own_mesh(named: Named) -> None:
    hlo, own = HloSharding(named), named.sharding
    mesh = common_mesh([hlo], own.mesh.size)
    sharding = to_tensor_sharding(hlo, own.rank, mesh)
    assert mesh.axes == tuple((name, size) for name, size in own.mesh.axes if size > 1)
    assert [d.is_open for d in sharding.dims] == [d.is_open for d in own.dims]
    assert sharding == TensorSharding(mesh, own.dims, own.replicated, own.unreduced, own.manual)
    assert order_of(mesh) in (named.order, expand(named.order))


# ---- several --------------------------------------------------------------------------------------


def nests(tiled: Tiled) -> bool:
    """Whether the dims of an iota end where its parts can be cut."""
    return isinstance(tiled.order, Iota) and device_order.split(tiled.order, tiled.dims) is not None


@given(
    st.integers(1, MAX_DEVICES).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(iotas(n).flatmap(lambda i: tilings(n, i)), max_size=5))
    )
)
def test_iotas_always_have_a_common_mesh(case: tuple[int, list[Tiled]]) -> None:
    count, found = case
    shardings = [HloSharding(tiled) for tiled in found if nests(tiled)]
    mesh = common_mesh([HloSharding(TupleOf(tuple(shardings)))], count)
    assert mesh.size == count
    assert not mesh.device_ids
    assert [name for name, _ in mesh.axes] == [f"axis_{i}" for i in range(len(mesh.axes))]
    for hlo in shardings:
        sharding = to_tensor_sharding(hlo, rank_of(hlo), mesh)
        assert_agree(hlo, sharding)
        if comes_back(hlo, count):
            assert to_hlo_sharding(sharding) == hlo


@given(st.data())
def test_any_list_of_shardings_agrees_or_is_refused(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([4, 6, 8, 12]))
    shardings = [HloSharding(body) for body in data.draw(st.lists(bodies(count), max_size=4))]
    refusal, mesh = outcome(lambda: common_mesh(shardings, count))
    if mesh is None:
        assert "do not factor into the axes of one mesh" in refusal
        return
    for hlo in shardings:
        sharding = to_tensor_sharding(hlo, rank_of(hlo), mesh)
        assert_agree(hlo, sharding)
        if comes_back(hlo, count):
            assert to_hlo_sharding(sharding) == hlo


@given(st.data())
def test_shardings_of_one_permuted_mesh_have_a_common_mesh(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([4, 8, 12, 16, 24]))
    ids = data.draw(permutations(count))
    mesh = data.draw(meshes(count, ids=False))
    mesh = Mesh(mesh.axes, ids)

    # whole axes only, as parts of one axis may be cut in ways that exclude each other
    def whole_axes() -> TensorSharding:
        homes: list[list[Axis]] = [[], [], [], []]
        for axis in data.draw(st.permutations(mesh.all_axes())):
            homes[data.draw(st.integers(0, 3))].append(axis)
        dims = (DimSharding(tuple(homes[0])), DimSharding(tuple(homes[1])))
        return TensorSharding(mesh, dims, unreduced=mesh.sorted(tuple(homes[2])))

    sources = [whole_axes() for _ in range(data.draw(st.integers(1, 4)))]
    # as frameworks write them, with and without their replicas sorted
    shardings = [HloSharding(tile(source, ids)) for source in sources]
    if data.draw(st.booleans()):
        shardings = [hlo.normal(keep_numbers=True) for hlo in shardings]
    found = common_mesh(shardings, count)
    for hlo, source in zip(shardings, sources, strict=True):
        sharding = to_tensor_sharding(hlo, 2, found)
        assert_agree(hlo, sharding)
        assert meaning_on_mesh(sharding) == meaning_on_mesh(source)


def test_axes_are_cut_where_any_sharding_cuts() -> None:
    texts = [
        "{devices=[2,4]<=[8]}",
        "{devices=[4,2]<=[8]}",
        "{devices=[4,2]<=[2,4]T(1,0)}",
        "{manual}",
        "{maximal device=3}",
    ]
    shardings = [parse(text) for text in texts]
    mesh = common_mesh(shardings, 8)
    assert print_mesh(mesh) == '<["axis_0"=2, "axis_1"=2, "axis_2"=2]>'
    printed = [print_sharding(to_tensor_sharding(s, 2, mesh)) for s in shardings[:4]]
    assert printed == [
        '<@mesh, [{"axis_0"}, {"axis_1", "axis_2"}]>',
        '<@mesh, [{"axis_0", "axis_1"}, {"axis_2"}]>',
        '<@mesh, [{"axis_1", "axis_2"}, {"axis_0"}]>',
        '<@mesh, [{}, {}], manual={"axis_0", "axis_1", "axis_2"}>',
    ]
    assert print_mesh(common_mesh([], 8)) == '<["axis_0"=8]>'
    assert print_mesh(common_mesh([parse("{replicated}")], 1)) == '<["axis_0"=1]>'


def test_cuts_that_exclude_each_other_become_sub_axes() -> None:
    shardings = [parse("{devices=[2,6]<=[12]}"), parse("{devices=[3,4]<=[12]}")]
    mesh = common_mesh(shardings, 12)
    assert print_mesh(mesh) == '<["axis_0"=12]>'
    printed = [print_sharding(to_tensor_sharding(s, 2, mesh)) for s in shardings]
    assert printed == [
        '<@mesh, [{"axis_0":(1)2}, {"axis_0":(2)6}]>',
        '<@mesh, [{"axis_0":(1)3}, {"axis_0":(3)4}]>',
    ]


def test_the_mesh_of_named_shardings_is_kept() -> None:
    named = parse("{mesh['data'=2,'unit'=1,'model'=4], device_ids=([4,2]T(1,0)), [{'model', ?}, {}]}")
    iota = parse("{devices=[2,4]<=[4,2]T(1,0)}")
    mesh = common_mesh([iota, named], 8)
    assert mesh == Mesh((("data", 2), ("model", 4)), (0, 2, 4, 6, 1, 3, 5, 7))
    assert print_sharding(to_tensor_sharding(named, 2, mesh)) == '<@mesh, [{"model", ?}, {}]>'
    assert print_sharding(to_tensor_sharding(iota, 2, mesh)) == '<@mesh, [{"data"}, {"model"}]>'
    # a sharding that cuts elsewhere ends that
    cutting = parse("{devices=[2,4]<=[2,2,2]T(1,0,2)}")
    mesh = common_mesh([named, cutting], 8)
    assert print_mesh(mesh) == '<["data"=2, "model"=4], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]>'
    assert print_sharding(to_tensor_sharding(cutting, 2, mesh)) == '<@mesh, [{"model":(2)2}, {"model":(1)2, "data"}]>'
    other = parse("{devices=[4,3]<=[12]}")
    mesh = common_mesh([parse("{mesh['a'=3,'b'=4], [{'b'}]}"), other], 12)
    assert print_mesh(mesh) == '<["axis_0"=12]>'


def test_a_named_sharding_may_cut_its_own_axes() -> None:
    named = parse("{mesh['a'=12], [{'a':(1)4}, {}]}")
    cutting = parse("{devices=[6,2]<=[12]}")
    mesh = common_mesh([named, cutting], 12)
    for hlo in (named, cutting):
        assert_agree(hlo, to_tensor_sharding(hlo, 2, mesh))


def test_explicit_replication_cuts_axes_too() -> None:
    named = parse("{mesh['a'=12], [{}, {}], replicated={'a':(3)4}}")
    mesh = common_mesh([parse("{devices=[6,2]<=[12]}"), named, parse("{mesh['b'=3,'c'=4], [{'c'}, {}]}")], 12)
    assert print_sharding(to_tensor_sharding(named, 2, mesh)) == '<@mesh, [{}, {}], replicated={"a":(3)4}>'
    with pytest.raises(Unsupported, match="do not factor into the axes of one mesh"):
        common_mesh([parse("{devices=[2,2,3]<=[2,2,3]T(0,2,1)}"), named], 12)


def test_one_permutation_becomes_device_ids() -> None:
    shardings = [parse("{devices=[2,2]0,3,1,2}"), parse("{devices=[2,1,2]0,3,1,2 last_tile_dim_replicate}")]
    mesh = common_mesh(shardings, 4)
    assert print_mesh(mesh) == '<["axis_0"=2, "axis_1"=2], device_ids=[0, 3, 1, 2]>'
    assert print_sharding(to_tensor_sharding(shardings[1], 2, mesh)) == '<@mesh, [{"axis_0"}, {}]>'
    assert print_hlo_sharding(to_hlo_sharding(to_tensor_sharding(shardings[0], 2, mesh))) == "{devices=[2,2]0,3,1,2}"


def test_numbers_in_subgroups_give_way_to_shards() -> None:
    partial = parse("{devices=[4,3]0,1,2,3,5,4,6,8,7,9,11,10 last_tile_dims={unreduced}}")
    divided = parse("{devices=[12]0,2,1,3,4,5,6,7,8,9,10,11}")
    mesh = common_mesh([partial, divided], 12)
    assert print_mesh(mesh) == '<["axis_0"=4, "axis_1"=3], device_ids=[0, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]>'
    for hlo in (partial, divided):
        assert_agree(hlo, to_tensor_sharding(hlo, 1, mesh))


def test_orders_that_do_not_factor_together_are_named() -> None:
    shardings = [parse(t) for t in ("{devices=[2,2]<=[4]}", "{devices=[4]0,1,3,2}", "{replicated}")]
    with pytest.raises(Unsupported, match=r"'\{devices=\[4\]0,1,3,2\}' and '\{devices=\[2,2\]<=\[4\]\}' do not"):
        common_mesh(shardings, 4)
    long = [HloSharding(Tiled((64,), tuple(int(i) for i in np.roll(range(64), k)))) for k in (1, 2)]
    with pytest.raises(Unsupported) as caught:
        common_mesh(long, 64)
    assert len(caught.value.message) < 300


def test_a_program_has_one_number_of_devices() -> None:
    with pytest.raises(AnnotationError, match="over 4 devices in a program of 8"):
        common_mesh([parse("{devices=[4]<=[4]}")], 8)
    with pytest.raises(AnnotationError, match="over 4 devices in a program of 8"):
        to_tensor_sharding(parse("{devices=[4]<=[4]}"), 1, Mesh((("x", 8),)))


# ---- details of the conversion --------------------------------------------------------------------

MESH = Mesh((("x", 2), ("y", 4)))


@pytest.mark.parametrize(
    ("text", "open_dims", "expected"),
    [
        ("{replicated}", (), "[{}, {}]"),
        ("{replicated}", (1,), "[{}, {?}]"),
        ("{unknown}", (), "[{?}, {?}]"),
        ("{manual}", (), '[{}, {}], manual={"x", "y"}'),
        ("{unreduced}", (), '[{}, {}], unreduced={"x", "y"}'),
        ("{devices=[1,1,8]<=[8] last_tile_dim_replicate}", (0,), "[{?}, {}]"),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", (0,), '[{"x", ?}, {}]'),
        ("{devices=[2,1,4]<=[8] last_tile_dims={manual}}", (), '[{"x"}, {}], manual={"y"}'),
        ("{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}", (), '[{}, {}], manual={"y"}'),
        ("{devices=[1,1,2,2,2]<=[8] last_tile_dims={replicated, manual, unreduced}}", (), None),
        ("{mesh['y'=4,'x'=2], device_ids=([2,4]T(1,0)), [{'x'}, {'y':(1)2, ?}], replicated={'y':(2)2}}", (), None),
        ("{mesh['x'=2,'y'=4], manual}", (1,), '[{}, {?}], manual={"x", "y"}'),
        ("{mesh['a'=8], [{'a'}, {}]}", (), '[{"x", "y"}, {}]'),
        ("{mesh[], [{?}, {}]}", (), "[{?}, {}]"),
    ],
)
def test_known_conversions(text: str, open_dims: tuple[int, ...], expected: str | None) -> None:
    known = {
        "{devices=[1,1,2,2,2]<=[8] last_tile_dims={replicated, manual, unreduced}}": (
            '[{}, {}], unreduced={"y":(2)2}, manual={"y":(1)2}'
        ),
        "{mesh['y'=4,'x'=2], device_ids=([2,4]T(1,0)), [{'x'}, {'y':(1)2, ?}], replicated={'y':(2)2}}": (
            '[{"x"}, {"y":(1)2, ?}], replicated={"y":(2)2}'
        ),
    }
    sharding = to_tensor_sharding(parse(text), 2, MESH, open_dims)
    assert print_sharding(sharding) == f"<@mesh, {expected or known[text]}>"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{maximal device=3}", Unsupported, "keeps a value on one device"),
        ("{maximal_mesh[device_id=3]}", Unsupported, "keeps a value on one device"),
        ("{devices=[4,2]<=[8] last_tile_dims={maximal}}", Unsupported, "rank 2|one device"),
        ("{maximal device=8}", AnnotationError, "does not exist"),
        ("{{replicated}}", AnnotationError, "one for each leaf"),
        ("{devices=[8]<=[8]}", AnnotationError, "rank 2"),
        ("{devices=[8,1]0,1,2,3,4,5,7,6}", Unsupported, 'does not factor over the axes of mesh "@mesh"'),
        ("{mesh['a'=8], device_ids=(0,1,2,3,4,5,7,6), [{'a'}, {}]}", Unsupported, "not parts of axes"),
    ],
)
def test_what_does_not_convert_is_refused(text: str, error: type[Exception], message: str) -> None:
    rank = 1 if "last_tile_dims" in text else 2
    with pytest.raises(error, match=message):
        to_tensor_sharding(parse(text), rank, MESH)


def test_open_dims_must_exist() -> None:
    with pytest.raises(AnnotationError, match="open dimension 2 does not exist in a tensor of rank 2"):
        to_tensor_sharding(parse("{replicated}"), 2, MESH, (2,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<@mesh, [{}, {?}p1]>", "{replicated}"),
        ('<@mesh, [{"y"}, {}], replicated={"x"}>', "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"),
        ('<@mesh, [{"x", "y"}]>', "{devices=[8]<=[8]}"),
        ('<@mesh, [{"y":(2)2}]>', "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        ('<@mesh, [], unreduced={"x", "y"}>', "{unreduced}"),
        (
            '<@mesh, [{"x"}], unreduced={"y":(1)2}, manual={"y":(2)2}>',
            "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, unreduced}}",
        ),
        ("<@one, []>", "{maximal device=3}"),
        ('<@permuted, [{"x"}]>', "{devices=[2,2]0,3,1,2 last_tile_dim_replicate}"),
        ('<@transposed, [{"x"}]>', "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"),
    ],
)
def test_known_hlo_shardings(text: str, expected: str) -> None:
    known = {
        "mesh": MESH,
        "one": parse_mesh("<[], device_ids=[3]>"),
        "permuted": parse_mesh('<["x"=2, "y"=2], device_ids=[0, 3, 1, 2]>'),
        "transposed": parse_mesh('<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>'),
    }
    assert print_hlo_sharding(to_hlo_sharding(parse_sharding(text, known))) == expected


def test_very_many_devices_cost_nothing() -> None:
    count = 2**40
    texts = [
        f"{{devices=[1048576,1048576]<=[{count}]}}",
        "{devices=[1048576,1,1048576]<=[1048576,1048576]T(1,0) last_tile_dim_replicate}",
        f"{{devices=[1024,1024,1048576]<=[{count}] last_tile_dims={{manual}}}}",
    ]
    shardings = [parse(text) for text in texts]
    mesh = common_mesh(shardings, count)
    assert print_mesh(mesh) == '<["axis_0"=1024, "axis_1"=1024, "axis_2"=1048576]>'
    for hlo in shardings:
        sharding = to_tensor_sharding(hlo, 2, mesh)
        assert to_hlo_sharding(sharding) == hlo
        assert tile_at(sharding, 12345678901) == hlo.shard_of(12345678901, 2)


# ---- several meshes -------------------------------------------------------------------------------


def assert_same_devices(one: TensorSharding, other: TensorSharding) -> None:
    assert meaning_on_mesh(one) == meaning_on_mesh(other)
    assert [d.is_open for d in one.dims] == [d.is_open for d in other.dims]


@given(st.data())
def test_unified_meshes_place_alike(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 2, 4, 6, 8, 12]))
    found = data.draw(st.lists(meshes(count), min_size=1, max_size=3))
    refusal, unified = outcome(lambda: unify_meshes(found))
    if unified is None:
        assert "do not factor together" in refusal
        assert any(mesh.device_ids for mesh in found)  # those of ascending devices always do
        return
    mesh, translate = unified
    assert mesh.size == count
    assert all(size > 1 for _, size in mesh.axes)
    for one in found:
        # whole axes: their parts may be cut in ways that exclude each other
        for dims in itertools.permutations([(axis,) for axis in one.all_axes()][:2]):
            sharding = TensorSharding(one, tuple(DimSharding(axes, True) for axes in dims))
            moved = translate(sharding)
            assert moved.mesh == mesh
            assert_same_devices(sharding, moved)
        everything = TensorSharding(one, (DimSharding(one.all_axes(), False, 2),)) if count > 1 else None
        if everything:
            assert translate(everything).dims[0].priority == 2


@given(tensor_shardings(), st.data())
def test_a_sharding_expressed_on_another_mesh_places_alike(sharding: TensorSharding, data: st.DataObject) -> None:
    target = data.draw(meshes(sharding.mesh.size))
    refusal, moved = outcome(lambda: express(sharding, target))
    if moved is None:
        assert "not parts of axes" in refusal
        return
    assert_same_devices(sharding, moved)
    split = [i for i, count in enumerate(sharding.shard_counts()) if count > 1]
    assert [moved.dims[i].priority for i in split] == [sharding.dims[i].priority for i in split]
    assert device_sets(moved, moved.replicated) == device_sets(sharding, sharding.replicated)


def device_sets(sharding: TensorSharding, axes: Axes) -> Any:
    """The devices with equal index along some axes."""
    mesh = sharding.mesh
    return classes({device_at(mesh, p): (index_along(mesh, axes, p),) for p in range(mesh.size)})


def test_the_mesh_that_refines_the_others_keeps_its_names() -> None:
    coarse, fine = Mesh((("all", 8),), name="coarse"), Mesh((("x", 2), ("unit", 1), ("y", 4)), name="fine")
    mesh, translate = unify_meshes([fine, coarse])
    assert mesh == Mesh((("x", 2), ("y", 4)))
    assert mesh.name == "fine"
    assert print_sharding(translate(parse_sharding('<@coarse, [{"all"}p1, {?}]>', {"coarse": coarse}))) == (
        '<@fine, [{"x", "y"}p1, {?}]>'
    )
    moved = translate(parse_sharding('<@coarse, [{"all":(4)2}], manual={"all":(1)4}>', {"coarse": coarse}))
    assert print_sharding(moved) == '<@fine, [{"y":(2)2}], manual={"x", "y":(1)2}>'
    unit = translate(parse_sharding('<@fine, [{"unit"}p2, {"x", "unit"}], replicated={"y"}>', {"fine": fine}))
    assert print_sharding(unit) == '<@fine, [{}, {"x"}], replicated={"y"}>'


def test_equal_meshes_of_other_names_map_by_name_or_place() -> None:
    one, same = Mesh((("x", 2), ("y", 4)), name="one"), Mesh((("x", 2), ("y", 4)), name="same")
    renamed, turned = Mesh((("a", 2), ("b", 4)), name="renamed"), Mesh((("y", 4), ("x", 2)), (0, 4, 1, 5, 2, 6, 3, 7))
    mesh, translate = unify_meshes([one, same, renamed, turned])
    assert mesh == one
    for text, source, expected in (
        ('<@m, [{"x"}]>', same, '<@one, [{"x"}]>'),
        ('<@m, [{"b", "a"}]>', renamed, '<@one, [{"y", "x"}]>'),
        ('<@m, [{"y"}, {"x"}]>', turned, '<@one, [{"y"}, {"x"}]>'),
    ):
        assert print_sharding(translate(parse_sharding(text, {"m": source}))) == expected


def test_meshes_that_refine_each_other_make_a_new_one() -> None:
    one, other = Mesh((("x", 2), ("y", 6)), name="one"), Mesh((("a", 4), ("b", 3)), name="other")
    mesh, translate = unify_meshes([one, other])
    assert print_sharding(translate(parse_sharding('<@o, [{"b"}, {"a"}]>', {"o": other}))) == (
        '<@one, [{"y":(2)3}, {"x", "y":(1)2}]>'
    )
    assert mesh == one
    mesh, translate = unify_meshes([Mesh((("x", 2), ("y", 3))), Mesh((("a", 3), ("b", 2)))])
    assert print_mesh(mesh) == '<["axis_0"=6]>'
    moved = translate(parse_sharding('<@m, [{"b"}, {"a"}]>', {"m": Mesh((("a", 3), ("b", 2)))}))
    assert print_sharding(moved) == '<@mesh, [{"axis_0":(3)2}, {"axis_0":(1)3}]>'


def test_placeholders_take_the_place_of_any_mesh() -> None:
    empty = Mesh((), name="empty")
    mesh, translate = unify_meshes([empty, MESH])
    assert mesh == MESH
    assert translate(TensorSharding(empty, (OPEN, CLOSED))) == TensorSharding(MESH, (OPEN, CLOSED))
    mesh, translate = unify_meshes([empty])
    assert translate(TensorSharding(empty, (OPEN,))) == TensorSharding(mesh, (OPEN,))
    maximal = parse_mesh("<[], device_ids=[3]>")
    assert unify_meshes([maximal])[0] == maximal


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (['<["x"=2]>', '<["x"=4]>'], "has 4 devices but"),
        (['<["x"=2]>', "<[], device_ids=[1]>"], "of device 1 only"),
        (['<["x"=5], device_ids=[0, 1, 2, 4, 3]>', '<["x"=5], device_ids=[0, 1, 3, 2, 4]>'], "do not factor together"),
    ],
)
def test_meshes_that_do_not_go_together_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        unify_meshes([parse_mesh(text) for text in texts])
    with pytest.raises(AnnotationError, match="no mesh"):
        unify_meshes([])


@given(st.data())
def test_permuted_meshes_unify_when_one_order_serves_all(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([4, 8, 12]))
    ids = data.draw(permutations(count))
    assume(ids != tuple(range(count)))
    first = Mesh(data.draw(meshes(count, ids=False)).axes, ids)
    order = data.draw(iotas(count))
    second = Mesh(data.draw(meshes(count, ids=False)).axes, tuple(ids[i] for i in expand(order)))
    if device_order.split(order, [size for _, size in second.axes]) is None:
        return  # the second mesh's axes end between the parts
    _mesh, translate = unify_meshes([first, second])
    for one in (first, second):
        for axis in one.all_axes():
            sharding = TensorSharding(one, (DimSharding((axis,)),))
            assert_same_devices(sharding, translate(sharding))
