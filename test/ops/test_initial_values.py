"""Initial values of reductions, which XLA for CPUs takes for identities, count once: on one device and on many."""

from __future__ import annotations

import numpy as np
import pytest

import gspmd
from gspmd.runtime import executable as runtime

Values = list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


def reduction(shape: str, result: str, dims: str, element: str = "f32", name: str = "add", split: str = "") -> str:
    """One reduction of %a with %i, split as `split` says."""
    said = f" {{sdy.sharding = #sdy.sharding<@mesh, [{split}]>}}" if split else ""
    operand, made = f"tensor<{shape}x{element}>", f"tensor<{result}x{element}>"
    return f"""
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: {operand}{said}, %i: tensor<{element}>) -> {made} {{
      %0 = stablehlo.reduce(%a init: %i) applies stablehlo.{name} across dimensions = [{dims}]
          : ({operand}, tensor<{element}>) -> {made}
      return %0 : {made}
    }}"""


def on_one_device(text: str, *arguments: object) -> Values:
    return [result.to_numpy() for result in runtime.compile_single(text)(*arguments)]


ROWS = np.arange(4, dtype=np.float32).reshape(4, 1)
TEN = np.float32(10)


@pytest.mark.parametrize(
    ("name", "element", "expected"),
    [
        ("add", "f32", [10, 11, 12, 13]),
        ("maximum", "f32", [10, 10, 10, 10]),
        ("multiply", "f32", [0, 10, 20, 30]),
        ("minimum", "i32", [0, 1, 2, 3]),
        ("xor", "i32", [10, 11, 8, 9]),
        ("add", "complex<f32>", [10, 11, 12, 13]),
    ],
)
@pytest.mark.parametrize("split", ["", '{"x"}, {}', '{}, {"x"}'], ids=["whole", "kept", "reduced"])
def test_reductions_of_single_elements_start_from_their_initial_value(
    name: str, element: str, expected: list[int], split: str
) -> None:
    dtype = {"f32": np.float32, "i32": np.int32, "complex<f32>": np.complex64}[element]
    text = reduction("4x1", "4", "1", element, name, split)
    given = ROWS.astype(dtype), dtype(10)
    (found,) = on_one_device(text, *given)
    np.testing.assert_array_equal(found, np.array(expected, dtype))
    assert gspmd.check(text, inputs=list(given))


def test_reductions_of_no_dimensions_start_from_their_initial_value() -> None:
    (found,) = on_one_device(reduction("4x1", "4x1", ""), ROWS, TEN)
    np.testing.assert_array_equal(found, ROWS + 10)


@pytest.mark.parametrize("element", ["f32", "complex<f32>"])
def test_both_of_two_reductions_in_a_row_start_from_their_initial_value(element: str) -> None:
    dtype = np.float32 if element == "f32" else np.complex64
    text = f"""
    func.func @main(%a: tensor<4x2x2x{element}>, %i: tensor<{element}>) -> tensor<4x{element}> {{
      %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1]
          : (tensor<4x2x2x{element}>, tensor<{element}>) -> tensor<4x2x{element}>
      %1 = stablehlo.reduce(%0 init: %i) applies stablehlo.add across dimensions = [1]
          : (tensor<4x2x{element}>, tensor<{element}>) -> tensor<4x{element}>
      return %1 : tensor<4x{element}>
    }}"""
    values = np.arange(16).reshape(4, 2, 2).astype(dtype)
    (found,) = on_one_device(text, values, dtype(10))
    np.testing.assert_array_equal(found, values.sum((1, 2)) + 30)


@pytest.mark.parametrize("element", ["f32", "complex<f32>"])
def test_a_reduction_of_a_concatenation_counts_its_initial_value_once(element: str) -> None:
    dtype = np.float32 if element == "f32" else np.complex64
    text = f"""
    func.func @main(%a: tensor<4x2x{element}>, %i: tensor<{element}>) -> tensor<4x{element}> {{
      %0 = stablehlo.concatenate %a, %a, dim = 1
          : (tensor<4x2x{element}>, tensor<4x2x{element}>) -> tensor<4x4x{element}>
      %1 = stablehlo.reduce(%0 init: %i) applies stablehlo.add across dimensions = [1]
          : (tensor<4x4x{element}>, tensor<{element}>) -> tensor<4x{element}>
      return %1 : tensor<4x{element}>
    }}"""
    values = np.arange(8).reshape(4, 2).astype(dtype)
    (found,) = on_one_device(text, values, dtype(10))
    np.testing.assert_array_equal(found, 2 * values.sum(1) + 10)


def test_any_reducer_is_applied_to_single_elements() -> None:
    """The larger one and where it was, of pairs; the first of equal ones."""
    text = """
    func.func @main(%a: tensor<4x1xf32>, %b: tensor<4x1xi32>, %i: tensor<f32>, %j: tensor<i32>)
        -> (tensor<4xf32>, tensor<4xi32>) {
      %0:2 = stablehlo.reduce(%a init: %i), (%b init: %j) across dimensions = [1]
          : (tensor<4x1xf32>, tensor<4x1xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
        reducer(%x: tensor<f32>, %y: tensor<f32>) (%u: tensor<i32>, %v: tensor<i32>) {
          %c = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %1 = stablehlo.select %c, %x, %y : tensor<i1>, tensor<f32>
          %2 = stablehlo.select %c, %u, %v : tensor<i1>, tensor<i32>
          stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
        }
      return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
    }"""
    places = np.arange(4, dtype=np.int32).reshape(4, 1)
    largest, where = on_one_device(text, ROWS, places, np.float32(2), np.int32(77))
    np.testing.assert_array_equal(largest, [2, 2, 2, 3])
    np.testing.assert_array_equal(where, [77, 77, 77, 3])
