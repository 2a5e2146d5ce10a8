"""Writes the good inputs that are not text in the repository, or that JAX makes, to `Inputs/`.

They are kept so that a seed names the same cases on every machine. `python test/hostile/make_inputs.py` makes them
anew.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo
from jaxlib.mlir.dialects import stablehlo

import gspmd
from gspmd.examples import mlp
from gspmd.examples.common.running import lowered

INPUTS = Path(__file__).parent / "Inputs"
_FOLDER = re.compile(r'"/[^"]*/')  # of places in sources, on this machine


def loop(x: Any, w: Any) -> Any:
    """A scan with a condition and a sort in it."""

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = jnp.tanh(carry @ w + row)
        carry = lax.cond(carry.sum() > 0, jnp.sort, lambda c: -c, carry)
        return carry, carry.sum()

    return lax.scan(step, jnp.zeros(w.shape[0]), x)


def indexing(x: Any, w: Any) -> Any:
    """Gather, scatter, cumulative sum and argmax."""
    chosen = x[jnp.array([3, 1, 2])]
    x = x.at[jnp.array([0, 5])].add(w[:2])
    return chosen, jnp.cumsum(x, axis=1), jnp.argmax(x, axis=0)


def picture(x: Any, w: Any) -> Any:
    """A convolution, pooling, padding, and random numbers."""
    image, kernel = x.reshape(1, 8, 8, 1), w.reshape(4, 4, 1, 4)
    y = lax.conv_general_dilated(image, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    padded = jnp.pad(y, ((0, 0), (1, 2), (0, 0), (0, 0)))
    noisy = padded + jax.random.uniform(jax.random.key(0), padded.shape)
    return lax.reduce_window(noisy, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")


def manual(x: Any, w: Any) -> Any:
    """A manual region with collectives of its own."""

    def local(x: Any) -> Any:
        return lax.psum(x, "x") + lax.ppermute(x, "x", [(0, 1), (1, 0)])

    return jax.shard_map(local, mesh=_mesh(), in_specs=P("x"), out_specs=P("x"))(x) @ w


FUNCTIONS: dict[str, Callable[..., Any]] = {"loop": loop, "indexing": indexing, "picture": picture, "manual": manual}


def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


def _lowered(function: Callable[..., Any]) -> Any:
    mesh = _mesh()
    shardings = (NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y")))
    return jax.jit(function, in_shardings=shardings).lower(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))


def write() -> None:
    """All files."""
    for name, function in FUNCTIONS.items():
        text = _lowered(function).as_text(debug_info=name == "indexing")
        text = _FOLDER.sub('"', text)
        (INPUTS / f"{name}.mlir").write_text(text)
        _write_forms(name, text)
    config = mlp.Config(batch=8, inputs=4, hidden=8, outputs=4)
    step = mlp.program(config, mlp.RECIPES["tp"])
    text = _FOLDER.sub('"', lowered(step, {"x": 4, "y": 2}).as_text())
    (INPUTS / "mlp.mlir").write_text(text)
    (INPUTS / "partitioned.mlir").write_text(gspmd.partition(text).module_text)


def _write_forms(name: str, text: str) -> None:
    """The program as bytecode, as a portable artifact, as HLO text and as a proto."""
    module = gspmd.propagate(text)
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    (INPUTS / f"{name}.mlirbc").write_bytes(buffer.getvalue())
    if name == "manual":
        return
    function = FUNCTIONS[name]
    plain = jax.jit(function).lower(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
    artifact = stablehlo.serialize_portable_artifact_str(plain.as_text(), stablehlo.get_minimum_version())
    (INPUTS / f"{name}.artifact").write_bytes(artifact)
    hlo = plain.compiler_ir("hlo").as_hlo_text()
    (INPUTS / f"{name}.hlo").write_text(hlo)
    (INPUTS / f"{name}.pb").write_bytes(_hlo.hlo_module_from_text(hlo).as_serialized_hlo_module_proto())


if __name__ == "__main__":
    INPUTS.mkdir(exist_ok=True)
    write()
