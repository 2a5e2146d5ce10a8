"""Run twice by a test: functions of `gspmd.jit` that call Python, over two processes."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import PartitionSpec as P

import gspmd

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
MESH = gspmd.make_mesh((4, 2), ("x", "y"))
CALLS: list[Any] = []


def seen(value: Any) -> np.ndarray[Any, Any]:
    CALLS.append(np.asarray(value).tolist())
    return np.asarray(value) * 2


def step(x: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    doubled = jax.pure_callback(seen, shape, x)
    io_callback(seen, shape, doubled[::-1], ordered=True)
    return doubled + 1


f = gspmd.jit(step, mesh=MESH, in_shardings=P("x"), out_shardings=P())
x = np.arange(8, dtype=np.float32)
for _ in range(2):
    np.testing.assert_array_equal(np.asarray(f(x)), 2 * x + 1)
jax.effects_barrier()
gspmd.wait(f(jnp.ones(8, np.float32)))
print(f"called {len(CALLS)} times: {CALLS[:2]}")
print("done")
