"""cholesky, triangular_solve, fft: rules and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from support.single_op import MESHES, Array, check, partition, rule_of

import gspmd
from gspmd.dialect.rule import print_rule
from gspmd.runtime import executable as runtime

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


def fft(kind: str, shape: tuple[int, ...], count: int) -> str:
    """Transforms the last `count` dimensions; `shape` is that of the real numbers, or of both sides."""
    half = (*shape[:-1], shape[-1] // 2 + 1)
    operand = (half if kind == "IRFFT" else shape, "f32" if kind == "RFFT" else "complex<f32>")
    result = (half if kind == "RFFT" else shape, "f32" if kind == "IRFFT" else "complex<f32>")
    before, after = (f"tensor<{'x'.join(map(str, dims))}x{element}>" for dims, element in (operand, result))
    return f"""
func.func public @main(%x: {before}) -> {after} {{
  %0 = stablehlo.fft %x, type = {kind}, length = {list(shape[-count:])} : ({before}) -> {after}
  return %0 : {after}
}}
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
    assert print_rule(rule_of(fft("RFFT", (5, 6, 8), 1))) == "([i, j, k])->([i, j, k]) {i=5, j=6, k=8} permutation={k}"
    assert print_rule(rule_of(fft("FFT", (8,), 1))) == "([i])->([j]) {i=8, j=8} need_replication={i, j}"


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
def test_cholesky(mesh: str) -> None:
    check(CHOLESKY, [matrices((5, 3))], MESHES[mesh], tolerance=1e-6)


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
@pytest.mark.parametrize("on_the_left", [True, False])
def test_triangular_solve(mesh: str, on_the_left: bool) -> None:
    sides = np.random.default_rng(1).standard_normal((3, 4, 7) if on_the_left else (3, 7, 4)).astype(np.float32)
    check(solve(on_the_left), [matrices((3,)), sides], MESHES[mesh], tolerance=1e-6)


@pytest.mark.parametrize("shape", [((5, 6, 8), 1), ((6, 9), 2), ((3, 7, 10), 3)])
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_fft(kind: str, shape: tuple[tuple[int, ...], int]) -> None:
    values = np.random.default_rng(1).standard_normal(shape[0])
    if kind == "IRFFT":
        values = np.fft.rfftn(values, axes=range(-shape[1], 0))
    values = values.astype(np.float32 if kind == "RFFT" else np.complex64)
    for mesh in ("8", "4x2", "3x2"):
        check(fft(kind, *shape), [values], MESHES[mesh], tolerance=1e-5)


def test_a_transform_of_two_dimensions_moves_its_split_twice() -> None:
    text = partition(fft("FFT", (64, 64), 2), MESHES["8"], {0: MESHES["8"].all_axes()})
    assert text.count('"stablehlo.all_to_all"') == 2
    assert "all_gather" not in text


MOVED = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8x4x3xcomplex<f64>> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>})
    -> (tensor<8x4x3xcomplex<f64>> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {"x":(2)2}]>}) {
  %0 = stablehlo.fft %a, type = IFFT, length = [3] : (tensor<8x4x3xcomplex<f64>>) -> tensor<8x4x3xcomplex<f64>>
  return %0 : tensor<8x4x3xcomplex<f64>>
}
"""


def test_an_fft_beside_a_move_has_a_layout_that_it_runs_with() -> None:
    draw = np.random.default_rng(1)
    values = draw.standard_normal((8, 4, 3)) + 1j * draw.standard_normal((8, 4, 3))
    (result,) = runtime.compile(gspmd.partition(MOVED))(values)
    np.testing.assert_allclose(result.to_numpy(), np.fft.ifft(values), rtol=1e-12)
