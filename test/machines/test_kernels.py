"""JAX's own Pallas kernels in `jax.shard_map`, compiled for TPUs that are not here, beside what is partitioned."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import gspmd

pytestmark = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
P = PartitionSpec
Shape = jax.ShapeDtypeStruct


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
    return Mesh(np.array(devices).reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def compiled(mesh: Mesh, fun: Callable[..., Any], specs: tuple[PartitionSpec, ...], *shapes: Shape) -> Any:
    """The program that `gspmd.jit` makes, which must send nothing for its kernels."""
    shardings = tuple(NamedSharding(mesh, spec) for spec in specs)
    lowered = gspmd.jit(fun, in_shardings=shardings).lower(*shapes)
    calls = lowered.as_text().count("@tpu_custom_call")
    assert calls
    assert lowered.partitioned.module_text.count("@tpu_custom_call") == calls
    return lowered.compile()


def mapped(mesh: Mesh, kernel: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    return jax.shard_map(kernel, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def test_flash_attention_in_a_training_step(mesh: Mesh) -> None:
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    heads = P("data", "model")
    attend = mapped(mesh, lambda q, k, v: flash_attention(q, k, v, causal=True), heads, heads)

    def loss(w: Any, x: jax.Array) -> jax.Array:
        q, k, v = (jnp.einsum("bsd,dhe->bhse", x, each) for each in w)
        return jnp.mean(attend(q, k, v) ** 2)

    weights = (Shape((256, 4, 128), np.float32),) * 3
    result = compiled(mesh, jax.grad(loss), (P(None, "model"), P("data")), weights, Shape((8, 256, 256), np.float32))
    assert "tpu_custom_call" in result.as_text()


def test_splash_attention_and_its_gradient(mesh: Mesh) -> None:
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask

    heads = P("data", "model")

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        mask = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((256, 256))] * 2)
        kernel = splash_attention_kernel.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1)
        return jax.vmap(kernel)(q, k, v)

    fun = jax.grad(lambda *given: mapped(mesh, attend, heads, heads)(*given).sum(), (0, 1, 2))
    assert compiled(mesh, fun, (heads,) * 3, *[Shape((8, 4, 256, 128), np.float32)] * 3).memory_analysis() is not None


def test_the_products_of_megablox(mesh: Mesh) -> None:
    from jax.experimental.pallas.ops.tpu.megablox import gmm

    specs = (P("data"), P(None, None, "model"), P())
    fun = mapped(mesh, lambda x, w, sizes: gmm(x, w, sizes, jnp.float32), specs, P("data", "model"))
    shapes = (Shape((512, 128), jnp.bfloat16), Shape((4, 128, 256), jnp.bfloat16), Shape((4,), np.int32))
    assert compiled(mesh, fun, specs, *shapes).cost_analysis()


def test_paged_attention(mesh: Mesh) -> None:
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

    specs = (P("data", "model"), P("model"), P("model"), P("data"), P("data"))
    fun = mapped(mesh, lambda *given: paged_attention(*given, pages_per_compute_block=4), specs, P("data", "model"))
    pages = Shape((4, 32, 16, 128), jnp.bfloat16)
    rows = (Shape((8, 16, 128), jnp.bfloat16), pages, pages, Shape((8,), np.int32), Shape((8, 8), np.int32))
    assert "tpu_custom_call" in compiled(mesh, fun, specs, *rows).as_text()


def test_code_for_the_platform_is_that_of_the_machine(mesh: Mesh) -> None:
    def fun(x: jax.Array) -> jax.Array:
        return jax.lax.platform_dependent(x, tpu=jnp.sin, default=jnp.cos)

    text = gspmd.jit(fun, in_shardings=NamedSharding(mesh, P("data"))).lower(Shape((16,), np.float32)).as_text()
    assert "sine" in text
    assert "cosine" not in text
