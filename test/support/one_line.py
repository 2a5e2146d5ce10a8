"""Runs a program of a library twice: by `jax.jit` on one device, and by `gspmd.jit` with arrays split over eight.

The two differ in nothing else. One device is what both are held to, not XLA's partitioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import gspmd

MESH = gspmd.make_mesh((4, 2), ("data", "model"))
Jit = Callable[..., Any]
Place = Callable[..., jax.Array]  # of an array, and the mesh axis of each dimension


def split(x: Any, *axes: str | None) -> jax.Array:
    """The array over the mesh, its dimensions split by the axes given."""
    return jax.device_put(x, NamedSharding(MESH, PartitionSpec(*axes)))


def on_one_device(x: Any, *_axes: str | None) -> jax.Array:
    return jnp.asarray(x)


def check(program: Callable[[Jit, Place], Any], rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Hold the results of the program by `gspmd.jit`, all of them on all devices, to those by `jax.jit`."""
    expected = jax.tree.leaves(program(jax.jit, on_one_device))
    found = jax.tree.leaves(program(gspmd.jit, split))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one.sharding.device_set == set(MESH.devices.flat)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(numbers(one), numbers(other), rtol=rtol, atol=atol)


def numbers(x: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers from 0 to 1, the same in every run."""
    return np.random.default_rng(seed).random(shape, np.float32)
