"""reshape: dimensions split and merged, evenly and not, on every mesh."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from support.single_op import MESHES, check, rules_of

from gspmd.dialect.rule import print_rule


def reshape(source: tuple[int, ...], target: tuple[int, ...]) -> str:
    a, b = (f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in (source, target))
    return f"""
func.func public @main(%x: {a}) -> {b} {{
  %0 = stablehlo.reshape %x : ({a}) -> {b}
  return %0 : {b}
}}
"""


def numbered(shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return (np.arange(math.prod(shape), dtype=np.float32) + 1).reshape(shape)


def test_rules() -> None:
    assert [print_rule(rule) for rule in rules_of(reshape((6, 8), (4, 12)))] == [
        "([ij, k])->([il, m]) {i=2, j=3, k=8, l=2, m=12} need_replication={j, k, l, m}",
        "([i, j])->([i, k]) {i=6, j=8, k=12} need_replication={j, k} permutation={i}",
    ]
    assert [print_rule(rule) for rule in rules_of(reshape((6, 8), (6, 1, 8)))] == [
        "([i, j])->([i, k, j]) {i=6, j=8, k=1} need_replication={k}"
    ]
    assert len(rules_of(reshape((10, 7, 12), (2, 5, 7, 4, 3)))) == 4


CASES = [
    ((10,), (2, 5)),
    ((6, 8), (48,)),
    ((6, 8), (4, 12)),
    ((3, 5, 4), (15, 4)),
    ((10, 7, 12), (2, 5, 7, 4, 3)),
    ((3, 1, 7, 5), (7, 3, 5)),
    ((2, 3), (3, 1, 2)),
]


@pytest.mark.parametrize("mesh", ["8", "4x2", "3", "3x2"])
@pytest.mark.parametrize("shapes", CASES, ids=str)
def test_reshape(mesh: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check(reshape(*shapes), [numbered(shapes[0])], MESHES[mesh])


def factored(size: int, rng: random.Random) -> tuple[int, ...]:
    """Dimensions that multiply to a size."""
    found: list[int] = []
    while size > 1:
        found.append(rng.choice([n for n in range(2, size + 1) if size % n == 0]))
        size //= found[-1]
    return tuple(found) or (1,)


@pytest.mark.parametrize("mesh", MESHES)
def test_random_reshapes(mesh: str) -> None:
    rng = random.Random(len(mesh))
    for _ in range(5):
        size = rng.choice([6, 12, 15, 24, 30, 36, 60])
        source, target = factored(size, rng), factored(size, rng)
        check(reshape(source, target), [numbered(source)], MESHES[mesh], count=2)
