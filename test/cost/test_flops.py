"""What single operations compute, against counting it one by one, and what programs compute through control flow."""

from __future__ import annotations

import itertools
import math
import random

import pytest

import gspmd
from gspmd.costs.work import Work, work_of
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module


def work(body: str, arguments: str = "", results: str = "") -> Work:
    module = parse_module(f"func.func public @main({arguments}) -> ({results}) {{\n{body}\n}}", new_context())
    return work_of(Program(model_of(module)))


def flops(operation: str, arguments: str, result: str) -> dict[str, float]:
    return work(f"%r = {operation}\nreturn %r : {result}", arguments, result).by_kind()


# ---- single operations ----


def test_dot_general() -> None:
    found = flops(
        "stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2, 3] x [1, 2]"
        " : (tensor<2x3x4x5xbf16>, tensor<2x4x5x7xbf16>) -> tensor<2x3x7xf32>",
        "%a: tensor<2x3x4x5xbf16>, %b: tensor<2x4x5x7xbf16>",
        "tensor<2x3x7xf32>",
    )
    assert found == {"dot": 2 * 2 * 3 * 7 * 4 * 5}


def window_pairs(n: int, k: int, out: int, stride: int, low: int, spread: int, dilation: int) -> int:
    real = {i * spread for i in range(n)}
    return sum(stride * o + dilation * j - low in real for o, j in itertools.product(range(out), range(k)))


@pytest.mark.parametrize("seed", range(12))
def test_convolution(seed: int) -> None:
    rng = random.Random(seed)
    n, k, stride, spread, dilation = (rng.randint(1, m) for m in (9, 9, 3, 3, 3))
    low, high = rng.randint(0, 3), rng.randint(0, 3)
    extent = (k - 1) * dilation + 1
    padded = (n - 1) * spread + 1 + low + high
    while padded < extent:
        high, padded = high + 1, padded + 1
    out = (padded - extent) // stride + 1
    groups = rng.choice((1, 2))
    types = f"tensor<3x{n}x4xf32>", f"tensor<{k}x{4 // groups}x6xf32>", f"tensor<3x{out}x6xf32>"
    found = flops(
        "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        f"window = {{stride = [{stride}], pad = [[{low}, {high}]], lhs_dilate = [{spread}], "
        f"rhs_dilate = [{dilation}]}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} "
        f": ({types[0]}, {types[1]}) -> {types[2]}",
        f"%a: {types[0]}, %b: {types[1]}",
        types[2],
    )
    pairs = window_pairs(n, k, out, stride, low, spread, dilation)
    assert found == ({"convolution": 2 * 3 * 6 * (4 // groups) * pairs} if pairs else {})


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "numbers", "expected"),
    [
        ("11x5", "3x5x7", "11x7", ("lhs_ragged_dimensions = [0], rhs_group_dimensions = [0], "
         "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]"), 2 * 11 * 5 * 7),
        ("11x5", "5x7", "3x11x7", ("lhs_ragged_dimensions = [1], rhs_group_dimensions = [], "
         "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]"), 2 * 11 * 5 * 7),
    ],
)  # fmt: skip
def test_ragged_dot(lhs: str, rhs: str, result: str, numbers: str, expected: int) -> None:
    types = [f"tensor<{shape}xf32>" for shape in (lhs, rhs, result)]
    numbers = f"lhs_batching_dimensions = [], rhs_batching_dimensions = [], {numbers}"
    found = flops(
        f'"chlo.ragged_dot"(%a, %b, %s) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>}} : '
        f"({types[0]}, {types[1]}, tensor<3xi32>) -> {types[2]}",
        f"%a: {types[0]}, %b: {types[1]}, %s: tensor<3xi32>",
        types[2],
    )
    assert found == {"dot": expected}


def test_fft() -> None:
    whole, half, plain = "tensor<3x8xcomplex<f32>>", "tensor<3x5xcomplex<f32>>", "tensor<3x8xf32>"
    complex_ = flops(f"stablehlo.fft %a, type = FFT, length = [8] : ({whole}) -> {whole}", f"%a: {whole}", whole)
    real = flops(f"stablehlo.fft %a, type = RFFT, length = [8] : ({plain}) -> {half}", f"%a: {plain}", half)
    assert complex_ == {"fft": 5 * 3 * 8 * 3}
    assert real == {"fft": 5 * 3 * 8 * 3 / 2}


def test_elementwise_and_reductions_count_once_an_element_and_moves_nothing() -> None:
    found = work(
        """
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %t = stablehlo.tanh %a : tensor<4x6xf32>
        %m = stablehlo.multiply %t, %a : tensor<4x6xf32>
        %r = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [1]
          : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
        %x = stablehlo.reverse %r, dims = [0] : tensor<4xf32>
        return %x : tensor<4xf32>""",
        "%a: tensor<4x6xf32>",
        "tensor<4xf32>",
    )
    assert found.by_kind() == {"elementwise": 48, "reduction": 20}
    assert found.flops == {("elementwise", "f32"): 48, ("reduction", "f32"): 20}


def test_what_is_not_known_is_said() -> None:
    found = work(
        "%r = stablehlo.custom_call @mine(%a) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %r : tensor<4xf32>",
        "%a: tensor<4xf32>",
        "tensor<4xf32>",
    )
    assert found.uncounted == ("stablehlo.custom_call @mine",)
    assert found.total_flops == 0


# ---- control flow ----

LOOP = """
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<8x8xf32>
    cond {{
      %limit = {limit}
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<2> : tensor<i32>
      %n = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %n, %d : tensor<i32>, tensor<8x8xf32>
    }}
    return %r#1 : tensor<8x8xf32>"""


def test_loops_count_their_iterations() -> None:
    text = LOOP.format(limit="stablehlo.constant dense<7> : tensor<i32>")
    found = work(text, "%a: tensor<8x8xf32>", "tensor<8x8xf32>")
    assert found.by_kind()["dot"] == 4 * 2 * 8**3
    assert found.open_loops == 0


def test_a_loop_of_unknown_length_counts_once_and_is_said() -> None:
    text = LOOP.format(limit="stablehlo.abs %m : tensor<i32>")
    found = work(text, "%a: tensor<8x8xf32>, %m: tensor<i32>", "tensor<8x8xf32>")
    assert found.by_kind()["dot"] == 2 * 8**3
    assert found.open_loops == 1


def test_of_branches_the_dearest_counts() -> None:
    type_ = "tensor<8x8xf32>"
    dot = f"stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({type_}, {type_}) -> {type_}"
    found = work(
        f"""
        %r = "stablehlo.case"(%n) ({{
          %x = {dot}
          stablehlo.return %x : tensor<8x8xf32>
        }}, {{
          %x = {dot}
          %y = stablehlo.tanh %x : tensor<8x8xf32>
          stablehlo.return %y : tensor<8x8xf32>
        }}) : (tensor<i32>) -> tensor<8x8xf32>
        return %r : tensor<8x8xf32>""",
        "%a: tensor<8x8xf32>, %n: tensor<i32>",
        "tensor<8x8xf32>",
    )
    assert found.by_kind() == {"dot": 2 * 8**3, "elementwise": 64}


# ---- the model's against the devices' ----

PRODUCT = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<16x32xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{left}]>}},
                       %b: tensor<32x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{right}]>}})
    -> (tensor<16x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{result}]>}}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}}"""


@pytest.mark.parametrize(
    ("left", "right", "result", "ratio"),
    [
        ('{"x"}, {}', '{}, {"y"}', '{"x"}, {"y"}', 1),
        ('{"x"}, {}', "{}, {}", '{"x"}, {}', 2),
        ("{}, {}", "{}, {}", "{}, {}", 8),
        ('{}, {"x", "y"}', '{"x", "y"}, {}', "{}, {}", 1),
    ],
)
def test_what_is_computed_twice_shows_in_the_ratio(left: str, right: str, result: str, ratio: float) -> None:
    report = gspmd.cost(PRODUCT.format(left=left, right=right, result=result))
    assert report.model_flops == 2 * 16 * 32 * 64
    assert report.flops_ratio == ratio


def test_manual_computations_count_on_every_device_of_their_axes() -> None:
    text = """
    sdy.mesh @mesh = <["x"=4, "y"=2]>
    func.func public @main(%a: tensor<16x32xf32>) -> tensor<16x32xf32> {
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
          manual_axes={"x"} (%b: tensor<4x32xf32>) {
        %1 = stablehlo.tanh %b : tensor<4x32xf32>
        sdy.return %1 : tensor<4x32xf32>
      } : (tensor<16x32xf32>) -> tensor<16x32xf32>
      return %0 : tensor<16x32xf32>
    }"""
    report = gspmd.cost(text)
    assert report.model_flops == 16 * 32
    assert report.work.total_flops == 4 * 32
    assert report.flops_ratio == pytest.approx(2)
    assert math.isfinite(report.upper_bound_s)
