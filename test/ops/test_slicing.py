"""slice, pad, concatenate, reverse: rules and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from single_op import MESHES, check, rule_of
from test_gather import table

from gspmd.dialect.rule import print_rule


def unary(name: str, operand: str, result: str, attributes: str) -> str:
    return f"""
func.func public @main(%x: tensor<{operand}xf32>) -> tensor<{result}xf32> {{
  %0 = "stablehlo.{name}"(%x) <{{{attributes}}}> : (tensor<{operand}xf32>) -> tensor<{result}xf32>
  return %0 : tensor<{result}xf32>
}}
"""


SLICE = unary(
    "slice", "10x9x6", "7x9x6",
    "start_indices = array<i64: 1, 0, 0>, limit_indices = array<i64: 8, 9, 6>, strides = array<i64: 1, 1, 1>",
)  # fmt: skip
STRIDED = unary(
    "slice", "10x9x6", "10x5x6",
    "start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 10, 9, 6>, strides = array<i64: 1, 2, 1>",
)  # fmt: skip
REVERSE = unary("reverse", "10x9x6", "10x9x6", "dimensions = array<i64: 1>")
PAD = """
func.func public @main(%x: tensor<10x9x6xf32>, %p: tensor<f32>) -> tensor<10x13x6xf32> {
  %0 = stablehlo.pad %x, %p, low = [0, -1, 0], high = [0, -3, 0], interior = [0, 1, 0]
    : (tensor<10x9x6xf32>, tensor<f32>) -> tensor<10x13x6xf32>
  return %0 : tensor<10x13x6xf32>
}
"""
CONCATENATE = """
func.func public @main(%x: tensor<10x9x6xf32>, %y: tensor<10x2x6xf32>) -> tensor<10x11x6xf32> {
  %0 = stablehlo.concatenate %x, %y, dim = 1
    : (tensor<10x9x6xf32>, tensor<10x2x6xf32>) -> tensor<10x11x6xf32>
  return %0 : tensor<10x11x6xf32>
}
"""


def test_rules() -> None:
    assert print_rule(rule_of(SLICE)) == "([k, i, j])->([l, i, j]) {i=9, j=6, k=10, l=7} need_replication={k, l}"
    assert print_rule(rule_of(STRIDED)) == "([i, k, j])->([i, l, j]) {i=10, j=6, k=9, l=5} need_replication={k, l}"
    assert print_rule(rule_of(REVERSE)) == "([i, j, k])->([i, j, k]) {i=10, j=9, k=6} need_replication={j}"
    assert print_rule(rule_of(PAD)) == "([i, k, j], [])->([i, l, j]) {i=10, j=6, k=9, l=13} need_replication={k, l}"
    assert print_rule(rule_of(CONCATENATE)) == (
        "([i, k, j], [i, l, j])->([i, m, j]) {i=10, j=6, k=9, l=2, m=11} need_replication={k, l, m}"
    )


def test_slice_that_keeps_everything_passes_everything_through() -> None:
    text = unary(
        "slice", "10x9", "10x9",
        "start_indices = array<i64: 0, 0>, limit_indices = array<i64: 10, 9>, strides = array<i64: 1, 1>",
    )  # fmt: skip
    assert print_rule(rule_of(text)) == "([i, j])->([i, j]) {i=10, j=9}"


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("text", [SLICE, STRIDED, REVERSE], ids=["slice", "strided", "reverse"])
def test_unary(mesh: str, text: str) -> None:
    check(text, [table((10, 9, 6))], MESHES[mesh])


@pytest.mark.parametrize("mesh", MESHES)
def test_pad(mesh: str) -> None:
    check(PAD, [table((10, 9, 6)), np.float32(3.5)], MESHES[mesh])


@pytest.mark.parametrize("mesh", MESHES)
def test_concatenate(mesh: str) -> None:
    check(CONCATENATE, [table((10, 9, 6)), table((10, 2, 6), seed=1)], MESHES[mesh])
