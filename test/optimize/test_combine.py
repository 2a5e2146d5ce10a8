"""Combined collectives in programs of any shape: fewer, as many bytes, and the same results."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gspmd
from gspmd.pass_manager import PassManager
from gspmd.reading import read_program
from gspmd.transforms.parsing.mlir import new_context

P = PartitionSpec
STAGES = "gspmd-ingest,gspmd-propagate,gspmd-reshard,gspmd-localize,cse"


def mixed(seed: int, steps: int = 24) -> Any:
    """A function of an array of 8x8 on every device that computes, sends and loops in a random order."""
    rng = random.Random(seed)
    plan = [(rng.random(), rng.random(), rng.random(), rng.choice(("x", "y"))) for _ in range(steps)]

    def step(values: list[Any], what: float, axis: str) -> Any:
        x, y = values
        if what < 0.2:
            return jax.lax.psum(x, axis)
        if what < 0.4:
            return jnp.roll(jax.lax.all_gather(x, axis, axis=len(values) % 2, tiled=True)[:8, :8], 1, 0)
        if what < 0.6:
            return jnp.tile(jax.lax.psum_scatter(x, axis, scatter_dimension=1, tiled=True), (1, 8))[:, :8]
        if what < 0.65:
            return jax.lax.fori_loop(0, 2, lambda _, t: t * 3 + y, x)
        return (x * 5 - y) % 1009

    def body(x: Any) -> Any:
        values = [x, x + 1]
        for first, second, what, axis in plan:
            picked = [values[int(place * len(values))] for place in (first, second)]
            values.append(step(picked, what, axis) % 1009)
        return sum(value * (index % 13 + 1) for index, value in enumerate(values))

    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
    return jax.shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)


def combined(lowered: Any, options: str = "") -> tuple[gspmd.Partitioned, gspmd.Partitioned]:
    """The program of one device, and the same with its collectives combined."""
    products = []
    for passes in (STAGES, f"{STAGES},gspmd-combine-collectives{options}"):
        module = read_program(lowered, new_context())
        PassManager.parse(f"builtin.module({passes})").run(module, on_diagnostic=lambda _: None)
        products.append(gspmd.Partitioned(module))
    return products[0], products[1]


def total(product: gspmd.Partitioned) -> float:
    return sum(collective.bytes * collective.count for collective in product.collectives)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_compute_the_same(seed: int) -> None:
    lowered = jax.jit(mixed(seed)).lower(jax.ShapeDtypeStruct((16, 32), jnp.int32))
    before, after = combined(lowered)
    assert len(after.collectives) < len(before.collectives)
    assert total(after) == total(before)
    report = gspmd.check(lowered, after)
    assert report, report.to_dict()


@pytest.mark.parametrize("seed", range(4, 20))
def test_random_programs_stay_valid(seed: int) -> None:
    lowered = jax.jit(mixed(seed, 40)).lower(jax.ShapeDtypeStruct((16, 32), jnp.int32))
    before, after = combined(lowered, "{combine-up-to-bytes=4096}")
    assert after.module.operation.verify()
    assert len(after.collectives) <= len(before.collectives)
    assert total(after) == total(before)


@pytest.mark.parametrize(("limit", "left"), [(4 * 64, 3), (8 * 64, 2), (12 * 64, 1)])
def test_bounds_are_of_whole_values(limit: int, left: int) -> None:
    def body(x: Any) -> Any:
        return [jax.lax.all_gather(x + n, "y", axis=0, tiled=True) for n in range(3)]

    mesh = Mesh(np.array(jax.devices()[:4]), ("y",))
    program = jax.shard_map(body, mesh=mesh, in_specs=P("y"), out_specs=[P()] * 3, check_vma=False)
    lowered = jax.jit(program).lower(jax.ShapeDtypeStruct((64,), jnp.float32))
    assert len(combined(lowered, f"{{combine-up-to-bytes={limit}}}")[1].collectives) == left
    assert len(combined(lowered, "{combine-each-bytes=252}")[1].collectives) == 3


def test_programs_meet_seldom() -> None:
    """Fully sharded vectors beside weights: what is small is gathered and scattered once."""
    mesh = Mesh(np.array(jax.devices()[:8]), ("x",))
    split = NamedSharding(mesh, P("x"))

    def loss(params: Any, x: Any) -> Any:
        for weight, scale, shift in params:
            x = jnp.tanh((x * scale + shift) @ weight)
        return (x**2).mean()

    params = [(jnp.full((64, 64), 0.01), jnp.ones(64), jnp.zeros(64)) for _ in range(16)]
    shardings = {"in_shardings": (split, split), "out_shardings": split}
    step = gspmd.jit(jax.grad(loss), mesh=mesh, options={"combine_bytes": 8192}, **shardings)
    lowered = step.lower(params, jnp.ones((512, 64)))
    given = params, np.random.default_rng(0).normal(size=(512, 64)).astype(np.float32)
    compiled = lowered.compile()
    text = compiled.executable.loaded.hlo_modules()[0].to_string()
    assert text.count(" all-gather(") == text.count(" reduce-scatter(") == len(params) + 1
    for ours, expected in zip(jax.tree.leaves(compiled(*given)), jax.tree.leaves(jax.grad(loss)(*given)), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
