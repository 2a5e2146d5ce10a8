"""Scatters of one element a row, which ingest writes as comparisons, give what they gave; -0.0 added to zeros stays."""

from __future__ import annotations

import numpy as np
import pytest

from gspmd import api
from gspmd.runtime import executable as runtime

_SCATTERED = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%l: tensor<8xf32>, %i: tensor<8x1xi32>)
    -> (tensor<8x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}}) {{
  %zeros = stablehlo.constant dense<0.0> : tensor<8x6xf32>
  %0 = "stablehlo.scatter"(%zeros, %i, %l) <{{
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 1>
  }}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %{written} : tensor<f32>
  }}) : (tensor<8x6xf32>, tensor<8x1xi32>, tensor<8xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}}
"""
_PLACES = np.array([0, 5, -1, 6, 3, 2**31 - 1, -(2**31), 1], np.int32)
_NUMBERS = np.array([1.5, -0.0, np.nan, 2.0, np.inf, -1.0, 0.5, 0.0], np.float32)


def _results(text: str, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one device, and of all."""
    (want,) = [value.to_numpy() for value in runtime.compile_single(text)(*inputs)]
    (found,) = runtime.compile(api.partition(text).module, padding="nan")(*inputs)
    return want, found.to_numpy()


@pytest.mark.parametrize("written", ["sum", "b"])
def test_a_scatter_into_zeros(written: str) -> None:
    want, found = _results(_SCATTERED.format(written=written), _NUMBERS, _PLACES[:, None])
    np.testing.assert_array_equal(found, want)
    if written == "b":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(want))
