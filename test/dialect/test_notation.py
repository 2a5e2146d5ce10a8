"""Shardy's notation: reading undoes printing, and jaxlib reads what is printed."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy
from support.dialect_strategies import meshes, tensor_shardings

from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import AnnotationError, Error, ParseError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import (
    parse_axes,
    parse_axis_lists,
    parse_axis_moves,
    parse_axis_name,
    parse_bare_axes,
    parse_mesh,
    parse_names,
    parse_sharding,
    print_axes,
    print_axis_lists,
    print_axis_moves,
    print_axis_name,
    print_mesh,
    print_names,
    print_sharding,
    quote,
    symbol,
    unquote,
)
from gspmd.dialect.sharding import CLOSED, OPEN, DimSharding, TensorSharding

MESH = Mesh((("x", 2), ("y", 4)))
NAMES = ["a", "data", "x-y", "it's", 'say "hi"', "back\\slash", "\\22", "tab\t", "Ä", "", "a b", "🧵"]
names = st.one_of(st.sampled_from(NAMES), st.text(max_size=4))


@functools.cache
def context() -> Any:
    made = ir.Context()
    sdy.register_dialect(made)
    return made


@st.composite
def named_meshes(draw: st.DrawFn) -> Mesh:
    unique = draw(st.lists(names, min_size=7, max_size=7, unique=True))
    mesh = draw(meshes(names=unique))
    return Mesh(mesh.axes, mesh.device_ids, draw(names.filter(bool)))


@given(named_meshes())
def test_a_mesh_is_read_as_printed(mesh: Mesh) -> None:
    text = print_mesh(mesh)
    assert parse_mesh(text) == mesh
    assert parse_mesh("#sdy.mesh" + text, "other").name == "other"
    assert str(ir.Attribute.parse("#sdy.mesh" + text, context())) == "#sdy.mesh" + text


@given(named_meshes().flatmap(tensor_shardings), st.booleans())
def test_a_sharding_is_read_as_printed(sharding: TensorSharding, is_inline: bool) -> None:
    mesh = sharding.mesh
    if is_inline:
        inline = Mesh(mesh.axes, mesh.device_ids, "")
        sharding = TensorSharding(inline, sharding.dims, sharding.replicated, sharding.unreduced, sharding.manual)
    text = print_sharding(sharding)
    assert parse_sharding(text, {mesh.name: mesh}) == sharding
    assert print_sharding(parse_sharding(text, {mesh.name: mesh})) == text
    if is_inline and not sharding.manual:  # only inline meshes tell jaxlib the sizes
        assert str(ir.Attribute.parse("#sdy.sharding" + text, context())) == "#sdy.sharding" + text


@given(tensor_shardings())
def test_axis_lists_are_read_as_printed(sharding: TensorSharding) -> None:
    for axes in (*sharding.dim_axes(), sharding.replicated, sharding.unreduced, sharding.manual):
        assert parse_axes("{" + print_axes(axes, sharding.mesh) + "}", sharding.mesh) == axes


@given(named_meshes().flatmap(tensor_shardings), st.integers(0, 9), st.integers(0, 9))
def test_axes_with_odd_names_are_read_as_printed(sharding: TensorSharding, source: int, target: int) -> None:
    mesh, lists = sharding.mesh, sharding.dim_axes()
    moves = tuple((axes, source, target) for axes in lists)
    assert parse_axis_lists(print_axis_lists(lists, mesh), mesh) == lists
    assert parse_axis_moves(print_axis_moves(moves, mesh), mesh) == moves
    for axes in lists:
        assert parse_bare_axes(print_axes(axes, mesh), mesh) == axes
        assert all(parse_axis_name(print_axis_name(axis, mesh), mesh) == axis for axis in axes)


@given(st.lists(names))
def test_names_are_read_as_printed(written: list[str]) -> None:
    assert parse_names(print_names(written)) == tuple(written)


@pytest.mark.parametrize("text", ["{}", '"x",', '"x" "y"', ',"x"', '"x"}'])
def test_text_that_is_no_bare_list_of_axes_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_bare_axes(text, MESH)


def test_an_axis_is_read_before_a_part_of_one() -> None:
    mesh = Mesh((("x", 4), ("x:(1)2", 2), ("y", 2)))
    assert parse_axis_name("x:(1)2", mesh) == Axis("x:(1)2", 1, 2)
    assert parse_axis_name("x:(2)2", mesh) == Axis("x", 2, 2)
    with pytest.raises(AnnotationError, match=r"'x:\(a\)2' is not a part of an axis"):
        parse_axis_name("x:(a)2", mesh)


@given(st.text())
def test_a_quoted_name_is_read_as_printed(name: str) -> None:
    assert unquote(quote(name)) == name
    assert ir.StringAttr(ir.Attribute.parse(quote(name), context())).value == name


@given(names.filter(bool))
def test_a_symbol_is_read_as_printed(name: str) -> None:
    mesh = Mesh((("x", 2),), name=name)
    printed = print_sharding(TensorSharding(mesh, (CLOSED,)))
    assert printed.startswith(f"<{symbol(name)}, ")
    assert parse_sharding(printed, {name: mesh}).mesh.name == name


def test_every_feature_reads() -> None:
    text = '#sdy.sharding< @mesh,[{"y":(1)2,?}p1 , {}, {?}p0], unreduced = {"x"}, replicated={"y":(2)2} >'
    sharding = parse_sharding(text, {"mesh": MESH})
    assert sharding == TensorSharding(
        MESH,
        (DimSharding((Axis("y", 1, 2),), True, 1), CLOSED, DimSharding((), True, 0)),
        replicated=(Axis("y", 2, 2),),
        unreduced=(Axis("x", 1, 2),),
    )
    assert print_sharding(sharding) == '<@mesh, [{"y":(1)2, ?}p1, {}, {?}p0], replicated={"y":(2)2}, unreduced={"x"}>'
    inline = parse_sharding('<mesh<["z"=2], device_ids=[1, 0]>, [{?}]>', {})
    assert inline == TensorSharding(Mesh((("z", 2),), (1, 0)), (OPEN,))
    assert parse_mesh("<[], device_ids=[3]>").is_maximal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<@mesh>",
        "<@mesh, [{}]",
        "<@mesh, [{}]> x",
        "<@other, [{}]>",
        "<@, [{}]>",
        "<mesh, [{}]>",
        "<@mesh, {}>",
        "<@mesh, [{},]>",
        '<@mesh, [{"x",}]>',
        '<@mesh, [{?, "x"}]>',
        "<@mesh, [{?, ?}]>",
        "<@mesh, [{x}]>",
        '<@mesh, [{"x}]>',
        '<@mesh, [{"x"}p01]>',
        '<@mesh, [{"x"}p]>',
        '<@mesh, [{"x"}p99999999999999999999]>',
        "<@mesh, [{}p1]>",
        '<@mesh, [{"z"}]>',
        '<@mesh, [{"y":(1)4}]>',
        '<@mesh, [{"y":(2)1}]>',
        '<@mesh, [{"y":(2)3}]>',
        '<@mesh, [{"y":(²)2}]>',
        '<@mesh, [{"y":2}]>',
        '<@mesh, [{}], unreduced={"x"}, unreduced={"y"}>',
        "<@mesh, [{}], reduced={}>",
        '<@mesh, [{}], unreduced=max{"x"}>',
    ],
)
def test_text_that_is_no_sharding_is_refused(text: str) -> None:
    with pytest.raises((ParseError, AnnotationError)):
        parse_sharding(text, {"mesh": MESH})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<>",
        '<["x"=2>',
        '<["x"]>',
        '<["x"=2],>',
        '<["x"=2,]>',
        '<["=2]>',
        '<["x"=-1]>',
        '<["x"=2], device_ids=[0]>',
        "<[]",
    ],
)
def test_text_that_is_no_mesh_is_refused(text: str) -> None:
    with pytest.raises((ParseError, AnnotationError)):
        parse_mesh(text)


@given(st.text(alphabet='<>@mesh[]{}"xy?p0123=:(),\\ ²', max_size=30))
def test_any_text_reads_or_is_refused(text: str) -> None:
    for read in (parse_mesh, lambda t: parse_sharding(t, {"mesh": MESH}), lambda t: parse_axes(t, MESH)):
        with contextlib.suppress(Error):
            read(text)


@pytest.mark.parametrize("by", ["max", "min"])
def test_what_is_unreduced_but_by_a_sum_is_refused(by: str) -> None:
    with pytest.raises(ParseError, match=f"nothing else is left unreduced, but found '{by}'"):
        parse_sharding(f'<@mesh, [{{}}], unreduced={by}{{"x"}}>', {"mesh": Mesh((("x", 2),), name="mesh")})


def test_errors_say_where() -> None:
    with pytest.raises(ParseError, match=r"expected '=' but found ']' at offset 5 of '<\[\"x\"\]>'"):
        parse_mesh('<["x"]>')
    with pytest.raises(ParseError, match="the module's meshes are '@mesh'"):
        parse_sharding("<@other, []>", {"mesh": MESH})
    with pytest.raises(ParseError) as caught:
        parse_mesh('<["x"=4096], device_ids=[' + ", ".join(map(str, range(4096))) + "; ]>")
    assert len(caught.value.message) < 400
    assert "found ';'" in caught.value.message
