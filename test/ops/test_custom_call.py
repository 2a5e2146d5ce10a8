"""custom_call of targets that place values, and JAX's calls of LAPACK, whose batches are independent."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.single_op import rule_of

import gspmd
from gspmd.dialect.rule import print_rule
from gspmd.runtime import executable as runtime


def call(target: str) -> str:
    return f"""
func.func public @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {{
  %0 = stablehlo.custom_call @{target}(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}}
"""


@pytest.mark.parametrize("target", ["annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint"])
def test_placement_in_memory_passes_everything_through(target: str) -> None:
    assert print_rule(rule_of(call(target))) == "([i, j])->([i, j]) {i=8, j=4}"


def test_batches_of_the_solvers_of_tpus_pass_through() -> None:
    text = """
func.func public @main(%x: tensor<8x3x4x4xf32>) -> (tensor<8x3x4x4xf32>, tensor<8x3x4xi32>, tensor<8x3x4xi32>) {
  %0:3 = stablehlo.custom_call @LuDecomposition(%x)
    : (tensor<8x3x4x4xf32>) -> (tensor<8x3x4x4xf32>, tensor<8x3x4xi32>, tensor<8x3x4xi32>)
  return %0#0, %0#1, %0#2 : tensor<8x3x4x4xf32>, tensor<8x3x4xi32>, tensor<8x3x4xi32>
}
"""
    rule = rule_of(text)
    assert print_rule(rule).startswith("([i, j, k, l])->([i, j, m, n], [i, j, o], [i, j, p])")
    assert rule.even == {0, 1}


@pytest.mark.parametrize("split", ['[{"x"}, {}, {}]', "[{}, {}, {}]"])
def test_a_batch_of_eigenproblems_stays_split(split: str) -> None:
    matrices = np.random.default_rng(0).standard_normal((6, 4, 4)).astype(np.float32)
    matrices = matrices + matrices.swapaxes(1, 2)
    text = jax.jit(jnp.linalg.eigvalsh).lower(matrices).as_text()
    place = f"%arg0: tensor<6x4x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, {split}>}})"
    text = text.replace("%arg0: tensor<6x4x4xf32>)", place, 1)
    text = text.replace("mhlo.num_partitions = 1", "mhlo.num_partitions = 2")
    text = text.replace("{\n", '{\n  sdy.mesh @mesh = <["x"=2]>\n', 1)
    partitioned = gspmd.partition(text)
    assert "lapack_ssyevd" in partitioned.module_text
    assert "sdy." not in partitioned.module_text
    assert not partitioned.collectives
    (result,) = runtime.compile(partitioned)(matrices)
    np.testing.assert_allclose(result.to_numpy(), np.linalg.eigvalsh(matrices), rtol=1e-4, atol=1e-5)
