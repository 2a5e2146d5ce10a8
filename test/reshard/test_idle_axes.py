"""Axes that a program leaves idle share work: less is sent, and the numbers are those of the whole program."""

from __future__ import annotations

import numpy as np
import pytest

from gspmd import api
from gspmd.runtime import executable as runtime

# A few rows against a large matrix that is split over "x", which holds the rows as well; "y" is idle.
PROGRAM = """
sdy.mesh @mesh = <["x"={x}, "y"={y}]>
func.func public @main(%a: tensor<{rows}x256xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
                       %b: tensor<256x512xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
                       -> (tensor<{rows}x512xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<{rows}x256xf32>, tensor<256x512xf32>) -> tensor<{rows}x512xf32>
  return %r : tensor<{rows}x512xf32>
}}
"""


@pytest.mark.parametrize(("x", "y", "rows"), [(4, 2, 8), (2, 4, 8), (4, 2, 7)])
def test_a_product_of_few_rows_gathers_a_part_of_the_matrix(x: int, y: int, rows: int) -> None:
    partitioned = api.partition(PROGRAM.format(x=x, y=y, rows=rows))
    sent = sum(c.bytes * (c.count or 1) for c in partitioned.collectives)
    assert sent < 256 * 512 * 4 * (x - 1) / x / 1.5
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((rows, 256), (256, 512)))
    (result,) = runtime.compile(partitioned.module_text, padding="nan")(a, b)
    for shard in result.shards:
        np.testing.assert_array_equal(shard.to_numpy(), (a @ b)[shard.index])
