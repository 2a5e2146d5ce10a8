"""rng_bit_generator: split over devices, the same bits and state as on one. rng: copies of a shard are equal."""

from __future__ import annotations

import numpy as np
import pytest
from support.single_op import MESHES, Array, check_all, rule_of

import gspmd
from gspmd.dialect.rule import print_rule
from gspmd.runtime import executable as runtime


def bits(algorithm: str, shape: tuple[int, ...], element: str, state: int = 2) -> str:
    made = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    return f"""
func.func public @main(%s: tensor<{state}xui64>) -> (tensor<{state}xui64>, {made}) {{
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = {algorithm}
    : (tensor<{state}xui64>) -> (tensor<{state}xui64>, {made})
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


SHAPES = [(13,), (8, 12), (7, 9), (5, 6, 7), (3, 1, 10)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
def test_bits_do_not_depend_on_the_split(algorithm: str, shape: tuple[int, ...]) -> None:
    for element, mesh in (("ui32", "4x2"), ("ui32", "3x2"), ("ui64", "4x2")):
        check_all(bits(algorithm, shape, element), states(2), MESHES[mesh])


@pytest.mark.parametrize("element", ["ui8", "i32", "i64", "ui4", "f32", "f64", "bf16", "f8E4M3FN"])
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
def test_element_types(algorithm: str, element: str) -> None:
    check_all(bits(algorithm, (10, 9), element), states(2), MESHES["4x2"], count=1)


@pytest.mark.parametrize("element", ["i32", "f32", "bf16", "ui8"])
def test_bits_that_every_device_makes_have_their_type(element: str) -> None:
    """Shardy's way through XLA takes them for unsigned integers."""
    text = bits("THREE_FRY", (2, 3), element)
    results = runtime.compile(gspmd.partition('sdy.mesh @mesh = <["x"=4]>' + text))(*states(2)[0])
    for result, want in zip(results, runtime.compile_single(text)(*states(2)[0]), strict=True):
        assert result.dtype == want.dtype
        assert np.array_equal(np.asarray(result), want.to_numpy())


def test_counters_of_128_bits() -> None:
    check_all(bits("PHILOX", (9, 14), "ui32", 3), states(3), MESHES["4x2"])


def drawn(distribution: str, element: str, shape: tuple[int, ...]) -> str:
    made = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    return f"""
func.func public @main(%a: tensor<{element}>, %b: tensor<{element}>) -> {made} {{
  %s = stablehlo.constant dense<{list(shape)}> : tensor<{len(shape)}xi64>
  %0 = stablehlo.rng %a, %b, %s, distribution = {distribution}
    : (tensor<{element}>, tensor<{element}>, tensor<{len(shape)}xi64>) -> {made}
  return %0 : {made}
}}
"""


DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32, "ui8": np.uint8, "i64": np.int64}


def draw(text: str, split: str, low: float, high: float, element: str) -> tuple[Array, str]:
    """All numbers, after a look at every copy of every shard; and the module."""
    text = 'sdy.mesh @mesh = <["x"=4, "y"=2]>' + text
    text = text.replace(f"x{element}> {{", f"x{element}> {{sdy.sharding = #sdy.sharding<@mesh, {split}>}}) {{", 1)
    text = text.replace(") -> tensor", ") -> (tensor", 1)
    module = gspmd.partition(text)
    bounds = [np.array(value).astype(DTYPES[element]) for value in (low, high)]
    (result,) = runtime.compile(module)(*bounds)
    whole = result.to_numpy()
    for shard in result.shards:
        np.testing.assert_array_equal(shard.to_numpy(), whole[shard.index])
    return whole, module.module_text


@pytest.mark.parametrize("split", ['[{"x"}, {}]', '[{}, {"y"}]', '[{"y"}, {"x"}]', "[{}, {}]"])
def test_copies_of_drawn_numbers_are_equal_and_shards_are_not(split: str) -> None:
    numbers, module = draw(drawn("UNIFORM", "f32", (30, 41)), split, -1.0, 3.0, "f32")
    assert len(np.unique(numbers)) > 1220
    assert abs(numbers.mean() - 1.0) < 0.15
    assert numbers.min() >= -1.0
    assert numbers.max() < 3.0
    assert module.count('"stablehlo.all_reduce"') == 1
    assert "tensor<4xui32>" in module


@pytest.mark.parametrize("element", DTYPES)
def test_uniform_numbers(element: str) -> None:
    low, high = (3, 11) if element[0] in "ui" else (0.5, 2.5)
    numbers, _ = draw(drawn("UNIFORM", element, (64, 33)), '[{"x"}, {}]', low, high, element)
    assert numbers.min() >= low
    assert numbers.max() < high
    assert abs(numbers.mean(dtype=np.float64) - (6.5 if element[0] in "ui" else 1.5)) < 0.3


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
def test_normal_numbers(element: str) -> None:
    numbers, _ = draw(drawn("NORMAL", element, (64, 65)), '[{}, {"x"}]', 2.0, 0.5, element)
    wide = numbers.astype(np.float64)
    assert abs(wide.mean() - 2.0) < 0.05
    assert abs(wide.std() - 0.5) < 0.05
    assert abs((np.abs(wide - 2.0) < 0.5).mean() - 0.683) < 0.05
