"""Programs that partitioners are compared on."""

from __future__ import annotations

MESH = 'sdy.mesh @mesh = <["x"=4, "y"=2]>'
ROWS, WHOLE = '[{"x"}, {}]', "[{}, {}]"


def said(dims: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding<@mesh, {dims}>}}"


PRODUCT = f"""{MESH}
func.func public @main(%a: tensor<64x64xf32> {said('[{"x"}, {}]')}, %b: tensor<64x64xf32> {said('[{"x"}, {"y"}]')})
    -> (tensor<64x64xf32> {said('[{"x"}, {"y"}]')}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.tanh %0 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}}"""
GATHERED = 3 * 16 * 32 * 4
