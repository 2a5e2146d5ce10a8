"""Results wanted unreduced, whatever makes them: their summands add up to what one device computes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gspmd

MESH = '<["x"=4, "y"=2]>'
ARGUMENTS = ("[{}, {}]", '[{"y"}, {}]', '[{"x"}, {}]', '[{}, {"y", "x"}]', '[{}, {}], unreduced={"x"}')
RESULTS = (
    '[{}, {}], unreduced={"x"}',
    '[{"y"}, {}], unreduced={"x"}',
    '[{}, {"x"}], unreduced={"y"}',
    '[{}, {}], unreduced={"x", "y"}',
)
_UNARY = "tensor<6x6xf32>"
_SHORT = f"({_UNARY}) -> {_UNARY}"


def _loop(result: str, body: str) -> str:
    """Three times `body`, which makes %t of %v; the result is what it made last."""
    return f"""
      %n = stablehlo.constant dense<3> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %i, %{result} = stablehlo.while(%c = %zero, %v = %a) : tensor<i32>, {_UNARY}
        cond {{
          %p = stablehlo.compare LT, %c, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %next = stablehlo.add %c, %one : tensor<i32>
          {body}
          stablehlo.return %next, %t : tensor<i32>, {_UNARY}
        }}"""


BODIES = {
    "nothing": "%r = sdy.sharding_constraint %a <@mesh, [{?}, {?}]> : tensor<6x6xf32>",
    "elementwise": f"%r = stablehlo.tanh %a : {_UNARY}",
    "linear": f"%n = stablehlo.negate %a : {_UNARY}\n%r = stablehlo.add %n, %a : {_UNARY}",
    "transpose": f"%r = stablehlo.transpose %a, dims = [1, 0] : {_SHORT}",
    "square": f"%r = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({_UNARY}, {_UNARY}) -> {_UNARY}",
    "linear behind a dot": f"""
      %d = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({_UNARY}, {_UNARY}) -> {_UNARY}
      %r = stablehlo.add %d, %a : {_UNARY}""",
    "sum": f"""
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
        : ({_UNARY}, tensor<f32>) -> tensor<6xf32>
      %r = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<6xf32>) -> {_UNARY}""",
    "constant": f"%r = stablehlo.constant dense<2.0> : {_UNARY}",
    "loop": _loop("r", f"%t = stablehlo.cosine %v : {_UNARY}"),
    "loop of summands": _loop(
        "w",
        f"""
          %d = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({_UNARY}, {_UNARY}) -> {_UNARY}
          %t = stablehlo.add %v, %d : {_UNARY}""",
    )
    + f"""
      %r = sdy.sharding_constraint %w <@mesh, [{{}}, {{}}], unreduced={{"x"}}> : {_UNARY}""",
}


def program(body: str, argument: str, result: str) -> str:
    return f"""
sdy.mesh @mesh = {MESH}
func.func public @main(%a: {_UNARY} {{sdy.sharding = #sdy.sharding<@mesh, {argument}>}})
    -> ({_UNARY} {{sdy.sharding = #sdy.sharding<@mesh, {result}>}}) {{
  {BODIES[body]}
  return %r : {_UNARY}
}}
"""


@pytest.mark.parametrize("body", BODIES)
def test_summands_add_up(body: str) -> None:
    given = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    for argument, result in itertools.product(ARGUMENTS, RESULTS):
        assert gspmd.check(program(body, argument, result), inputs=[given]), (argument, result)


@pytest.mark.parametrize("body", BODIES)
def test_a_result_wanted_twice(body: str) -> None:
    """As summands, and whole: what is partial for one is not for the other."""
    given = np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)
    for result in RESULTS:
        text = program(body, '[{"y"}, {}]', result).replace(
            "return %r : tensor<6x6xf32>\n}\n", "return %r, %r : tensor<6x6xf32>, tensor<6x6xf32>\n}\n"
        )
        text = text.replace(f"<@mesh, {result}>}}) {{", f"<@mesh, {result}>}}, tensor<6x6xf32>) {{")
        assert gspmd.check(text, inputs=[given]), result
