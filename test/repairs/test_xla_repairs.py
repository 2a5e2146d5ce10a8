"""Programs that XLA for CPUs refuses as they are, run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

import gspmd

P = PartitionSpec


def test_what_is_put_together_is_exchanged_as_one_value() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))

    def exchanged(left: Any, right: Any) -> Any:
        whole = jnp.concatenate([jax.lax.all_to_all(left, "x", 2, 0, tiled=True), jnp.swapaxes(right, 1, 2)], 2)
        return jax.lax.all_to_all(whole, "x", 2, 1, tiled=True)

    program = jax.shard_map(exchanged, mesh=mesh, in_specs=(P("x"), P()), out_specs=P(None, "x"))
    left = np.arange(384, dtype=np.float32).reshape(8, 6, 8)
    right = np.arange(192, dtype=np.float32).reshape(8, 4, 6)
    # What each device exchanges: all rows of its half of the columns, and all of the other operand.
    first = [np.concatenate([left[..., i * 4 : i * 4 + 4], right.swapaxes(1, 2)], 2) for i in range(2)]
    expected = np.concatenate([np.concatenate([f[..., i * 4 : i * 4 + 4] for f in first], 1) for i in range(2)], 1)
    (result,) = gspmd.compile(gspmd.partition(jax.jit(program).lower(left, right)))(left, right)
    np.testing.assert_array_equal(np.asarray(result), expected)
