"""cholesky, triangular_solve, fft: rules and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from single_op import MESHES, Array, check, rule_of

from gspmd.dialect.rule import print_rule

CHOLESKY = """
func.func public @main(%x: tensor<5x3x4x4xf32>) -> tensor<5x3x4x4xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<5x3x4x4xf32>
  return %0 : tensor<5x3x4x4xf32>
}
"""


def solve(on_the_left: bool) -> str:
    sides = "3x4x7" if on_the_left else "3x7x4"
    return f"""
func.func public @main(%a: tensor<3x4x4xf32>, %b: tensor<{sides}xf32>) -> tensor<{sides}xf32> {{
  %0 = "stablehlo.triangular_solve"(%a, %b) <{{
    left_side = {str(on_the_left).lower()}, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose NO_TRANSPOSE>
  }}> : (tensor<3x4x4xf32>, tensor<{sides}xf32>) -> tensor<{sides}xf32>
  return %0 : tensor<{sides}xf32>
}}
"""


FFT = """
func.func public @main(%x: tensor<5x6x8xf32>) -> tensor<5x6x5xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = RFFT, length = [8] : (tensor<5x6x8xf32>) -> tensor<5x6x5xcomplex<f32>>
  return %0 : tensor<5x6x5xcomplex<f32>>
}
"""


def matrices(batch: tuple[int, ...]) -> Array:
    """Symmetric and positive definite, 4 x 4."""
    half = np.random.default_rng(0).standard_normal((*batch, 4, 4)).astype(np.float32)
    return half @ half.swapaxes(-1, -2) + 4 * np.eye(4, dtype=np.float32)


def test_rules() -> None:
    assert print_rule(rule_of(CHOLESKY)) == (
        "([i, j, k, l])->([i, j, m, n]) {i=5, j=3, k=4, l=4, m=4, n=4} need_replication={k, l, m, n}"
    )
    assert print_rule(rule_of(solve(True))) == (
        "([i, k, l], [i, m, j])->([i, n, j]) {i=3, j=7, k=4, l=4, m=4, n=4} need_replication={k, l, m, n}"
    )
    assert print_rule(rule_of(solve(False))) == (
        "([i, k, l], [i, j, m])->([i, j, n]) {i=3, j=7, k=4, l=4, m=4, n=4} need_replication={k, l, m, n}"
    )
    assert print_rule(rule_of(FFT)) == "([i, j, k])->([i, j, l]) {i=5, j=6, k=8, l=5} need_replication={k, l}"


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
def test_cholesky(mesh: str) -> None:
    check(CHOLESKY, [matrices((5, 3))], MESHES[mesh], tolerance=1e-6)


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
@pytest.mark.parametrize("on_the_left", [True, False])
def test_triangular_solve(mesh: str, on_the_left: bool) -> None:
    sides = np.random.default_rng(1).standard_normal((3, 4, 7) if on_the_left else (3, 7, 4)).astype(np.float32)
    check(solve(on_the_left), [matrices((3,)), sides], MESHES[mesh], tolerance=1e-6)


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
def test_fft(mesh: str) -> None:
    check(FFT, [np.random.default_rng(1).standard_normal((5, 6, 8)).astype(np.float32)], MESHES[mesh], tolerance=1e-6)
