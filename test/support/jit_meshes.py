"""The mesh that tests of `gspmd.jit` split over, and values of known content."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import gspmd

MESH = gspmd.make_mesh((4, 2), ("x", "y"))
assert isinstance(MESH, jax.sharding.Mesh)


def split(array: jax.Array, *spec: str | None, mesh: jax.sharding.Mesh = MESH) -> jax.Array:
    """The array on the mesh's devices, split by a PartitionSpec."""
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))


def counting(*shape: int) -> jax.Array:
    """0, 1, 2, ... as floats."""
    return jnp.arange(float(np.prod(shape))).reshape(shape)


def pointers(array: jax.Array) -> list[int]:
    """Where the shards lie in memory, by device."""
    shards = sorted(array.addressable_shards, key=lambda shard: shard.device.id)
    return [shard.data.unsafe_buffer_pointer() for shard in shards]
