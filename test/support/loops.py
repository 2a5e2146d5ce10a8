"""Loops of many calls that wait for no result, on eight CPU devices. Usage: `loops.py KIND [CALLS]`.

Run in a process of its own: where too many calls are on their way, XLA ends it after a minute.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import gspmd

_SIZE = 1024
_MESH = gspmd.make_mesh((4, 2), ("x", "y"))
_SPLIT = {"first": PartitionSpec("x", "y"), "second": PartitionSpec("y", "x")}
_ROWS = PartitionSpec("x")
Tree = dict[str, Any]


def _step(weights: Tree, x: Any) -> Tree:
    def loss(weights: Tree) -> Any:
        return jnp.mean((jnp.tanh(x @ weights["first"]) @ weights["second"] - x) ** 2)

    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))


def _alone(weights: Tree, x: Any) -> Tree:
    """Without collectives."""
    for _ in range(10):
        weights = jax.tree.map(jnp.sin, weights)
    return weights


def _placed() -> tuple[Tree, Any]:
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0, 0.03, (_SIZE, _SIZE)).astype(np.float32) for name in _SPLIT}
    x = rng.normal(0, 1, (64, _SIZE)).astype(np.float32)
    of = {name: NamedSharding(_MESH, spec) for name, spec in _SPLIT.items()}
    return jax.device_put(weights, of), jax.device_put(x, NamedSharding(_MESH, _ROWS))


def _jitted(function: Callable[..., Any], **options: Any) -> Any:
    return gspmd.jit(function, mesh=_MESH, in_shardings=(_SPLIT, _ROWS), out_shardings=_SPLIT, **options)


def _donated(weights: Tree, x: Any, calls: int) -> Any:
    step = _jitted(_step, donate_argnums=0)
    for _ in range(calls):
        weights = step(weights, x)
    return weights


def _two_functions(weights: Tree, x: Any, calls: int) -> Any:
    step, other = _jitted(_step, donate_argnums=0), _jitted(_alone)
    for _ in range(calls // 2):
        weights = other(step(weights, x), x)
    return weights


def _dropped(weights: Tree, x: Any, calls: int) -> Any:
    """Nobody looks at the results."""
    step = _jitted(_step)
    for _ in range(calls):
        step(weights, x)
    return step(weights, x)


def _without_collectives(weights: Tree, x: Any, calls: int) -> Any:
    function = _jitted(_alone)
    for _ in range(calls // 2):
        weights = function(weights, x)
    return weights


def _compiled(weights: Tree, x: Any, calls: int) -> Any:
    compiled = _jitted(_step, donate_argnums=0).lower(weights, x).compile()
    for _ in range(calls):
        weights = compiled(weights, x)
    return weights


def _executable(weights: Tree, x: Any, calls: int) -> Any:
    executable = gspmd.compile(_jitted(_step).lower(weights, x).partitioned)
    values: Any = [*jax.tree.leaves(weights)]
    for _ in range(calls):
        values = executable(*values, x)
    return dict(zip(_SPLIT, values, strict=True))


def _with_operations(weights: Tree, x: Any, calls: int) -> Any:
    """Programs of JAX's in between: eight to a call."""
    step = _jitted(_step, donate_argnums=0)
    for _ in range(calls // 2):
        weights = step(weights, x)
        for name in _SPLIT:
            x = x + 1 - 1 + weights[name][0] * 0
        x = jax.device_put(x, NamedSharding(_MESH, _ROWS))
    return weights


def _uneven(weights: Tree, x: Any, calls: int) -> Any:
    """Values whose shards differ in size are cut and padded by programs of their own."""
    rows = x[:61, :]
    sizes = {"mesh": _MESH, "out_shardings": _ROWS}
    first = gspmd.jit(lambda x, w: jnp.tanh(x @ w), in_shardings=(_ROWS, _SPLIT["first"]), **sizes)
    columns = NamedSharding(_MESH, PartitionSpec(None, "x"))
    second = gspmd.jit(lambda x: x * 2, in_shardings=columns, **sizes)
    for _ in range(calls // 2):
        rows = second(jax.device_put(first(rows, weights["first"]).to_jax(), columns))
    return rows.to_jax()


def _brief(weights: Tree, x: Any, calls: int) -> Any:
    """Programs that XLA runs as they are started, if none is on its way, among those that take their time."""
    step, total = _jitted(_step, donate_argnums=0), jnp.float32(0)
    add = gspmd.jit(lambda a, b: a + b, mesh=_MESH)
    for call in range(calls):
        if call % 50 == 0:
            weights = step(weights, x)
            total = total + weights["first"][0, 0] * 0
        total = add(total, 1)
    return {"weights": weights, "total": total}


def _only_brief(weights: Tree, x: Any, calls: int) -> Any:
    first = jax.device_put(np.zeros(8, np.float32), NamedSharding(_MESH, _ROWS))
    add = gspmd.jit(lambda a: a + jnp.sum(a), mesh=_MESH, in_shardings=_ROWS, out_shardings=_ROWS)
    for _ in range(calls):
        first = add(first)
    return first


KINDS: dict[str, Callable[[Tree, Any, int], Any]] = {
    "donated": _donated,
    "two-functions": _two_functions,
    "dropped": _dropped,
    "without-collectives": _without_collectives,
    "compiled": _compiled,
    "executable": _executable,
    "with-operations": _with_operations,
    "uneven": _uneven,
    "brief": _brief,
    "only-brief": _only_brief,
}

if __name__ == "__main__":
    weights, x = _placed()
    results = jax.block_until_ready(KINDS[sys.argv[1]](weights, x, int(sys.argv[2])))
    print("ended with", sum(float(jnp.abs(leaf).sum()) for leaf in jax.tree.leaves(results)))
