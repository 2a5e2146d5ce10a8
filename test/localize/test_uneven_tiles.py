"""Tiles whose boundaries do not nest: other tiles for one dimension, and axes moved from one dimension to another."""

from __future__ import annotations

import random

import numpy as np
import pytest
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, Axis, canonical
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes, print_mesh, print_sharding
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.pass_manager import PassManager
from gspmd.runtime import executable as runtime
from gspmd.transforms.localize import Localize
from gspmd.transforms.parsing.mlir import new_context, parse_module

MESHES = [
    Mesh((("x", 8),)),
    Mesh((("x", 4), ("y", 2))),
    Mesh((("x", 2), ("y", 2), ("z", 2)), (3, 1, 0, 2, 6, 7, 5, 4)),
    Mesh((("x", 2), ("y", 3)), (4, 1, 3, 0, 5, 2)),
]


def parts(mesh: Mesh, rng: random.Random) -> list[Axis]:
    """The axes of a mesh, some in two parts, in any order."""
    found: list[Axis] = []
    for axis in mesh.all_axes():
        found += axis.split(2) if axis.size in (4, 8) and rng.random() < 0.5 else [axis]
    rng.shuffle(found)
    return found


def some(found: list[Axis], rng: random.Random) -> Axes:
    return canonical(rng.sample(found, rng.randint(0, len(found))))


def retiled(mesh: Mesh, rng: random.Random) -> tuple[tuple[int, ...], TensorSharding, TensorSharding, str]:
    shape, found = (rng.randint(0, 20), 2), parts(mesh, rng)
    whole = replicated(mesh, 2)
    before, after = (whole.with_axes((some(found, rng), ())) for _ in range(2))
    return shape, before, after, f"sdy.reshard %a {print_sharding(after)}"


def exchanged(mesh: Mesh, rng: random.Random) -> tuple[tuple[int, ...], TensorSharding, TensorSharding, str]:
    shape, found = (rng.randint(1, 20), rng.randint(1, 20)), parts(mesh, rng)
    first = rng.randint(1, len(found))
    keep = rng.randint(0, first - 1)
    a, b, c = (canonical(axes) for axes in (found[:keep], found[keep:first], found[first:]))
    whole = replicated(mesh, 2)
    before, after = whole.with_axes((canonical(a + b), c)), whole.with_axes((a, canonical(c + b)))
    moved = f"[{{{print_axes(b, mesh)}}}: 0->1]"
    return shape, before, after, f"sdy.all_to_all {moved} %a out_sharding={print_sharding(after)}"


@pytest.mark.parametrize("case", [retiled, exchanged])
@pytest.mark.parametrize("mesh", MESHES, ids=print_mesh)
@pytest.mark.parametrize("seed", range(2))
def test_every_shard_arrives(mesh: Mesh, case: object, seed: int) -> None:
    rng = random.Random(seed)
    cases = [case(mesh, rng) for _ in range(7)]  # type: ignore[operator]
    types = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape, _, _, _ in cases]

    def values(name: str, index: int) -> str:
        return ", ".join(
            f"{f'%a{i}: ' if name else ''}{type_} {{sdy.sharding = #sdy.sharding{print_sharding(found[index])}}}"
            for i, (type_, found) in enumerate(zip(types, cases, strict=True))
        )

    lines = [f"%r{i} = {found[3].replace('%a', f'%a{i}')} : {types[i]}" for i, found in enumerate(cases)]
    returned = ", ".join(f"%r{i}" for i in range(len(cases)))
    text = (
        f"sdy.mesh @mesh = {print_mesh(mesh)}\n"
        f"func.func public @main({values('a', 1)}) -> ({values('', 2)}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {returned} : {', '.join(types)}\n}}\n"
    )
    module = parse_module(text, new_context())
    with module.context, ir.Location.unknown():
        PassManager([Localize()]).run(module)
        module.operation.verify()
    arrays = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1 for shape, _, _, _ in cases]
    for array, result, found in zip(arrays, runtime.compile(str(module), padding="nan")(*arrays), cases, strict=True):
        for shard in result.shards:
            np.testing.assert_array_equal(shard.to_numpy(), array[shard.index], f"{found}")
