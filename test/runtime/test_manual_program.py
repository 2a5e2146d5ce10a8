"""What PJRT gets: the program of one device as one manual computation, between values of the whole."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_sharding
from gspmd.runtime import executable as runtime
from gspmd.runtime.executable_module import read_partitioned
from gspmd.runtime.manual_program import XlaForm, whole_forms
from gspmd.runtime.pjrt_mesh import mesh_for
from gspmd.transforms.ir.signature import Signature, ValueSignature

MESH = Mesh((("x", 4), ("y", 2)), name="mesh")
ALL = MESH.all_axes()


def value(shape: tuple[int, ...], sharding: str) -> ValueSignature:
    meshes = {"mesh": MESH, "twelve": Mesh((("x", 12),), name="twelve")}
    return ValueSignature(shape, "f32", parse_sharding(sharding, meshes))


def forms(*values: ValueSignature, mesh: Mesh = MESH) -> list[XlaForm]:
    return whole_forms(Signature(mesh, values, ()))[0]


@pytest.mark.parametrize(
    ("shape", "sharding", "expected", "by_shards"),
    [
        ((8, 6), '<@mesh, [{"x"}, {"y"}]>', (8, 6), False),
        ((7, 3), '<@mesh, [{"x"}, {"y"}]>', (8, 4), False),
        ((3,), '<@mesh, [{"x", "y"}]>', (8,), False),
        ((0, 3), '<@mesh, [{"x"}, {}]>', (0, 3), False),
        ((), "<@mesh, []>", (), False),
        ((5,), '<@mesh, [{"x":(2)2}]>', (6,), False),
        ((8, 6), '<@mesh, [{"x"}, {}], unreduced={"y"}>', (16, 6), True),
        ((), '<@mesh, [], unreduced={"y"}>', (), True),
        ((7, 3), '<mesh<["x"=4, "y"=2], device_ids=[0, 2, 1, 3, 4, 6, 5, 7]>, [{"x"}, {}]>', (16, 3), True),
    ],
)
def test_forms(shape: tuple[int, ...], sharding: str, expected: tuple[int, ...], by_shards: bool) -> None:
    (form,) = forms(value(shape, sharding))
    assert (form.shape, form.by_shards) == (expected, by_shards)
    assert len(form.dims) == len(expected)
    if by_shards and expected:
        assert form.dims[0] == ALL


def test_of_parts_that_do_not_nest_the_first_are_said() -> None:
    values = [value((12,), f'<@twelve, [{{"x":(1){size}}}]>') for size in (4, 6, 2)]
    found = forms(*values, mesh=Mesh((("x", 12),), name="mesh"))
    assert [form.by_shards for form in found] == [False, True, False]
    assert [form.shape for form in found] == [(12,), (24,), (12,)]


def test_the_mesh_is_cut_where_anything_is() -> None:
    axis = MESH.axis("x", 2, 2)
    mesh = mesh_for(MESH, [(axis,)], [(MESH.axis("y"),)])
    assert mesh.mesh.axes == (("x", 2), ("x.2", 2), ("y", 2))
    assert mesh.whole((MESH.axis("x"),)) == (mesh.mesh.axis("x"), mesh.mesh.axis("x.2"))
    assert mesh.with_cuts((MESH.axis("x", 1, 2),)) is not None
    twelve = mesh_for(Mesh((("x", 12),)), [(Mesh((("x", 12),)).axis("x", 1, 4),)], [])
    assert twelve.with_cuts((Mesh((("x", 12),)).axis("x", 1, 6),)) is None


def test_names_that_are_none_elsewhere() -> None:
    mesh = mesh_for(Mesh((('a"b', 2), ("a b", 2), ("axis", 2))), [], [])
    assert [name for name, _ in mesh.mesh.axes] == ["axis", "axis.1", "axis.1.0"]


PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, tf.aliasing_output = 0 : i32},
                %p: tensor<i1>) -> (tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"y"}]>}) {
  %0 = stablehlo.add %a, %a : tensor<7x6xf32>
  return %0 : tensor<7x6xf32>
}
"""


def test_the_module() -> None:
    module, _ = read_partitioned(gspmd.partition(PROGRAM).module)
    text = str(module)
    assert re.search(r'sdy.mesh @devices = <\["x"=2, "x.2"=2, "y"=2\]>', text)
    assert re.search(
        r'%arg0: tensor<8x6xf32> \{.*sdy.sharding = #sdy.sharding<@devices, \[\{"x", "x.2"\}, \{\}\]>', text
    )
    assert 'tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@devices, [{"x"}, {"y"}]>' in text
    assert 'manual_axes={"x", "x.2", "y"}' in text
    assert "gspmd." not in text
    assert gspmd.check(PROGRAM).passed


def test_a_program_of_one_partition_is_none() -> None:
    text = PROGRAM.replace('"x"=4, "y"=2', '"x"=1, "y"=1').replace('"x":(1)2', '"x"')
    module, _ = read_partitioned(gspmd.partition(text).module)
    assert "sdy." not in str(module)
    (result,) = gspmd.compile(gspmd.partition(text))(np.ones((7, 6), np.float32), np.array(True))
    np.testing.assert_array_equal(result.to_numpy(), np.full((7, 6), 2.0))


def test_scalars_over_devices_in_another_order() -> None:
    """A buffer on another device than is expected would end the process."""
    text = """
    sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[1, 5, 6, 7, 3, 4, 2, 0]>
    func.func @main(%a: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<f32>)
        -> (tensor<4x3xf32>, tensor<f32>) {
      %0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
      %1 = stablehlo.add %a, %0 : tensor<4x3xf32>
      return %1, %b : tensor<4x3xf32>, tensor<f32>
    }"""
    assert gspmd.check(text).passed


# ---- what XLA did not leave alone otherwise ----


def module(body: str, results: str = "tensor<4xf32>") -> str:
    """A partitioned module of two devices, with arguments `%a` and `%p`."""
    one = 'gspmd.global_type = tensor<{0}>, gspmd.sharding = "<@mesh, [{1}]>"'
    split, flag = one.format("8xf32", '{\\"x\\"}'), one.format("i1", "")
    return f"""
module attributes {{gspmd.mesh = "<[\\"x\\"=2]>", mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%a: tensor<4xf32> {{{split}}}, %p: tensor<i1> {{{flag}}}) -> ({results} {{{split}}}) {{
    {body}
  }}
}}
"""


ALL_REDUCE = """"stablehlo.all_reduce"(%c) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>"""


BRANCHES = {
    "without results": """"stablehlo.if"(%p) ({{ {work} stablehlo.return }}, {{
        stablehlo.return }}) : (tensor<i1>) -> ()""",
    "with an unused result": """%r = "stablehlo.if"(%p) ({{ {work} stablehlo.return %c : tensor<4xf32> }}, {{
        stablehlo.return %b : tensor<4xf32> }}) : (tensor<i1>) -> tensor<4xf32>""",
    "used by what is not": """%r = "stablehlo.if"(%p) ({{ {work} stablehlo.return %c : tensor<4xf32> }}, {{
        stablehlo.return %b : tensor<4xf32> }}) : (tensor<i1>) -> tensor<4xf32>
        %u = stablehlo.add %r, %a : tensor<4xf32>""",
    "in another one": """"stablehlo.if"(%p) ({{
          %r = "stablehlo.if"(%p) ({{ {work} stablehlo.return %c : tensor<4xf32> }}, {{
            stablehlo.return %b : tensor<4xf32> }}) : (tensor<i1>) -> tensor<4xf32>
          stablehlo.return }}, {{ stablehlo.return }}) : (tensor<i1>) -> ()""",
    "in a loop": """%l:2 = "stablehlo.while"(%p, %a) ({{
          ^bb0(%q: tensor<i1>, %v: tensor<4xf32>): stablehlo.return %q : tensor<i1>
        }}, {{
          ^bb0(%q: tensor<i1>, %v: tensor<4xf32>):
            %r = "stablehlo.if"(%q) ({{ {work} stablehlo.return %c : tensor<4xf32> }}, {{
              stablehlo.return %b : tensor<4xf32> }}) : (tensor<i1>) -> tensor<4xf32>
            %n = stablehlo.not %q : tensor<i1>
            stablehlo.return %n, %r : tensor<i1>, tensor<4xf32>
        }}) : (tensor<i1>, tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>)""",
}


@pytest.mark.parametrize("captured", ["%a", "%e"], ids=["an argument", "what is one, as XLA finds"])
@pytest.mark.parametrize("branch", BRANCHES)
def test_branches_for_nothing(branch: str, captured: str) -> None:
    """XLA drops what nothing uses before it reads shardings; that must not end the process."""
    work = f"%c = stablehlo.add {captured}, %b : tensor<4xf32>\n %d = {ALL_REDUCE}\n"
    body = f"""%b = stablehlo.add %a, %a : tensor<4xf32>
    %e = stablehlo.select %p, %a, %a : tensor<i1>, tensor<4xf32>
    {BRANCHES[branch].format(work=work)}
    return %b : tensor<4xf32>"""
    x = np.arange(8, dtype=np.float32)
    (result,) = runtime.compile(module(body))(x, np.array(True))
    np.testing.assert_array_equal(result.to_numpy(), 2 * x)


def test_what_only_partition_ids_and_constants_lead_to_is_left_alone() -> None:
    """A loop that each device leaves at its own time: XLA would refuse a partition id that it takes for replicated."""
    body = """%i = stablehlo.partition_id : tensor<ui32>
    %zero = stablehlo.constant dense<0> : tensor<ui32>
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %l:2 = "stablehlo.while"(%zero, %a) ({
      ^bb0(%n: tensor<ui32>, %v: tensor<4xf32>):
        %q = stablehlo.compare LE, %n, %i : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
        stablehlo.return %q : tensor<i1>
    }, {
      ^bb0(%n: tensor<ui32>, %v: tensor<4xf32>):
        %m = stablehlo.add %n, %one : tensor<ui32>
        %w = stablehlo.add %v, %v : tensor<4xf32>
        stablehlo.return %m, %w : tensor<ui32>, tensor<4xf32>
    }) : (tensor<ui32>, tensor<4xf32>) -> (tensor<ui32>, tensor<4xf32>)
    return %l#1 : tensor<4xf32>"""
    x = np.arange(8, dtype=np.float32)
    (result,) = runtime.compile(module(body))(x, np.array(True))
    np.testing.assert_array_equal(result.to_numpy(), x * np.repeat([2, 4], 4))
