"""constant and iota: per-device results."""

from __future__ import annotations

import pytest
from support.single_op import MESHES, check


def constant(value: str, type_: str) -> str:
    return f"""
func.func public @main() -> {type_} {{
  %0 = stablehlo.constant dense<{value}> : {type_}
  return %0 : {type_}
}}
"""


@pytest.mark.parametrize(
    ("value", "element"),
    [("1.5", "f32"), ("true", "i1"), ("(1.5, -0.0)", "complex<f32>"), ("7", "ui8"), ("0xFF800000", "f32")],
)
def test_uniform_constants(value: str, element: str) -> None:
    check(constant(value, f"tensor<5x8x{element}>"), [], MESHES["4x2"])


def test_other_constants() -> None:
    check(constant("[[1, 2, 3], [4, 5, 6]]", "tensor<2x3xi32>"), [], MESHES["3x2"])
    text = constant("[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]", "tensor<3xcomplex<f32>>")
    check(text, [], MESHES["4x2"])


@pytest.mark.parametrize("element", ["i32", "f32", "ui8", "complex<f32>"])
def test_iota(element: str) -> None:
    text = f"""
func.func public @main() -> tensor<5x11x{element}> {{
  %0 = stablehlo.iota dim = 1 : tensor<5x11x{element}>
  return %0 : tensor<5x11x{element}>
}}
"""
    check(text, [], MESHES["4x2"])


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_iota_beyond_what_a_short_float_counts(element: str) -> None:
    text = f"""
func.func public @main() -> tensor<4100x{element}> {{
  %0 = stablehlo.iota dim = 0 : tensor<4100x{element}>
  return %0 : tensor<4100x{element}>
}}
"""
    check(text, [], MESHES["8"])
