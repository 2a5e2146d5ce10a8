"""What functions of `jax.jit` have and take besides calls: stages, options, settings, mutable arrays, layouts."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting, split

import gspmd

X = counting(8, 8)


def doubled(x: Any) -> Any:
    return x * 2


def test_wrappers_pass_none() -> None:
    names = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
    others = ("compiler_options", "device", "backend", "in_shardings", "out_shardings")
    f = gspmd.jit(doubled, mesh=MESH, keep_unused=False, inline=False, **dict.fromkeys(names + others))
    np.testing.assert_array_equal(f(X), 2 * X)


def test_stages() -> None:
    f = gspmd.jit(doubled, mesh=MESH, in_shardings=P("x"), out_shardings=P("x"))
    lowered = f.lower(X)
    assert lowered.compiler_ir().operation.name == "builtin.module"
    assert "HloModule" in lowered.as_text("hlo")
    assert lowered.cost_analysis()["flops"] == 64
    compiled = lowered.compile()
    assert compiled.cost_analysis()["flops"] == 16
    assert compiled.memory_analysis().argument_size_in_bytes == 64
    assert "HloModule" in compiled.as_text()
    assert compiled.runtime_executable() is not None
    assert compiled.input_shardings[0][0].spec == P("x")
    assert compiled.output_shardings.spec == P("x")
    assert f.trace(X).jaxpr.in_avals[0].shape == (8, 8)


def test_options_of_the_compiler() -> None:
    f = gspmd.jit(doubled, mesh=MESH, in_shardings=P("x"), compiler_options={"xla_cpu_enable_fast_math": True})
    np.testing.assert_array_equal(f(X), 2 * X)
    compiled = f.lower(X).compile(compiler_options={"xla_embed_ir_in_executable": True})
    np.testing.assert_array_equal(compiled(X), 2 * X)
    with pytest.raises(gspmd.UsageError, match="No such compile option: 'xla_nonsense'"):
        f.lower(X).compile(compiler_options={"xla_nonsense": True})


def test_unused_arguments_are_dropped() -> None:
    f = gspmd.jit(lambda a, b: a * 2, mesh=MESH, in_shardings=P("x"))
    compiled = f.lower(X, X).compile()
    assert [name is None for name in compiled.in_shardings[0]] == [False, True]
    assert compiled.memory_analysis().argument_size_in_bytes == 64
    np.testing.assert_array_equal(compiled(X, X), 2 * X)
    np.testing.assert_array_equal(f(X, X[:3]), 2 * X)
    kept = gspmd.jit(lambda a, b: a * 2, mesh=MESH, in_shardings=P("x"), keep_unused=True).lower(X, X).compile()
    assert kept.memory_analysis().argument_size_in_bytes == 128


def test_dead_code_is_dropped() -> None:
    def f(x: Any) -> Any:
        jax.lax.scan(lambda c, _: (c @ c, None), x, None, length=100)
        return x + 1

    assert gspmd.jit(f, mesh=MESH).lower(X).compile().cost_analysis()["flops"] <= 64


@pytest.mark.parametrize("calls", [1, 3], ids=["the first call", "a later call"])
def test_nan_is_looked_for(calls: int) -> None:
    f = gspmd.jit(jnp.log, mesh=MESH, in_shardings=P("x"))
    with jax.debug_nans(True):
        for _ in range(calls - 1):
            f(X + 1)
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"):
            f(X - 100)
    assert np.isnan(np.asarray(f(X - 100))[0, 0])


def test_functions_run_by_operations_where_jit_is_disabled() -> None:
    f = gspmd.jit(lambda x: gspmd.annotate(x * 2, "x") if float(x[0, 0]) == 0 else x, mesh=MESH)
    with jax.disable_jit():
        np.testing.assert_array_equal(f(X), 2 * X)


def test_compilation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        gspmd.jit(lambda x: x * 3, mesh=MESH)(X)
    assert any("Finished XLA compilation" in record.message for record in caplog.records)


def test_compiled_programs_are_cached_on_disk(tmp_path: Path) -> None:
    settings = {"jax_compilation_cache_dir": str(tmp_path), "jax_persistent_cache_min_compile_time_secs": 0.0}
    old = {name: getattr(jax.config, name) for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        for _ in range(2):
            gspmd.jit(lambda x: x * 5 + 1, mesh=MESH, in_shardings=P("x"))(X)
            assert [len([*tmp_path.glob(f"{name}-*-cache")]) for name in ("jit__lambda", "gspmd")] == [1, 1]
    finally:
        for name, value in old.items():
            jax.config.update(name, value)


def test_mutable_arrays_around_the_function() -> None:
    total = jax.new_ref(jnp.zeros(8))

    def add(x: Any) -> Any:
        total[...] += x
        return x.sum()

    f = gspmd.jit(add, mesh=MESH, in_shardings=P("x"))
    for _ in range(3):
        f(counting(8))
    np.testing.assert_array_equal(total[...], 3 * counting(8))


@pytest.mark.parametrize("where", ["one device", "in place"])
def test_mutable_arguments(where: str) -> None:
    total = jax.new_ref(jnp.zeros(8) if where == "one device" else split(jnp.zeros(8), "x"))

    def add(total: Any, x: Any) -> None:
        total[...] += x

    f = gspmd.jit(add, mesh=MESH)
    for _ in range(3):
        f(total, counting(8))
    np.testing.assert_array_equal(total[...], 3 * counting(8))
    assert total.sharding.spec == (P() if where == "one device" else P("x"))


def test_layouts() -> None:
    where = NamedSharding(MESH, P("x"))
    f = gspmd.jit(doubled, in_shardings=Format(Layout((1, 0)), where), out_shardings=Format(Layout((1, 0)), where))
    found = f(X)
    np.testing.assert_array_equal(found, 2 * X)
    assert found.format.layout.major_to_minor == (1, 0)
    assert "f32[2,8]{0,1}" in f.lower(X).compile().as_text().partition("\n")[0]
    np.testing.assert_array_equal(gspmd.jit(doubled, in_shardings=Format(None, where))(X), 2 * X)


def test_results_have_the_shardings_asked_for() -> None:
    where = NamedSharding(MESH, P("x"))
    assert gspmd.jit(doubled, out_shardings=where)(X).sharding == where
    flat = NamedSharding(jax.sharding.Mesh(MESH.devices.reshape(-1), ("z",)), P("z"))
    assert gspmd.jit(doubled, mesh=MESH, out_shardings=flat)(X).sharding.is_equivalent_to(flat, 2)


HOST = NamedSharding(MESH, P("x"), memory_kind="pinned_host")
DEVICE = NamedSharding(MESH, P("x"))


def test_state_on_the_host() -> None:
    def step(state: Any, gradient: Any) -> Any:
        return jax.device_put(jax.device_put(state, DEVICE) + gradient, HOST)

    f = gspmd.jit(step, mesh=MESH, out_shardings=HOST, donate_argnums=0)
    state = jax.device_put(X, HOST)
    for _ in range(3):
        state = f(state, X)
        assert state.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(np.asarray(state), 4 * X)


def test_host_values_are_put_into_host_memory() -> None:
    f = gspmd.jit(lambda s: jax.device_put(s, jax.memory.Space.Device) + 1, in_shardings=HOST)
    found = f(np.asarray(X))
    np.testing.assert_array_equal(found, X + 1)
    assert found.sharding.memory_kind == "device"


def test_memory_kinds_of_machines_that_are_not_here() -> None:
    where = NamedSharding(jax.sharding.AbstractMesh((4, 2), ("x", "y")), P("x"), memory_kind="pinned_host")
    lowered = gspmd.jit(doubled, mesh={"x": 4, "y": 2}, out_shardings=where).lower(X)
    assert "pinned_host" in lowered.as_text()


def test_unreduced_values_go_in_and_come_out() -> None:
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    x = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    partial = P("x", None, unreduced={"y"})

    def gram(x: Any) -> Any:
        return jnp.einsum("ij,kj->ik", x, jax.reshard(x, P(None, "y")), out_sharding=partial)

    with jax.set_mesh(mesh):
        found = gspmd.jit(gram)(x)
        assert found.sharding.spec == jax.jit(gram)(x).sharding.spec
        np.testing.assert_allclose(gspmd.jit(lambda g: jax.reshard(g, P("x")))(found), X @ X.T)


@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P(None, ("x", "y"))])
def test_approximate_top_k(spec: P) -> None:
    values, indices = gspmd.jit(lambda x: jax.lax.approx_max_k(x, 2), mesh=MESH, in_shardings=spec)(X)
    np.testing.assert_array_equal(np.take_along_axis(np.asarray(X), np.asarray(indices), 1), values)
    np.testing.assert_array_equal(values[:, 0], X[:, 7])


@pytest.mark.parametrize("form", ["gone", "twice"])
def test_donated_arrays_that_cannot_be_taken(form: str) -> None:
    """Also where C++ makes the call: jaxlib 0.10 would end the process."""
    f = gspmd.jit(lambda a, b: (a + b, a * b), mesh=MESH, in_shardings=P("x"), donate_argnums=0)
    arrays = [jax.device_put(X, DEVICE) for _ in range(6)]
    for i in range(2):
        f(arrays[i], arrays[5])
    message = "argument 0 'a' was donated to an earlier call" if form == "gone" else "also donated as argument 0"
    with pytest.raises(gspmd.ExecutionError, match=message):
        f(*((arrays[0], arrays[5]) if form == "gone" else (arrays[2], arrays[2])))
    np.testing.assert_array_equal(f(arrays[3], arrays[5])[0], 2 * X)


def test_a_function_of_no_module_can_be_sent_by_cloudpickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    factor = 3.0
    f = gspmd.jit(lambda x: x * factor, mesh={"x": 4, "y": 2}, in_shardings=P("x"))
    for sent in (f, f.lower, gspmd.jit(lambda x: f(x) + 1, mesh={"x": 4, "y": 2})):
        again = pickle.loads(cloudpickle.dumps(sent))
        if sent is f:
            np.testing.assert_array_equal(again(X), 3 * X)
            assert again(X).sharding == f(X).sharding
    assert "lambda" in repr(again)


def test_a_trace_that_finds_the_mesh_is_the_only_one() -> None:
    traces: list[None] = []

    def f(x: Any) -> Any:
        traces.append(None)
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(MESH, P("x")))

    assert gspmd.jit(f)(np.asarray(X)).sharding == NamedSharding(MESH, P("x"))
    assert len(traces) == 1


def test_the_type_of_an_array_says_its_mesh() -> None:
    def summed(x: Any) -> Any:
        mesh = jax.typeof(x).sharding.mesh
        return jax.shard_map(lambda part: jax.lax.psum(part, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(x)

    x = split(X, "x")
    np.testing.assert_array_equal(gspmd.jit(summed)(x), jax.jit(summed)(x))


def test_devices_that_contradict_each_other_are_refused_as_by_jax() -> None:
    few = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    x = split(X, "x")
    for jit in (jax.jit, gspmd.jit):
        with jax.set_mesh(few), pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
            jit(doubled)(x)
        with pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
            jit(doubled, in_shardings=NamedSharding(MESH, P("x")), out_shardings=NamedSharding(few, P("x")))(X)


def test_settings_without_an_effect_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    jax.config.update("jax_enable_pgle", True)
    try:
        gspmd.jit(lambda x: x - 1, mesh=MESH)(X)
    finally:
        jax.config.update("jax_enable_pgle", False)
    assert "jax_enable_pgle has no effect" in capfd.readouterr().err


def test_clearing_the_caches_of_jax_clears_ours() -> None:
    traces: list[None] = []

    def f(x: Any) -> Any:
        traces.append(None)
        return x * 2

    jitted = gspmd.jit(f, mesh=MESH)
    jitted(X), jitted(X)
    assert len(traces) == 1
    jax.clear_caches()
    np.testing.assert_array_equal(jitted(X), 2 * X)
    assert len(traces) == 2
