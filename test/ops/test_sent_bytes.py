"""What strategies take an operation to send in its local form is what that sends: to the byte, split at random."""

from __future__ import annotations

import random

import pytest
from support.indexing_cases import Maker
from support.local_sent import check_sent
from support.random_windows import FAMILIES


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", FAMILIES)
def test_windows(family: str, seed: int) -> None:
    rng = random.Random(f"{family} {seed}")
    check_sent(FAMILIES[family](rng).text, rng)


@pytest.mark.parametrize("seed", range(16))
def test_lookups_and_updates(seed: int) -> None:
    check_sent(Maker(seed).case().module(), random.Random(seed))


SIZES = [8, 9, 13, 16, 17]


def program(arguments: list[str], operation: str, result: str) -> str:
    """A function of one operation on f32 tensors of these shapes, %0, %1 and so on, before its types."""
    types = [f"tensor<{shape}f32>" for shape in arguments]
    given = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(types))
    result = f"tensor<{result}f32>"
    return f"""
    func.func public @main({given}) -> {result} {{
      %0 = {operation} : ({", ".join(types)}) -> {result}
      return %0 : {result}
    }}"""


@pytest.mark.parametrize("seed", range(12))
def test_slices(seed: int) -> None:
    """Of two dimensions at once, the second of which may keep so little that each device finds its part."""
    rng = random.Random(seed)
    sizes, cuts, kept = [rng.choice(SIZES), rng.choice(SIZES)], [], []
    for size in sizes:
        start, stride = rng.randrange(size - 1), rng.choice([1, 1, 2, 3])
        limit = rng.randint(start + 1, size)
        cuts.append(f"{start}:{limit}:{stride}")
        kept.append(-(-(limit - start) // stride))
    text = program([f"{sizes[0]}x{sizes[1]}x"], f"stablehlo.slice %a0 [{', '.join(cuts)}]", f"{kept[0]}x{kept[1]}x")
    check_sent(text, rng)


@pytest.mark.parametrize("seed", range(12))
def test_pads(seed: int) -> None:
    rng = random.Random(seed)
    size = [rng.choice(SIZES), 6]
    low, high, interior = [rng.randint(-2, 4) for _ in size], [rng.randint(-2, 4) for _ in size], [rng.randint(0, 2), 0]
    result = [(n - 1) * (i + 1) + 1 + a + b for n, i, a, b in zip(size, interior, low, high, strict=True)]
    operation = f"stablehlo.pad %a0, %a1, low = {low}, high = {high}, interior = {interior}"
    check_sent(program([f"{size[0]}x6x", ""], operation, f"{result[0]}x{result[1]}x"), rng)


@pytest.mark.parametrize("seed", range(8))
def test_concatenations(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([1, 3, 4, 8, 9]) for _ in range(3)]
    operation = "stablehlo.concatenate %a0, %a1, %a2, dim = 0"
    check_sent(program([f"{n}x6x" for n in sizes], operation, f"{sum(sizes)}x6x"), rng)


@pytest.mark.parametrize("size", SIZES)
def test_reversals(size: int) -> None:
    shape = f"{size}x6x"
    text = program([shape], "stablehlo.reverse %a0, dims = [0, 1]", shape)
    check_sent(text.replace(f"(tensor<{shape}f32>) -> ", "", 1), random.Random(size))


@pytest.mark.parametrize("seed", range(8))
def test_reshapes_between_uneven_tiles(seed: int) -> None:
    rng = random.Random(seed)
    major, minor = rng.choice([2, 3, 4, 6]), rng.choice([2, 3, 4, 5, 8])
    apart, together = f"{major}x{minor}x6x", f"{major * minor}x6x"
    source, target = (apart, together) if seed % 2 else (together, apart)
    check_sent(program([source], "stablehlo.reshape %a0", target), rng)
