"""Branches and loops that not all devices take: what moves data there waits for those only that do."""

from __future__ import annotations

import numpy as np
import pytest

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.runtime import executable as runtime
from gspmd.transforms.exchange.grouped_permute import ABSENT, sources

IF = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func public @main(%a: tensor<4x4096xf32>, %b: tensor<f32>) -> tensor<4x4096xf32> {{
  %0 = sdy.manual_computation(%a, %b)
      in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>, <@mesh, []>] out_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
      manual_axes={{"x"}} (%v: tensor<2x4096xf32>, %w: tensor<f32>) {{
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %limit = stablehlo.constant dense<100.0> : tensor<f32>
    %s = stablehlo.reduce(%v init: %z) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<2x4096xf32>, tensor<f32>) -> tensor<f32>
    {predicate}
    %c = stablehlo.compare LT, %p, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %r = "stablehlo.if"(%c) ({{
      %d = stablehlo.reverse %v, dims = [1] : tensor<2x4096xf32>
      stablehlo.return %d : tensor<2x4096xf32>
    }}, {{
      stablehlo.return %v : tensor<2x4096xf32>
    }}) : (tensor<i1>) -> tensor<2x4096xf32>
    sdy.return %r : tensor<2x4096xf32>
  }} : (tensor<4x4096xf32>, tensor<f32>) -> tensor<4x4096xf32>
  return %0 : tensor<4x4096xf32>
}}
"""
SUMMED = """
    %p = "stablehlo.all_reduce"(%s) ({
    ^bb0(%m: tensor<f32>, %n: tensor<f32>):
      %t = stablehlo.add %m, %n : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<f32>) -> tensor<f32>
"""
OWN = "%p = stablehlo.add %s, %w : tensor<f32>"
GIVEN = "%p = stablehlo.add %w, %w : tensor<f32>"

LOOP = """
sdy.mesh @mesh = <["x"=2, "y"=3], device_ids=[4, 1, 3, 0, 5, 2]>
func.func public @main(%a: tensor<4x7xf32>, %n: tensor<2xi32>) -> tensor<4x7xf32> {
  %0 = sdy.manual_computation(%a, %n)
      in_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
      manual_axes={"x"} (%v: tensor<2x7xf32>, %w: tensor<1xi32>) {
    %limit = stablehlo.reshape %w : (tensor<1xi32>) -> tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %u = %v) : tensor<i32>, tensor<2x7xf32>
    cond {
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %head = stablehlo.slice %u [0:2, 0:1] : (tensor<2x7xf32>) -> tensor<2x1xf32>
      %tail = stablehlo.slice %u [0:2, 1:7] : (tensor<2x7xf32>) -> tensor<2x6xf32>
      %d = stablehlo.concatenate %tail, %head, dim = 1 : (tensor<2x6xf32>, tensor<2x1xf32>) -> tensor<2x7xf32>
      stablehlo.return %j, %d : tensor<i32>, tensor<2x7xf32>
    }
    sdy.return %r#1 : tensor<2x7xf32>
  } : (tensor<4x7xf32>, tensor<2xi32>) -> tensor<4x7xf32>
  return %0 : tensor<4x7xf32>
}
"""


def test_a_branch_that_some_devices_take_has_no_permute() -> None:
    partitioned = gspmd.partition(IF.format(predicate=OWN))
    assert "collective_permute" not in partitioned.module_text
    values = (np.arange(4 * 4096, dtype=np.float32) % 32).reshape(4, 4096)
    values[2:] += 100
    (result,) = runtime.compile(partitioned)(values - 16, np.float32(0))
    expected = values - 16
    expected[:2] = expected[:2, ::-1]
    np.testing.assert_array_equal(result.to_numpy(), expected)


@pytest.mark.parametrize("predicate", [SUMMED, GIVEN])
def test_a_branch_that_all_devices_take_has_permutes(predicate: str) -> None:
    partitioned = gspmd.partition(IF.format(predicate=predicate))
    assert "collective_permute" in partitioned.module_text
    values = (np.arange(4 * 4096, dtype=np.float32) % 32).reshape(4, 4096) - 16
    (result,) = runtime.compile(partitioned)(values, np.float32(0))
    np.testing.assert_array_equal(result.to_numpy(), values[:, ::-1])


def test_a_loop_may_run_longer_on_some_devices() -> None:
    values = np.arange(28, dtype=np.float32).reshape(4, 7)
    (result,) = runtime.compile(gspmd.partition(LOOP), padding="nan")(values, np.array([1, 4], np.int32))
    expected = np.concatenate([np.roll(values[:2], -1, axis=1), np.roll(values[2:], -4, axis=1)])
    np.testing.assert_array_equal(result.to_numpy(), expected)


def test_sources_are_counted_along_the_axes_that_pairs_cross() -> None:
    mesh = Mesh((("x", 2), ("y", 3)), (4, 1, 3, 0, 5, 2))
    x, y = mesh.axis("x"), mesh.axis("y")
    shifted = np.array([[4, 1], [1, 3], [0, 5], [5, 2]])
    assert sources(mesh, shifted, (y,)) == ((y,), (ABSENT, 0, 1))
    assert sources(mesh, np.array([[4, 0], [0, 4]]), (y,))[0] == (x,)
