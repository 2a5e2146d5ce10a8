"""States saved with orbax and restored, where steps go on as if nothing had been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.examples.common import checkpoint

pytest.importorskip("orbax.checkpoint", reason="an optional dependency: pip install 'gspmd[checkpoint]'")


def step(state: Any, batch: Any) -> Any:
    def loss_of(w: Any) -> Any:
        return ((batch @ w["kernel"] + w["bias"]) ** 2).mean()

    loss, gradients = jax.value_and_grad(loss_of)(state["w"])
    return {"w": jax.tree.map(lambda w, g: w - 0.1 * g, state["w"], gradients), "count": state["count"] + 1}, loss


def start(width: int) -> Any:
    kernel = np.random.default_rng(0).random((8, width), np.float32)
    return {"w": {"kernel": kernel, "bias": jnp.zeros(width, jnp.bfloat16)}, "count": jnp.zeros((), jnp.int32)}


def compiled_for(mesh: Any, width: int) -> gspmd.Compiled:
    split = {"w": {"kernel": P("x", "y"), "bias": P("y")}, "count": None}
    jitted = gspmd.jit(step, mesh=mesh, in_shardings=(split, P("x")), out_shardings=(split, None), donate_argnums=0)
    found: gspmd.Compiled = jitted.lower(start(width), jax.ShapeDtypeStruct((8, 8), jnp.float32)).compile()
    return found


@pytest.mark.parametrize("width", [4, 5], ids=["even", "uneven"])
@pytest.mark.parametrize("mesh", [{"x": 4, "y": 2}, {"x": 2, "y": 4}], ids=["the same mesh", "another mesh"])
def test_steps_go_on_after_restoring(tmp_path: Path, width: int, mesh: Any) -> None:
    before = compiled_for({"x": 4, "y": 2}, width)
    batch = np.random.default_rng(1).random((8, 8), np.float32)
    state, _ = before(start(width), batch)
    checkpoint.save(tmp_path / "1", state)
    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), state)
    expected, expected_loss = before(state, batch)

    after = compiled_for(mesh, width)
    restored = checkpoint.restore(tmp_path / "1", shapes, after.in_shardings[0][0])
    kernel = restored["w"]["kernel"]
    if width == 4:
        assert kernel.sharding == after.in_shardings[0][0]["w"]["kernel"]
        with jax.transfer_guard("disallow"):
            found, loss = after(restored, jax.device_put(batch, after.in_shardings[0][1]))
    else:
        found, loss = after(restored, batch)
    assert int(found["count"]) == 2
    assert found["w"]["bias"].dtype == jnp.bfloat16
    np.testing.assert_allclose(float(loss), float(expected_loss), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found["w"]["kernel"]), np.asarray(expected["w"]["kernel"]), rtol=1e-6)
