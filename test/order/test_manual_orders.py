"""Manual computations over a mesh in another device order: what enters, what leaves, and the devices named inside."""

from __future__ import annotations

import numpy as np
import pytest

import gspmd
from gspmd.runtime.executable import compile as compile_

IDS = [0, 3, 1, 6, 2, 5, 4, 7]
BODY = """
  %s = "stablehlo.all_reduce"(%arg) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = dense<[[0, 2], [3, 5], [1, 4], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %r = stablehlo.add %p, %q : tensor<i32>
    stablehlo.return %r : tensor<i32>
  }) : (tensor<1x8xi32>) -> tensor<1x8xi32>
  %n = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>,
      source_target_pairs = dense<[[0, 3], [3, 1], [1, 6], [6, 0]]> : tensor<4x2xi64>}>
      : (tensor<1x8xi32>) -> tensor<1x8xi32>
  %i = stablehlo.partition_id : tensor<ui32>
  %j = stablehlo.convert %i : (tensor<ui32>) -> tensor<i32>
  %k = stablehlo.reshape %j : (tensor<i32>) -> tensor<1xi32>
"""
BY_SHARDY = f"""
sdy.mesh @one = <["x"=2, "y"=4]>
sdy.mesh @two = <["x"=2, "y"=4], device_ids={IDS}>
func.func @main(%a: tensor<16x8xi32> {{sdy.sharding = #sdy.sharding<@one, [{{"x"}}, {{"y"}}]>}},
      %b: tensor<8x8xi32> {{sdy.sharding = #sdy.sharding<@FROM, [{{"x", "y"}}, {{}}]>}})
      -> (tensor<8x8xi32> {{sdy.sharding = #sdy.sharding<@one, [{{"x", "y"}}, {{}}]>}}, tensor<8xi32>,
      tensor<16x8xi32> {{sdy.sharding = #sdy.sharding<@one, [{{"x"}}, {{"y"}}]>}}) {{
  %0:2 = sdy.manual_computation(%b) in_shardings=[<@two, [{{"x", "y"}}, {{}}]>]
      out_shardings=[<@two, [{{"x", "y"}}, {{}}]>, <@two, [{{"x", "y"}}]>] manual_axes={{"x", "y"}}
      (%arg: tensor<1x8xi32>) {{
    {BODY}
    sdy.return %n, %k : tensor<1x8xi32>, tensor<1xi32>
  }} : (tensor<8x8xi32>) -> (tensor<8x8xi32>, tensor<8xi32>)
  %1 = stablehlo.add %a, %a : tensor<16x8xi32>
  return %0#0, %0#1, %1 : tensor<8x8xi32>, tensor<8xi32>, tensor<16x8xi32>
}}
"""
_IDS = ",".join(map(str, IDS))
_FROM = {"one": "{devices=[8,1]<=[8]}", "two": f"{{devices=[8,1]{_IDS}}}"}
BY_GSPMD = f"""
func.func private @shmap_body(%arg: tensor<1x8xi32>) -> (tensor<1x8xi32>, tensor<1xi32>) {{
  {BODY}
  return %n, %k : tensor<1x8xi32>, tensor<1xi32>
}}
func.func public @main(%a: tensor<16x8xi32> {{mhlo.sharding = "{{devices=[2,4]<=[8]}}"}},
      %b: tensor<8x8xi32> {{mhlo.sharding = "FROM"}}) -> (tensor<8x8xi32> {{mhlo.sharding = "{_FROM["one"]}"}},
      tensor<8xi32>, tensor<16x8xi32> {{mhlo.sharding = "{{devices=[2,4]<=[8]}}"}}) {{
  %s = stablehlo.custom_call @Sharding(%b) {{mhlo.sharding = "{_FROM["two"]}"}} : (tensor<8x8xi32>) -> tensor<8x8xi32>
  %l = stablehlo.custom_call @SPMDFullToShardShape(%s) {{mhlo.sharding = "{{manual}}"}}
      : (tensor<8x8xi32>) -> tensor<1x8xi32>
  %r:2 = func.call @shmap_body(%l) : (tensor<1x8xi32>) -> (tensor<1x8xi32>, tensor<1xi32>)
  %t = stablehlo.custom_call @Sharding(%r#0) {{mhlo.sharding = "{{manual}}"}} : (tensor<1x8xi32>) -> tensor<1x8xi32>
  %u = stablehlo.custom_call @SPMDShardToFullShape(%t) {{mhlo.sharding = "{_FROM["two"]}"}}
      : (tensor<1x8xi32>) -> tensor<8x8xi32>
  %v = stablehlo.custom_call @Sharding(%r#1) {{mhlo.sharding = "{{manual}}"}} : (tensor<1xi32>) -> tensor<1xi32>
  %w = stablehlo.custom_call @SPMDShardToFullShape(%v) {{mhlo.sharding = "{{devices=[8]{_IDS}}}"}}
      : (tensor<1xi32>) -> tensor<8xi32>
  %1 = stablehlo.add %a, %a : tensor<16x8xi32>
  return %u, %w, %1 : tensor<8x8xi32>, tensor<8xi32>, tensor<16x8xi32>
}}
"""


@pytest.mark.parametrize("came_in", ["one", "two"])
@pytest.mark.parametrize("family", ["sdy", "mhlo"])
def test_devices_inside_are_those_of_the_computations_mesh(family: str, came_in: str) -> None:
    text = BY_SHARDY.replace("@FROM", f"@{came_in}") if family == "sdy" else BY_GSPMD.replace("FROM", _FROM[came_in])
    product = gspmd.partition(text)
    a, b = np.arange(128, dtype=np.int32).reshape(16, 8), np.arange(64, dtype=np.int32).reshape(8, 8) ** 2
    sent, ids, doubled = (result.to_numpy() for result in compile_(product)(a, b))
    halves = np.tile(b[:4] + b[4:], (2, 1))
    expected = np.zeros_like(halves)
    for source, target in ((0, 3), (3, 1), (1, 6), (6, 0)):
        expected[IDS.index(target)] = halves[IDS.index(source)]
    np.testing.assert_array_equal(sent, expected)
    np.testing.assert_array_equal(ids, IDS)
    np.testing.assert_array_equal(doubled, 2 * a)
    permutes = [c.cause for c in product.collectives if c.kind == "collective_permute"]
    # What comes in one order and goes out in it is computed in it, whatever the computation's own.
    assert len(permutes) == (1 if came_in == "one" else 2)


def test_values_over_several_orders_are_refused() -> None:
    text = BY_GSPMD.replace("FROM", _FROM["one"]).replace(f"[8]{_IDS}", "[8]<=[8]")
    with pytest.raises(gspmd.Unsupported, match="operands and results are over several device orders"):
        gspmd.partition(text)
