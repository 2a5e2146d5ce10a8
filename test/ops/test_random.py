"""rng_bit_generator: split over devices, the same bits and the same state as on one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from single_op import MESHES, Array, check_all, rule_of

from gspmd.dialect.rule import print_rule


def bits(algorithm: str, shape: tuple[int, ...], element: str, state: int = 2) -> str:
    made = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    return f"""
func.func public @main(%s: tensor<{state}xui64>) -> (tensor<{state}xui64>, {made}) {{
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<{state}xui64>) -> (tensor<{state}xui64>, {made})
  return %0#0, %0#1 : tensor<{state}xui64>, {made}
}}
"""


def states(size: int) -> list[list[Array]]:
    """Two: one of small numbers, and one whose counters overflow."""
    large = [0x1234567890ABCDEF, 2**64 - 3, 2**64 - 1]
    return [[np.array(values[:size], np.uint64)] for values in ([7, 0, 5], large)]


def test_rules() -> None:
    rule = "([i])->([j], [k, l]) {i=2, j=2, k=8, l=6} need_replication={i, j"
    assert print_rule(rule_of(bits("DEFAULT", (8, 6), "ui32"))) == rule + ", k, l}"
    for algorithm in ("THREE_FRY", "PHILOX"):
        text = "([k])->([l], [i, j]) {i=8, j=6, k=2, l=2} need_replication={k, l}"
        assert print_rule(rule_of(bits(algorithm, (8, 6), "ui32"))) == text


SHAPES = [(24,), (13,), (8, 12), (12, 7), (7, 9), (5, 6, 7), (3, 1, 10)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
def test_bits_do_not_depend_on_the_split(algorithm: str, shape: tuple[int, ...]) -> None:
    for element, mesh in itertools.product(("ui32", "ui64"), ("4x2", "3x2")):
        check_all(bits(algorithm, shape, element), states(2), MESHES[mesh])


@pytest.mark.parametrize("element", ["ui8", "i16", "i32", "i64", "ui4", "f32", "f64", "bf16", "f16", "f8E4M3FN"])
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
def test_element_types(algorithm: str, element: str) -> None:
    check_all(bits(algorithm, (10, 9), element), states(2), MESHES["4x2"], count=1)


def test_counters_of_128_bits() -> None:
    check_all(bits("PHILOX", (9, 14), "ui32", 3), states(3), MESHES["4x2"])
