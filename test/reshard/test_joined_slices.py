"""Rolling and wrapping: slices of one value, put together again, move once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gspmd import api
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh
from gspmd.runtime import executable as runtime

MESHES = [Mesh((("x", 8),)), Mesh((("x", 2), ("y", 3)), (4, 1, 3, 0, 5, 2)), Mesh((("x", 3),))]


def program(mesh: Mesh, size: int, parts: list[tuple[int, int]], twice: bool = False) -> str:
    """A function that puts the parts [start, limit) of its argument together along a split dimension."""
    axes = ", ".join(f'"{name}"' for name, _ in mesh.axes)
    split = f"sdy.sharding = #sdy.sharding<@mesh, [{{{axes}}}, {{}}]>"
    result = sum(limit - start for start, limit in parts)
    whole, made = f"tensor<{size}x2xf32>", f"tensor<{result}x2xf32>"
    types = [f"tensor<{limit - start}x2xf32>" for start, limit in parts]
    lines = [
        f"%s{i} = stablehlo.slice %x [{start}:{limit}, 0:2] : ({whole}) -> {type_}"
        for i, ((start, limit), type_) in enumerate(zip(parts, types, strict=True))
    ]
    operands = ", ".join(f"%s{i}" for i in range(len(parts)))
    lines.append(f"%r = stablehlo.concatenate {operands}, dim = 0 : ({', '.join(types)}) -> {made}")
    also = f", {types[0]}" if twice else ""
    lines.append(f"return %r{', %s0' if twice else ''} : {made}{also}")
    body = "\n".join(lines)
    return (
        f"sdy.mesh @mesh = {print_mesh(mesh)}\n"
        f"func.func public @main(%x: {whole} {{{split}}}) -> ({made} {{{split}}}{also}) {{\n{body}\n}}\n"
    )


def run(mesh: Mesh, size: int, parts: list[tuple[int, int]], twice: bool = False) -> api.Partitioned:
    partitioned = api.partition(program(mesh, size, parts, twice))
    array = np.arange(2 * size, dtype=np.float32).reshape(size, 2) + 1
    results = runtime.compile(partitioned.module_text, padding="nan")(array)
    wanted = [np.concatenate([array[start:limit] for start, limit in parts]), array[slice(*parts[0])]]
    for result, want in zip(results, wanted, strict=False):
        for shard in result.shards:
            np.testing.assert_array_equal(shard.to_numpy(), want[shard.index], f"{parts} of {size}")
    return partitioned


@pytest.mark.parametrize("mesh", MESHES, ids=print_mesh)
def test_rolls(mesh: Mesh) -> None:
    for size, shift in ((16, 1), (17, 5), (24, 12), (5, 2)):
        run(mesh, size, [(size - shift, size), (0, size - shift)])


@pytest.mark.parametrize("mesh", MESHES, ids=print_mesh)
def test_any_slices(mesh: Mesh) -> None:
    rng = random.Random(mesh.size)
    for _ in range(6):
        size = rng.randint(2, 20)
        starts = [rng.randint(0, size - 1) for _ in range(rng.randint(2, 4))]
        run(mesh, size, [(start, rng.randint(start, size)) for start in starts] + [(0, 1)], twice=rng.random() < 0.3)


def test_a_roll_sends_what_moves() -> None:
    one = run(MESHES[0], 64, [(63, 64), (0, 63)]).collectives
    assert [(c.kind, c.bytes) for c in one] == [("collective_permute", 8)]
    half = run(MESHES[0], 64, [(32, 64), (0, 32)]).collectives
    assert [(c.kind, c.bytes) for c in half] == [("collective_permute", 64)]


def test_a_value_padded_with_itself_sends_what_moves() -> None:
    sent = sum(c.bytes for c in run(MESHES[0], 8192, [(8190, 8192), (0, 8192), (0, 6)]).collectives)
    assert sent <= 2 * 4 * 2048, "no more than two shards"
