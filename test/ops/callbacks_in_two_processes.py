"""Run twice by a test: calls of Python over two processes are made by the process of the first device."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))

from jax import lax  # noqa: E402
from jax.experimental import io_callback  # noqa: E402
from support.callback_runs import compiled  # noqa: E402

X = np.arange(32, dtype=np.float32).reshape(8, 4)
calls: list[Any] = []


def note(name: str, value: Any) -> None:
    calls.append((name, np.asarray(value).tolist()))


def function(x: Any) -> Any:
    def body(carry: Any, t: Any) -> tuple[Any, Any]:
        jax.debug.callback(lambda v: note("debug", v), carry.sum(), ordered=True)
        got = io_callback(lambda v: (note("io", v), np.asarray(v) + 1)[1], t, t, ordered=True)
        return carry + got, got

    total, each = lax.scan(body, x, jnp.arange(3, dtype=np.float32))
    return each, jax.pure_callback(lambda v: -np.asarray(v), jax.ShapeDtypeStruct(x.shape, x.dtype), total).sum()


run = compiled(function, '<["x"=4, "y"=2]>', ['{"x"}, {"y"}'], X)
each, negative = run(X)
expected = [("debug", float((X + n).sum())) for n in (0, 1, 3)], [("io", float(t)) for t in range(3)]
if jax.process_index() == 0:
    assert ([c for c in calls if c[0] == "debug"], [c for c in calls if c[0] == "io"]) == expected, calls
else:
    assert not calls, calls
np.testing.assert_array_equal(each, [1, 2, 3])
assert negative == -(X + 6).sum()
print("done")
