"""Random programs between reversals: what is left of them gives the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gspmd
from gspmd.pass_manager import PassManager
from gspmd.transforms.parsing.mlir import new_context, parse_module

Step: TypeAlias = Callable[[Any, random.Random], Any]


def _elementwise(x: Any, draw: random.Random) -> Any:
    return draw.choice([jnp.tanh, lambda v: v * 2 + 1, lambda v: v * jnp.sin(v), jax.nn.relu])(x)


def _with_a_row(x: Any, draw: random.Random) -> Any:
    """With a vector along one dimension, which is the same along the others."""
    dim = draw.randrange(x.ndim)
    return x + jnp.arange(x.shape[dim], dtype=x.dtype).reshape([-1 if d == dim else 1 for d in range(x.ndim)])


def _pad(x: Any, draw: random.Random) -> Any:
    return jax.lax.pad(
        x, 0.5, [(draw.randint(-(n > 2), 2), draw.randint(-(n > 2), 2), draw.randrange(2)) for n in x.shape]
    )


def _slice(x: Any, draw: random.Random) -> Any:
    starts = [draw.randrange(max(n // 2, 1)) for n in x.shape]
    limits = [draw.randint(start + 1, n) for start, n in zip(starts, x.shape, strict=True)]
    return jax.lax.slice(x, starts, limits, [draw.randint(1, 2) for _ in x.shape])


def _concatenate(x: Any, draw: random.Random) -> Any:
    return jnp.concatenate([x, jnp.tanh(x), x[:1]][: draw.randint(2, 3)], 0)


def _transpose(x: Any, draw: random.Random) -> Any:
    return x.transpose(draw.sample(range(x.ndim), x.ndim))


def _reshape(x: Any, draw: random.Random) -> Any:
    """Splits a dimension, or merges two."""
    if x.ndim < 3:
        shape = [(2, n // 2) if n % 2 == 0 and n > 2 else (n,) for n in x.shape]
        return x.reshape([n for sizes in shape for n in sizes])
    dim = draw.randrange(x.ndim - 1)
    return x.reshape(*x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :])


def _product(x: Any, draw: random.Random) -> Any:
    """With itself, so that what is contracted may be reversed in both."""
    dim = draw.randrange(x.ndim)
    if draw.random() < 0.5:
        return x + jnp.tensordot(x, x, (dim, dim)).sum()
    return jnp.moveaxis(jnp.tensordot(x, jnp.ones((x.shape[dim], 3)), (dim, 0)), -1, dim)


def _running_sum(x: Any, draw: random.Random) -> Any:
    return jax.lax.cumsum(x, draw.randrange(x.ndim))


def _reduce(x: Any, draw: random.Random) -> Any:
    kind = draw.choice([jnp.sum, jnp.max])
    return x + kind(x, draw.randrange(x.ndim), keepdims=True)


def _update(x: Any, draw: random.Random) -> Any:
    dim = draw.randrange(x.ndim)
    part = jax.lax.slice_in_dim(x, 0, 1, axis=dim)
    return jax.lax.dynamic_update_slice_in_dim(x, jnp.cos(part), draw.randrange(x.shape[dim]), dim)


STEPS: list[Step] = [
    *(_elementwise, _with_a_row, _pad, _slice, _concatenate, _transpose, _reshape),
    *(_product, _running_sum, _reduce, _update),
]


def _reversed(x: Any, draw: random.Random) -> Any:
    return jnp.flip(x, draw.sample(range(x.ndim), draw.randint(1, x.ndim)))


def program(seed: int) -> str:
    """Reversals with one to five steps between them, or the gradient of that."""
    draw = random.Random(seed)
    shape = [draw.choice([2, 4, 6, 8]) for _ in range(draw.randint(1, 3))]
    steps = [draw.choice(STEPS) for _ in range(draw.randint(1, 5))]
    again = draw.random()

    def f(x: Any) -> Any:
        inner = random.Random(seed)
        dims = inner.sample(range(x.ndim), inner.randint(1, x.ndim))
        y = jnp.flip(x, dims)
        for step in steps:
            if y.size and y.ndim and y.size < 5000:
                y = step(y, inner)
        return jnp.flip(y, [d for d in dims if d < y.ndim]) if again < 0.6 else _reversed(y, inner) if y.ndim else y

    def loss(x: Any) -> Any:
        return (f(x) ** 2).sum()

    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    spec = [draw.choice([None, "x", "y"]) for _ in shape]
    spec = [axis if axis not in spec[:i] else None for i, axis in enumerate(spec)]
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    argument = jax.ShapeDtypeStruct(tuple(shape), jnp.float32, sharding=sharding)
    return jax.jit(jax.value_and_grad(loss) if again > 0.4 else f, in_shardings=sharding).lower(argument).as_text()


def reversals(text: str) -> int:
    return text.count("stablehlo.reverse")


def left(text: str) -> int:
    """How many reversals are left of a program."""
    module = parse_module(text, new_context())
    PassManager(["gspmd-ingest"]).run(module)
    return reversals(str(module))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_gives_the_same(seed: int) -> None:
    assert gspmd.check(program(seed))


def test_many_are_taken_out() -> None:
    texts = [program(seed) for seed in range(60)]
    assert sum(left(text) < reversals(text) for text in texts) >= 20
