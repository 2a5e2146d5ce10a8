"""Attributes and meshes of `sdy`, written and read, with names of axes that need quoting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jaxlib.mlir import ir
from support.dialect_strategies import axis_parts, meshes, tensor_shardings

from gspmd.dialect.axes import Axes, canonical
from gspmd.dialect.errors import ParseError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, print_mesh_definition
from gspmd.dialect.rule import PASS_THROUGH, REDUCTION, RuleBuilder
from gspmd.dialect.rule_notation import parse_rule
from gspmd.dialect.sdy_attrs import (
    MESH,
    SdyCodec,
    read_axes,
    read_axis_lists,
    read_axis_moves,
    read_manual_axes,
    read_mesh,
    write_axes,
    write_axis_lists,
    write_axis_moves,
    write_manual_axes,
    write_mesh,
    write_rule,
    write_sharding,
)
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.modules import codec_of, create_mesh, mesh_operations, symbol
from gspmd.transforms.ir.operations import Point
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_module

CONTEXT = new_context()
ODD = ["x{a", 'a"b', "a\\b", "ä x", "x}", "[", "]>", "->", "\\22", "a\nb", "\0", "", "🧵", "it's", "?", "axis_ref<"]
names = st.one_of(st.sampled_from(ODD), st.text(max_size=4))
symbols = names.filter(lambda name: name and "\0" not in name)


@st.composite
def odd_meshes(draw: st.DrawFn) -> Mesh:
    """Meshes whose axes have odd names, and which are called so themselves."""
    mesh = draw(meshes(names=draw(st.lists(names, min_size=7, max_size=7, unique=True))))
    return Mesh(mesh.axes, mesh.device_ids, draw(symbols))


@st.composite
def lists_of_axes(draw: st.DrawFn) -> tuple[Mesh, tuple[Axes, ...]]:
    """A mesh, and lists of parts of its axes, each part once."""
    mesh = draw(odd_meshes())
    lists: list[list[Any]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for part in draw(axis_parts(mesh)):
        draw(st.sampled_from(lists)).append(part)
    return mesh, tuple(map(canonical, lists))


@given(odd_meshes())
def test_a_mesh_is_read_as_written(mesh: Mesh) -> None:
    assert read_mesh(write_mesh(mesh, CONTEXT), mesh.name) == mesh


@given(odd_meshes())
def test_a_mesh_is_found_as_created(mesh: Mesh) -> None:
    module = parse_module("", CONTEXT)
    with in_memory(module) as top:
        create_mesh(mesh, Point(top.regions[0]), ir.Location.unknown(CONTEXT))
    (read,) = mesh_operations(model_of(parse_module(str(module), CONTEXT)))
    assert (read.name, symbol(read)) == (MESH, mesh.name)
    assert parse_mesh(str(read.attributes["mesh"])) == mesh


@given(odd_meshes())
def test_a_definition_is_what_mlir_reads(mesh: Mesh) -> None:
    module = parse_module(print_mesh_definition(mesh), CONTEXT)
    assert codec_of(model_of(module)).meshes == {mesh.name: mesh}
    assert print_mesh_definition(mesh) in str(module)


@given(odd_meshes().flatmap(lambda mesh: tensor_shardings(mesh, roles=("copies", "replicated", "unreduced"))))
def test_shardings_are_read_as_written(sharding: TensorSharding) -> None:
    codec = SdyCodec(CONTEXT, {sharding.mesh.name: sharding.mesh})
    assert codec.read(write_sharding(sharding, CONTEXT)) == sharding
    assert codec.write(sharding) == write_sharding(sharding, CONTEXT)
    assert codec.read_list(codec.write_list((sharding, sharding))) == (sharding, sharding)


@given(lists_of_axes())
def test_axes_are_read_as_written(written: tuple[Mesh, tuple[Axes, ...]]) -> None:
    mesh, lists = written
    for axes in lists:
        assert read_axes(write_axes(axes, mesh, CONTEXT), mesh) == axes
    assert read_axis_lists(write_axis_lists(lists, mesh, CONTEXT), mesh) == lists


@given(lists_of_axes(), st.data())
def test_moves_of_axes_are_read_as_written(written: tuple[Mesh, tuple[Axes, ...]], data: st.DataObject) -> None:
    mesh, lists = written
    dims = st.integers(0, 12)
    moves = tuple((axes, data.draw(dims), data.draw(dims)) for axes in lists if axes)
    assume(moves)  # `sdy` has no other ones
    assert read_axis_moves(write_axis_moves(moves, mesh, CONTEXT), mesh) == moves


@given(st.lists(names, unique=True, max_size=4))
def test_manual_axes_are_read_as_written(written: list[str]) -> None:
    attribute = write_manual_axes(written, CONTEXT)
    assert read_manual_axes(attribute) == tuple(written)
    assert read_manual_axes(ir.Attribute.parse(str(attribute), CONTEXT)) == tuple(written)


def test_a_rule_is_read_as_written() -> None:
    builder = RuleBuilder([(8, 4), (4, 6)], [(8, 6)])
    builder.factor([0, None], [0], 8, PASS_THROUGH)
    builder.factor([None, 1], [1], 6, PASS_THROUGH)
    builder.factor([1, 0], [None], 4, REDUCTION)
    rule = builder.build()
    read = parse_rule(str(write_rule(rule, CONTEXT)))
    assert (read.sizes, read.operands, read.results, read.kinds) == (
        rule.sizes,
        rule.operands,
        rule.results,
        rule.kinds,
    )


@pytest.mark.parametrize("text", ["5 : i32", '"x"', '#sdy<axis_ref_list{"x"}>', '#sdy.mesh<["x"=2]>', "unit"])
def test_another_attribute_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"expected '#sdy<manual_axes\.\.>', found "):
        read_manual_axes(ir.Attribute.parse(text, CONTEXT))
