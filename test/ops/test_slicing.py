"""slice, pad, concatenate, reverse: rules and per-device results."""

from __future__ import annotations

import argparse
import random
from typing import Any

import numpy as np
import pytest
from support.made_arrays import table
from support.single_op import MESHES, check, rule_of

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.rule import print_rule


def unary(name: str, operand: str, result: str, attributes: str) -> str:
    return f"""
func.func public @main(%x: tensor<{operand}xf32>) -> tensor<{result}xf32> {{
  %0 = "stablehlo.{name}"(%x) <{{{attributes}}}> : (tensor<{operand}xf32>) -> tensor<{result}xf32>
  return %0 : tensor<{result}xf32>
}}
"""


def slice_(size: int, start: int, limit: int, stride: int = 1) -> str:
    return unary(
        "slice",
        f"{size}x3",
        f"{-(-(limit - start) // stride)}x3",
        f"start_indices = array<i64: {start}, 0>, limit_indices = array<i64: {limit}, 3>, "
        f"strides = array<i64: {stride}, 1>",
    )


def pad(size: int, low: int, high: int, interior: int = 0) -> str:
    result = low + high + size + max(size - 1, 0) * interior
    return f"""
func.func public @main(%x: tensor<{size}x3xf32>, %p: tensor<f32>) -> tensor<{result}x3xf32> {{
  %0 = stablehlo.pad %x, %p, low = [{low}, 0], high = [{high}, 0], interior = [{interior}, 0]
    : (tensor<{size}x3xf32>, tensor<f32>) -> tensor<{result}x3xf32>
  return %0 : tensor<{result}x3xf32>
}}
"""


REVERSE = unary("reverse", "10x9x6", "10x9x6", "dimensions = array<i64: 1, 2>")


def concatenate(*sizes: int) -> str:
    types = [f"tensor<{size}x3xf32>" for size in sizes]
    arguments = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(types))
    result = f"tensor<{sum(sizes)}x3xf32>"
    return f"""
func.func public @main({arguments}) -> {result} {{
  %0 = stablehlo.concatenate {", ".join(f"%x{i}" for i in range(len(sizes)))}, dim = 0
    : ({", ".join(types)}) -> {result}
  return %0 : {result}
}}
"""


def test_rules_of_slices() -> None:
    assert print_rule(rule_of(slice_(16, 0, 16))) == "([i, j])->([i, j]) {i=16, j=3}"
    assert print_rule(rule_of(slice_(16, 1, 15))) == "([i, j])->([i, j]) {i=16, j=3} permutation={i}"
    assert print_rule(rule_of(slice_(16, 1, 16, 2))) == "([i, j])->([i, j]) {i=16, j=3} permutation={i}"
    assert print_rule(rule_of(slice_(16, 8, 16))) == "([i, j])->([i, j]) {i=16, j=3} permutation={i}"
    assert print_rule(rule_of(slice_(16, 15, 16))) == (
        "([i, j])->([k, j]) {i=16, j=3, k=1} reduction={i} need_replication={k}"
    )


def test_rules_of_pads() -> None:
    assert print_rule(rule_of(pad(16, 0, 0))) == "([i, j], [])->([i, j]) {i=16, j=3}"
    assert print_rule(rule_of(pad(16, 2, -1))) == "([i, j], [])->([i, j]) {i=16, j=3} permutation={i}"
    assert print_rule(rule_of(pad(16, 0, 0, 1))) == "([i, j], [])->([i, j]) {i=16, j=3} permutation={i}"
    assert print_rule(rule_of(pad(16, 16, 0))) == "([i, j], [])->([i, j]) {i=16, j=3} permutation={i}"


def test_rules_of_others() -> None:
    assert print_rule(rule_of(REVERSE)) == "([i, j, k])->([i, j, k]) {i=10, j=9, k=6} permutation={j, k}"
    assert print_rule(rule_of(concatenate(9, 5))) == "([i, j], [i, j])->([i, j]) {i=14, j=3} permutation={i}"
    assert print_rule(rule_of(concatenate(1, 9))) == (
        "([k, j], [i, j])->([i, j]) {i=10, j=3, k=1} need_replication={k} permutation={i}"
    )


SLICES = [
    (16, 0, 14, 1),
    (16, 2, 16, 1),
    (17, 2, 15, 1),
    (16, 0, 16, 2),
    (17, 1, 17, 3),
    (24, 3, 22, 4),
    (13, 1, 13, 1),
    (16, 8, 16, 1),
    (17, 0, 9, 1),
    (24, 20, 24, 1),
    (29, 5, 28, 5),
    (7, 1, 4, 1),
]


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
@pytest.mark.parametrize("cut", SLICES, ids=str)
def test_slice(mesh: str, cut: tuple[int, int, int, int]) -> None:
    check(slice_(*cut), [table((cut[0], 3))], MESHES[mesh], count=1)


PADS = [
    (16, 1, 0, 0),
    (16, 0, 1, 0),
    (17, 2, 2, 0),
    (16, -1, 1, 0),
    (16, 1, -3, 0),
    (16, 0, 0, 1),
    (13, 3, -2, 2),
    (5, 40, 3, 0),
    (9, -7, 30, 1),
]


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
@pytest.mark.parametrize("amounts", PADS, ids=str)
def test_pad(mesh: str, amounts: tuple[int, int, int, int]) -> None:
    check(pad(*amounts), [table((amounts[0], 3)), np.float32(3.5)], MESHES[mesh], count=1)


@pytest.mark.parametrize("mesh", MESHES)
def test_reverse(mesh: str) -> None:
    check(REVERSE, [table((10, 9, 6))], MESHES[mesh], count=3)


@pytest.mark.parametrize("mesh", ["8", "4x2", "3x2"])
@pytest.mark.parametrize(
    "sizes", [(9, 5), (1, 15), (16, 1), (17, 2, 1), (1, 1, 16, 2), (8, 8), (5, 0, 7), (3,) * 6], ids=str
)
def test_concatenate(mesh: str, sizes: tuple[int, ...]) -> None:
    inputs = [table((size, 3), seed=size + index) for index, size in enumerate(sizes)]
    check(concatenate(*sizes), inputs, MESHES[mesh], count=1)


def random_case(rng: random.Random) -> tuple[str, list[Any]]:
    """An operation, mostly of few elements, and its inputs."""
    name = rng.choice(["slice", "pad", "concatenate", "reverse"])
    size = rng.randint(2, rng.choice([3, 9, 40]))
    if name == "slice":
        start = rng.randint(0, size - 1)
        text = slice_(size, start, rng.randint(start + 1, size), rng.choice([1, 1, 2, 3, 5]))
    elif name == "pad":
        low, interior = rng.randint(-size, 2 * size), rng.choice([0, 0, 1, 2])
        least = 1 - size - max(size - 1, 0) * interior - low
        text = pad(size, low, rng.randint(max(least, -size), max(least, 2 * size)), interior)
        return text, [table((size, 3)), np.float32(3.5)]
    elif name == "concatenate":
        sizes = [rng.randint(0, size) for _ in range(rng.randint(1, 4))] + [2]
        return concatenate(*sizes), [table((n, 3), seed=i) for i, n in enumerate(sizes)]
    else:
        text = unary("reverse", f"{size}x3", f"{size}x3", "dimensions = array<i64: 0>")
    return text, [table((size, 3))]


@pytest.mark.parametrize("mesh", MESHES)
def test_random_moves(mesh: str) -> None:
    sweep(MESHES[mesh], 8, len(mesh))


def sweep(mesh: Mesh, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        text, inputs = random_case(rng)
        check(text, inputs, mesh, count=1, seed=seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Random slices, pads, concatenations and reversals on every mesh.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for chosen in MESHES.values():
        sweep(chosen, arguments.count, arguments.seed)
