"""Groups by axes, as PJRT's plugins get them, are the groups that are meant."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jaxlib import _jax
from jaxlib.mlir import ir

import gspmd
from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh
from gspmd.group_meshes import write_group_meshes
from gspmd.transforms.support.groups import replica_groups
from gspmd.transforms.support.mlir import new_context, parse_module

OLD, NEW = "1.13.7", "1.17.0"  # StableHLO without and with groups by axes
MODULE = """
sdy.mesh @mesh = {mesh}
func.func @main(%a: tensor<4x8xf32>) -> tensor<{rows}x8xf32> {{
  %0 = "stablehlo.all_gather"(%a) <{{all_gather_dim = 0 : i64, use_global_device_ids,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{axes}]>}}>
    : (tensor<4x8xf32>) -> tensor<{rows}x8xf32>
  return %0 : tensor<{rows}x8xf32>
}}
"""
MESH = Mesh((("x", 4), ("y", 6), ("z", 4)))
CASES: list[tuple[Mesh, Axes]] = [
    (MESH, (Axis("x", 1, 4),)),
    (MESH, (Axis("y", 1, 6),)),
    (MESH, (Axis("x", 1, 4), Axis("z", 1, 4))),
    (MESH, (Axis("z", 1, 4), Axis("x", 1, 4))),
    (MESH, (Axis("z", 2, 2),)),
    (MESH, (Axis("z", 1, 2), Axis("x", 2, 2))),
    (MESH, (Axis("y", 2, 3), Axis("z", 1, 4))),
    (MESH, (Axis("z", 2, 2), Axis("z", 1, 2))),
    (MESH, (Axis("y", 1, 6), Axis("x", 1, 4), Axis("z", 1, 4))),
    (Mesh((("x", 4), ("y", 2)), (7, 6, 5, 4, 3, 2, 1, 0)), (Axis("x", 2, 2), Axis("y", 1, 2))),
]


def gathered(mesh: Mesh, axes: Axes) -> ir.Module:
    refs = []
    for axis in axes:
        part = "" if mesh.is_full(axis) else f", sub_axis_info = ({axis.pre}){axis.size}"
        refs.append(f'#stablehlo.axis_ref<name = "{axis.name}"{part}>')
    rows = 4 * int(np.prod([axis.size for axis in axes]))
    return parse_module(MODULE.format(mesh=print_mesh(mesh), rows=rows, axes=", ".join(refs)), new_context())


@pytest.mark.parametrize(("mesh", "axes"), CASES)
def test_versions_without_groups_by_axes_list_the_same_devices(mesh: Mesh, axes: Axes) -> None:
    module = gathered(mesh, axes)
    with module.context:
        write_group_meshes(module)
        artifact = _jax.mlir.serialize_portable_artifact(module, OLD)
        read = _jax.mlir.deserialize_portable_artifact(artifact, module.context)
    gather = read.body.operations[len(read.body.operations) - 1].regions[0].blocks[0].operations[0]
    groups = np.array(ir.DenseElementsAttr(gather.attributes["replica_groups"]))
    assert sorted(map(tuple, groups)) == sorted(map(tuple, replica_groups(mesh, axes)))


def test_versions_with_groups_by_axes_do_not_grow_with_devices() -> None:
    sizes = []
    for count in (8, 128):
        module = gathered(Mesh((("x", 16), ("y", count))), (Axis("x", 2, 4),))
        with module.context:
            write_group_meshes(module)
            sizes.append(len(_jax.mlir.serialize_portable_artifact(module, NEW)))
    assert sizes[1] <= sizes[0] + 8


def test_programs_run_with_groups_by_parts_of_axes() -> None:
    text = """
    sdy.mesh @mesh = <["x"=8]>
    func.func @main(%a: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
        -> (tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}]>}) {
      %0 = stablehlo.negate %a : tensor<32x8xf32>
      return %0 : tensor<32x8xf32>
    }
    """
    product = gspmd.partition(text, options={"list_groups_up_to": 1})
    assert re.search(r"sub_axis_info = \(2\)4", product.module_text)
    a = np.arange(256, dtype=np.float32).reshape(32, 8)
    np.testing.assert_array_equal(np.asarray(gspmd.compile(product)(a)[0]), -a)
