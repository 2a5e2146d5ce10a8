"""Kernels in functions that `gspmd.jit` partitions: calls of which the compiler knows nothing, made by `shard_map`.

LAPACK's Cholesky factorization, called by its name, stands for them on CPUs: it has layouts of its own, an alias, and
takes the shapes that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import gspmd
from gspmd.dialect.diagnostic import Diagnostic, telling
from gspmd.dialect.errors import Unsupported

P = PartitionSpec
MATRICES = np.random.default_rng(0).standard_normal((8, 6, 6)).astype(np.float32)
MATRICES = MATRICES @ MATRICES.swapaxes(1, 2) + 6 * np.eye(6, dtype=np.float32)
FACTORS = np.linalg.cholesky(MATRICES)

jax.jit(jnp.linalg.cholesky).lower(MATRICES)  # JAX loads LAPACK when it first lowers a call of it


def mesh(**sizes: int) -> jax.sharding.Mesh:
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))


def factored(x: jax.Array, *, effects: bool = False) -> jax.Array:
    """The lower factors of a batch of matrices, by a call that overwrites its operand."""
    layout = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    results = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:-2], np.int32))
    call = jax.ffi.ffi_call(
        "lapack_spotrf_ffi",
        results,
        has_side_effect=effects,
        input_layouts=[layout],
        output_layouts=[layout, None],
        input_output_aliases={0: 0},
    )
    return jnp.tril(call(x, uplo=np.uint8(ord("L")))[0])


def over(sizes: jax.sharding.Mesh, kernel: Callable[..., Any], specs: Any, names: set[str] | None = None) -> Any:
    axes = {} if names is None else {"axis_names": names}
    return jax.shard_map(kernel, mesh=sizes, in_specs=specs, out_specs=specs, check_vma=False, **axes)


def close(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(result), np.asarray(expected), rtol=2e-4, atol=2e-5)


# ---- manual over all axes ----


@pytest.mark.parametrize("effects", [False, True])
def test_a_kernel_is_the_program_of_one_device(effects: bool) -> None:
    axes = mesh(x=4, y=2)
    kernel = over(axes, lambda x: factored(x, effects=effects), P(("x", "y")))
    fun = gspmd.jit(kernel, mesh=axes, in_shardings=P(("x", "y")))
    assert not fun.lower(MATRICES).partitioned.collectives
    close(fun(MATRICES), FACTORS)
    close(fun(MATRICES), jax.jit(kernel)(MATRICES))


@pytest.mark.parametrize("sizes", [{"x": 1}, {"x": 1, "y": 1}])
@pytest.mark.parametrize("is_manual", [True, False])
def test_over_a_mesh_of_one_device_a_kernel_is_what_it_is(sizes: dict[str, int], is_manual: bool) -> None:
    axes = mesh(**sizes)
    kernel = over(axes, factored, P("x")) if is_manual else factored
    fun = gspmd.jit(kernel, mesh=axes, in_shardings=P("x"))
    assert "lapack_spotrf_ffi" in fun.lower(MATRICES).partitioned.module_text
    close(fun(MATRICES), FACTORS)


def test_a_donated_argument_becomes_the_result_of_a_kernel() -> None:
    axes = mesh(x=8)
    fun = gspmd.jit(over(axes, factored, P("x")), mesh=axes, donate_argnums=0)
    given = jax.device_put(MATRICES, NamedSharding(axes, P("x")))
    close(fun(given), FACTORS)
    assert given.is_deleted()


def test_kernels_stand_in_loops_and_branches_beside_what_is_partitioned() -> None:
    axes = mesh(x=4, y=2)
    kernel = over(axes, factored, P("x"))

    def model(x: jax.Array, w: jax.Array) -> jax.Array:
        def step(total: jax.Array, _: Any) -> tuple[jax.Array, None]:
            found = jax.lax.cond(total.sum() > 1e9, lambda: x, lambda: kernel(x))
            return total + found @ w, None

        return jax.lax.scan(step, jnp.zeros_like(x), None, length=3)[0]

    w = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
    fun = gspmd.jit(model, mesh=axes, in_shardings=(P("x"), P(None, "y")))
    close(fun(MATRICES, w), 3 * FACTORS @ w)


def test_gradients_go_through_the_rule_of_a_kernel() -> None:
    axes = mesh(x=8)

    @jax.custom_vjp
    def kernel(x: jax.Array) -> jax.Array:
        return factored(x)

    kernel.defvjp(lambda x: (kernel(x), x), lambda x, g: (factored(x) * g,))
    mapped = over(axes, kernel, P("x"))
    fun = gspmd.jit(jax.grad(lambda x: (mapped(x) ** 2).sum()), mesh=axes, in_shardings=P("x"))
    close(fun(MATRICES), 2 * FACTORS**2)


def test_a_kernel_may_share_its_computation_with_collectives() -> None:
    axes = mesh(x=4, y=2)

    def kernel(x: jax.Array) -> jax.Array:
        return factored(x) + jax.lax.psum(x, "y")

    mapped = over(axes, kernel, P("x"))
    fun = gspmd.jit(mapped, mesh=axes, in_shardings=P("x"))
    close(fun(MATRICES), FACTORS + 2 * MATRICES)


# ---- manual over some axes ----


def heard(fun: Callable[[], Any]) -> tuple[Any, list[str]]:
    said: list[Diagnostic] = []
    with telling(said.append):
        result = fun()
    return result, [diagnostic.message for diagnostic in said]


def test_devices_along_free_axes_compute_a_kernel_alike() -> None:
    axes = mesh(x=4, y=2)
    fun = gspmd.jit(over(axes, factored, P("x"), {"x"}), mesh=axes, in_shardings=P(("x", "y")))
    lowered = fun.lower(MATRICES)
    partitioned, said = heard(lambda: lowered.partitioned)
    assert len(said) == 1
    assert "calls 'lapack_spotrf_ffi', which has no sharding rule" in said[0]
    assert '2 devices along the free axes "y" repeat it, and each sends 144 bytes' in said[0]
    assert [collective.kind for collective in partitioned.collectives] == ["all_gather"]
    close(fun(MATRICES), FACTORS)


def test_a_rule_splits_a_kernel_along_free_axes() -> None:
    axes = mesh(x=4, y=2)
    kernel = over(axes, factored, P("x"), {"x"})
    rule = {"lapack_spotrf_ffi": "([b, i, j])->([b, k, l], [b])"}
    fun = gspmd.jit(kernel, mesh=axes, in_shardings=P(("x", "y")), out_shardings=P(("x", "y")), custom_rules=rule)
    partitioned, said = heard(lambda: fun.lower(MATRICES).partitioned)
    assert not said
    assert not partitioned.collectives
    close(fun(MATRICES), FACTORS)


# ---- elsewhere ----


def test_a_kernel_outside_is_refused_and_the_hint_is_true() -> None:
    axes = mesh(x=8)
    with pytest.raises(Unsupported, match="has no sharding rule") as raised:
        _ = gspmd.jit(factored, mesh=axes, in_shardings=P("x")).lower(MATRICES).partitioned
    assert raised.value.hint is not None
    assert "manual computation" in raised.value.hint
    assert "--replicate-unsupported" in raised.value.hint
    close(gspmd.jit(factored, mesh=axes, in_shardings=P("x"), replicate_unsupported=True)(MATRICES), FACTORS)
    with pytest.raises(Unsupported, match="has no sharding rule") as raised:
        _ = gspmd.jit(lambda x: factored(x, effects=True), mesh=axes).lower(MATRICES).partitioned
    assert raised.value.hint is not None
    assert "--replicate-unsupported" not in raised.value.hint


# ---- kernels of machines that are not here ----


def lowered_for_tpus(estimate: pallas.CostEstimate | None) -> str:
    axes = mesh(d=4, t=2)

    def twice(x: Any, out: Any) -> None:
        out[...] = x[...] * 2

    def kernel(x: jax.Array) -> jax.Array:
        return pallas.pallas_call(
            twice, jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0}, cost_estimate=estimate
        )(x)

    fun = jax.jit(over(axes, kernel, P("d", "t")), in_shardings=NamedSharding(axes, P("d", "t")))
    traced = fun.trace(jax.ShapeDtypeStruct((64, 256), np.float32))
    return str(traced.lower(lowering_platforms=("tpu",)).as_text())


def test_a_kernel_of_tpus_is_not_touched() -> None:
    text = lowered_for_tpus(None)
    partitioned = gspmd.partition(text).module_text
    (before,) = [line for line in text.splitlines() if "tpu_custom_call" in line]
    (after,) = [line for line in partitioned.splitlines() if "tpu_custom_call" in line]
    strip = "mhlo.frontend_attributes"
    assert before.split("@tpu_custom_call(")[1].split(") {", 1)[1].split(strip)[0] in after


def test_a_kernel_costs_what_it_says() -> None:
    estimate = pallas.CostEstimate(flops=5 * 10**9, transcendentals=10**9, bytes_accessed=2**30)
    report = gspmd.cost(lowered_for_tpus(estimate), target="tpu-v5p")
    assert report.work.by_kind()["kernel"] == 6e9
    assert report.work.traffic_bytes >= 2**30
    assert not any("not counted" in note for note in report.notes)
    without = gspmd.cost(lowered_for_tpus(None), target="tpu-v5p")
    assert "kernel" not in without.work.by_kind()
    assert any("not counted" in note and "tpu_custom_call" in note for note in without.notes)
