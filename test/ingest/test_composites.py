"""Composites of programs that JAX exported are the operations they were, and only those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxlib.mlir.dialects import stablehlo

import gspmd
from gspmd.pass_manager import PassManager
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.parsing.mlir import new_context

_EXPORTED: dict[str, Callable[[Any], Any]] = {
    "erf": lax.erf,
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atanh": jnp.arctanh,
    "cosh": jnp.cosh,
    "sinh": jnp.sinh,
    "top_k": lambda x: lax.top_k(x, 3),
}


def _exported(function: Callable[[Any], Any], dtype: Any) -> Any:
    """The module of an exported function, in a context of ours."""
    exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((6, 10), dtype))
    return stablehlo.deserialize_portable_artifact(new_context(), exported.mlir_module_serialized)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", _EXPORTED)
def test_what_jax_exports_stays_the_operation(name: str, dtype: Any) -> None:
    module = _exported(_EXPORTED[name], dtype)
    assert f'composite "chlo.{name}"' in str(module)
    PassManager([Ingest()]).run(module)
    assert f"chlo.{name}" in str(module)
    assert "func.func private" not in str(module)


@pytest.mark.parametrize("name", [name for name in _EXPORTED if name != "top_k"])
def test_one_changed_number_makes_it_its_decomposition(name: str) -> None:
    text = str(_exported(_EXPORTED[name], jnp.float32))
    head, impl, body = text.partition(f"@chlo.{name}.impl(%")
    constant = body.index("dense<") + len("dense<")
    changed = head + impl + body[:constant] + "0.25" + body[body.index(">", constant) :]
    module = gspmd.partition(changed).module_text
    assert "chlo" not in module
    assert gspmd.check(changed).passed


def test_composites_of_jax() -> None:
    """One inside another, called as an operation that they are not."""
    inner = lax.composite(lambda x: jnp.tanh(x) + 1, "mine.inner")
    outer = lax.composite(lambda x: inner(x) * 2, "chlo.erf", version=1)

    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    step = gspmd.jit(outer, mesh={"x": 4, "y": 2}, in_shardings=jax.sharding.PartitionSpec("x"))
    np.testing.assert_allclose(np.asarray(step(values)), (np.tanh(values) + 1) * 2, rtol=1e-6)
