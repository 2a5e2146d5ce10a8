"""The narrowest types that results are made of, through loops, branches and calls."""

from __future__ import annotations

from gspmd.checks.precision import narrowest_types
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module


def names(body: str, types: str, rest: str = "") -> list[str]:
    arguments = "%a: tensor<4xf32>, %b: tensor<4xbf16>, %n: tensor<i32>"
    module = parse_module(f"func.func @main({arguments}) -> ({types}) {{\n{body}\n}}\n{rest}", new_context())
    return ["" if found is None else found.name for found in narrowest_types(model_of(module))]


def test_what_is_made_of_both_is_made_of_the_narrower() -> None:
    body = """%0 = stablehlo.convert %b : (tensor<4xbf16>) -> tensor<4xf32>
      %1 = stablehlo.add %a, %0 : tensor<4xf32>
      %2 = stablehlo.negate %a : tensor<4xf32>
      return %1, %2, %n : tensor<4xf32>, tensor<4xf32>, tensor<i32>"""
    assert names(body, "tensor<4xf32>, tensor<4xf32>, tensor<i32>") == ["bfloat16", "float32", ""]


def test_what_a_loop_has_inside_counts_for_its_results() -> None:
    body = """%0:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, tensor<4xf32>
      cond {
        %c = stablehlo.constant dense<3> : tensor<i32>
        %m = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %m : tensor<i1>
      } do {
        %y = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf16>
        %z = stablehlo.convert %y : (tensor<4xf16>) -> tensor<4xf32>
        %j = stablehlo.add %i, %i : tensor<i32>
        stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
      }
      %1 = stablehlo.negate %a : tensor<4xf32>
      return %0#1, %1 : tensor<4xf32>, tensor<4xf32>"""
    assert names(body, "tensor<4xf32>, tensor<4xf32>") == ["float16", "float32"]


def test_a_called_function_is_looked_into() -> None:
    rest = """func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf8E5M2>
      %1 = stablehlo.convert %0 : (tensor<4xf8E5M2>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }"""
    body = "%0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0, %a : tensor<4xf32>, tensor<4xf32>"
    assert names(body, "tensor<4xf32>, tensor<4xf32>", rest) == ["float8_e5m2", "float32"]
