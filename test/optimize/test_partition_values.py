"""Which axes a device's index runs along is found again from its values on all devices."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from gspmd.dialect.axes import Axes, Axis, canonical, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.optimize.partition_values import PartitionValues, axes_of_index
from gspmd.transforms.optimize.program import DeviceProgram
from gspmd.transforms.parsing.mlir import new_context, parse_module

MESHES = [
    Mesh((("x", 8),)),
    Mesh((("x", 4), ("y", 2))),
    Mesh((("x", 3), ("y", 2)), (4, 1, 3, 0, 5, 2)),
    Mesh((("x", 2), ("y", 12), ("z", 3))),
]


def index_along(mesh: Mesh, axes: Axes) -> np.ndarray:
    """By partition id."""
    index = np.zeros(mesh.size, np.int64)
    for group in replica_groups(mesh, axes):
        index[group] = np.arange(len(group))
    return index


def lists(mesh: Mesh) -> list[Axes]:
    """Lists of full axes in every order, and parts of an axis."""
    full = [p for n in (1, 2, 3) for p in itertools.permutations(mesh.all_axes(), n)]
    parts = [
        (Axis(name, pre, size),)
        for name, total in mesh.axes
        for pre in range(1, total)
        for size in range(2, total)
        if total % (pre * size) == 0
    ]
    return full + parts


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_axes_are_found_again(mesh: Mesh) -> None:
    for axes in lists(mesh):
        assert axes_of_index(mesh, index_along(mesh, axes), size_of(axes)) == canonical(axes)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_what_is_no_index_has_no_axes(mesh: Mesh) -> None:
    axes = mesh.all_axes()
    index = index_along(mesh, axes)
    shuffled = index.copy()
    random.Random(0).shuffle(shuffled)
    for wrong in (shuffled, index[::-1], (index + 1) % mesh.size, np.ones_like(index)):
        assert axes_of_index(mesh, wrong, mesh.size) is None
    assert axes_of_index(mesh, index, mesh.size * 2) is None


def test_values_are_computed_as_devices_do() -> None:
    module = parse_module(
        """
        module attributes {gspmd.mesh = "<[\\22x\\22=4, \\22y\\22=2]>"} {
          func.func public @main(%a: tensor<i32>) -> (tensor<i32>, tensor<i32>, tensor<i64>, tensor<i32>, tensor<i32>) {
            %id = stablehlo.partition_id : tensor<ui32>
            %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
            %two = stablehlo.constant dense<2> : tensor<i32>
            %five = stablehlo.constant dense<5> : tensor<i32>
            %d = stablehlo.subtract %two, %p : tensor<i32>
            %q = stablehlo.divide %d, %two : tensor<i32>
            %r = stablehlo.remainder %d, %five : tensor<i32>
            %less = stablehlo.compare LT, %r, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %s = stablehlo.select %less, %five, %r : tensor<i1>, tensor<i32>
            %wide = stablehlo.convert %s : (tensor<i32>) -> tensor<i64>
            %table = stablehlo.constant dense<[3, 1, 4, 1, 5, 9]> : tensor<6xi32>
            %row = stablehlo.dynamic_slice %table, %p, sizes = [1] : (tensor<6xi32>, tensor<i32>) -> tensor<1xi32>
            %e = stablehlo.reshape %row : (tensor<1xi32>) -> tensor<i32>
            %n = stablehlo.add %a, %p : tensor<i32>
            return %q, %r, %wide, %e, %n : tensor<i32>, tensor<i32>, tensor<i64>, tensor<i32>, tensor<i32>
          }
        }""",
        new_context(),
    )
    program = DeviceProgram(model_of(module))
    assert program.mesh is not None
    values = PartitionValues(program.mesh)
    found = [values(operand) for operand in main_function(program.module).regions[0].terminator.operands]
    expected = [
        [1, 0, 0, 0, -1, -1, -2, -2],
        [2, 1, 0, -1, -2, -3, -4, 0],
        [2, 5, 5, 5, 5, 5, 5, 5],
        [3, 1, 4, 1, 5, 9, 9, 9],
    ]
    assert [None if v is None else v.tolist() for v in found] == [*expected, None]
