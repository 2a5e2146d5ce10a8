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


def failing(_: Any) -> Any:
    raise KeyError("nothing")


def other_shape(_: Any) -> Any:
    return np.zeros(3, np.float32)


def told(called: Any) -> str:
    try:
        gspmd.wait(gspmd.jit(called, mesh=MESH, in_shardings=P("x"))(x))
    except jax.errors.JaxRuntimeError as error:
        return str(error)
    raise AssertionError("it went through")


shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
where = "" if jax.process_index() == 0 else "in process 0, "
for called, text in (
    (lambda x: jax.pure_callback(failing, shape, x) + 1, "KeyError: 'nothing'"),
    (lambda x: io_callback(failing, shape, x, ordered=True) + 1, "KeyError: 'nothing'"),
    (lambda x: (jax.debug.callback(failing, x), x)[1], "KeyError: 'nothing'"),
    (lambda x: jax.pure_callback(other_shape, shape, x) + 1, "RuntimeError: Incorrect output shape"),
):
    message = told(called)
    assert f"error: {where}a function that the program calls raised {text}" in message, message
np.testing.assert_array_equal(np.asarray(f(x)), 2 * x + 1)  # and they can go on
print("done")
