"""Whatever axes are called, the same collectives come out, and the program computes the same."""

from __future__ import annotations

import re

import pytest
from jaxlib.mlir import ir

import gspmd
from gspmd.checks.checking import check
from gspmd.dialect.device_order import identity
from gspmd.dialect.errors import ParseError
from gspmd.dialect.hlo_notation import print_hlo_sharding
from gspmd.dialect.hlo_sharding import HloSharding, Named
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh_definition, quote
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.transforms.parsing.mlir import new_context, parse_module

NAMES = [
    ("x{a", 'a"b'),
    ("a\\b", "x}"),
    ("ä x", "["),
    ("->", "]>"),
    ("{to}", "{0}"),
    ("it's", "\\22"),
    ("a\nb", ""),
    ("x:(1)2", "\0"),
]
"""Two axes at a time; `sdy` takes all of these."""
SIZES = (4, 2)
BY_AXES = {"list_groups_up_to": 1}


def _sine(shape: str, given: str, made: str) -> str:
    return f"""
func.func @main(%a: tensor<{shape}> {{sdy.sharding = #sdy.sharding<@mesh, {given}>}})
    -> (tensor<{shape}> {{sdy.sharding = #sdy.sharding<@mesh, {made}>}}) {{
  %0 = stablehlo.sine %a : tensor<{shape}>
  return %0 : tensor<{shape}>
}}"""


def _product(inner: str, made: str) -> str:
    return f"""
func.func @main(%a: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {inner}]>}},
                %b: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{inner}, {{}}]>}})
    -> (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {made}>}}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}}"""


# Quoted names stand for the axes of the mesh: "x", of size 4, and "y", of size 2.
PROGRAMS = {
    "all_gather": _sine("8x6xf32", '[{"x"}, {"y"}]', "[{}, {}]"),
    "all_reduce": _product('{"x"}', "[{}, {}]"),
    "all_reduce over a part": _product('{"x":(1)2}', "[{}, {}]"),
    "reduce_scatter": _product('{"x"}', '[{"x"}, {}]'),
    "all_to_all": _sine("8x8xf32", '[{"x"}, {}]', '[{}, {"x"}]'),
    "collective_permute": _sine("8x8xf32", '[{"x", "y"}, {}]', '[{"y", "x"}, {}]'),
    "reshard": _sine("7x10xf32", '[{"x"}, {"y"}]', '[{"y"}, {"x"}]'),
    "manual": """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", "y"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
      manual_axes={"x", "y"} (%b: tensor<1x8xf32>) {
    %1 = "stablehlo.all_reduce"(%b) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes =
        [#stablehlo.axis_ref<name = "x", sub_axis_info = (2)2>]>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups =
        #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>,
        channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids}>
        : (tensor<1x8xf32>) -> tensor<2x8xf32>
    sdy.return %2 : tensor<2x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}""",
    "another device order": """
sdy.mesh @other = <["x"=4, "y"=2], device_ids=[0, 2, 1, 3, 4, 6, 5, 7]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@other, [{}, {"x"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@other, [{"y"}, {"x"}]> : tensor<8x8xf32>
  %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [1]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}""",
}


def _renamed(text: str, names: tuple[str, str]) -> str:
    """The text with other names for `"x"` and `"y"`."""
    return re.sub('"([xy])"', lambda match: quote(names["xy".index(match[1])]), text)


def _program(kind: str, names: tuple[str, str]) -> str:
    mesh = Mesh(tuple(zip(names, SIZES, strict=True)))
    return f"{print_mesh_definition(mesh)}{_renamed(PROGRAMS[kind], names)}"


@pytest.mark.parametrize("options", [{}, BY_AXES], ids=["listed", "by-axes"])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_every_name_gives_the_same_program(kind: str, options: dict[str, int]) -> None:
    plain = gspmd.partition(_program(kind, ("x", "y")), options=options)
    if kind in ("reshard", "manual", "another device order"):
        assert plain.collectives
    else:
        assert kind.split(maxsplit=1)[0] in {collective.kind for collective in plain.collectives}
    for names in NAMES:
        program = _program(kind, names)
        found = gspmd.partition(program, options=options)
        expected = [
            (each.kind, _renamed(each.axes, names), each.bytes, each.count, _renamed(each.cause, names))
            for each in plain.collectives
        ]
        assert [(each.kind, each.axes, each.bytes, each.count, each.cause) for each in found.collectives] == expected
        assert _groups(found) == _groups(plain)
        assert check(program, found), names


def _groups(partitioned: gspmd.Partitioned) -> list[str]:
    """The groups and pairs of a program, as lists of partitions where they are listed."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        names = ("replica_groups", "source_target_pairs")
        groups = [op.attributes[name] for name in names if name in op.attributes]
        found.extend(str(each) if isinstance(each, ir.DenseElementsAttr) else "by axes" for each in groups)
        return ir.WalkResult.ADVANCE

    partitioned.module.operation.walk(visit)
    return found


@pytest.mark.parametrize("names", NAMES)
def test_names_in_shardings_of_xla(names: tuple[str, str]) -> None:
    mesh = Mesh(tuple(zip(names, SIZES, strict=True)))
    x, y = (mesh.axis(name) for name in names)
    sharding = TensorSharding(mesh, (DimSharding((y,)), DimSharding((x,))))
    attribute = ir.StringAttr.get(print_hlo_sharding(HloSharding(Named(sharding, identity(mesh.size)))), ir.Context())
    program = f"""
func.func @main(%a: tensor<8x8xf32> {{mhlo.sharding = {attribute}}}) -> tensor<8x8xf32> {{
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}}"""
    found = gspmd.partition(program, options=BY_AXES)
    assert names[0] in dict(found.mesh.axes)
    assert check(program, found)


@pytest.mark.parametrize("names", NAMES)
def test_a_partitioned_file_is_read_again(names: tuple[str, str]) -> None:
    found = gspmd.partition(_program("all_reduce over a part", names), options=BY_AXES)
    again = gspmd.Partitioned(parse_module(found.module_text, new_context()))
    assert again.signature == found.signature
    assert [(c.axes, c.cause) for c in again.collectives] == [(c.axes, c.cause) for c in found.collectives]


def test_names_that_are_no_utf8_are_refused() -> None:
    program = _program("all_gather", ("\udcff", "y"))
    with pytest.raises(ParseError, match=r'-:1:\d+: error: name "\\FF" is not UTF-8'):
        gspmd.partition(program)


def test_a_cause_names_an_axis_as_it_is_called() -> None:
    found = gspmd.partition(_program("all_reduce", ("{to}", "y")))
    (collective,) = found.collectives
    assert collective.cause == (
        "'stablehlo.dot_general' leaves partial results over \"{to}\"; result 0 is wanted as [{}, {}]"
    )
