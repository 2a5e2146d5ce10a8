"""Meshes of the devices of topologies: what `jax.jit` does there, `gspmd.jit` does."""

from __future__ import annotations

import functools
import importlib.util
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import mesh_utils, topologies
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.compiled import machines
from gspmd.dialect.errors import Error, ExecutionError, Unsupported, UsageError

needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
X = jax.ShapeDtypeStruct((256, 512), jnp.float32)
W = jax.ShapeDtypeStruct((512, 1024), jnp.float32)


@functools.cache
def devices(name: str, slices: int = 1) -> tuple[Any, ...]:
    machines.quieten()
    options: dict[str, Any] = {"num_slices": slices} if slices > 1 else {}
    return tuple(topologies.get_topology_desc(platform="tpu", topology_name=name, **options).devices)


def mesh_of(name: str, shape: tuple[int, ...], axes: tuple[str, ...], slices: int = 1) -> Mesh:
    return Mesh(np.array(devices(name, slices), object).reshape(shape), axes)


def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


# ---- compiling ----


@needs_libtpu
@pytest.mark.parametrize(("name", "slices"), [("v5e:2x4", 1), ("v5e:2x4", 2), ("v5p:2x2x2", 1), ("v4:2x2x1", 1)])
@pytest.mark.parametrize("spec", [P("d"), P("d", "t"), P(("d", "t")), P("t"), P()], ids=str)
def test_a_mesh_of_a_topology_compiles(name: str, slices: int, spec: P) -> None:
    """Only the devices of one host know their memories, and sets of devices begin with any."""
    mesh = mesh_of(name, (len(devices(name, slices)) // 2, 2), ("d", "t"), slices)
    compiled = gspmd.jit(product, in_shardings=(NamedSharding(mesh, spec), None)).lower(X, W).compile()
    assert compiled.in_shardings[0][0].is_equivalent_to(NamedSharding(mesh, spec), 2)
    assert compiled.memory_analysis().argument_size_in_bytes > 0
    assert compiled.cost_analysis()["flops"] > 0
    assert "HloModule" in compiled.as_text()
    assert compiled.input_formats[0][0].sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
    assert jax.tree.leaves(compiled.args_info)[0].shape == X.shape
    assert compiled.out_info.sharding.is_equivalent_to(compiled.out_shardings, 2)


@needs_libtpu
def test_a_mesh_of_devices_of_another_host_compiles() -> None:
    mesh = Mesh(np.array(devices("v5e:2x4")[4:], object), ("d",))
    compiled = gspmd.jit(product, in_shardings=NamedSharding(mesh, P("d"))).lower(X, W).compile()
    assert compiled.machine.target == "tpu:v5e:2x4@Y2.X2"


@needs_libtpu
def test_what_is_compiled_is_one_of_the_stages_of_jax_and_one_of_the_programs_of_gspmd() -> None:
    mesh = mesh_of("v5e:2x4", (4, 2), ("d", "t"))
    with jax.set_mesh(mesh):
        compiled = gspmd.jit(product, in_shardings=(P("d"), P(None, "t"))).lower(X, W).compile()
    assert isinstance(compiled, jax.stages.Compiled)
    assert isinstance(compiled, gspmd.CompiledProgram)
    assert compiled.step_time().scheduled_s > 0
    assert compiled.memory.limit == 16e9


@needs_libtpu
def test_what_is_compiled_is_serialized_as_jax_does_it() -> None:
    mesh = mesh_of("v5e:2x4", (4, 2), ("d", "t"))
    compiled = gspmd.jit(product, in_shardings=(NamedSharding(mesh, P("d")), None)).lower(X, W).compile()
    content, in_tree, out_tree = serialize(compiled)
    assert len(pickle.dumps(content)) > 10_000
    assert in_tree == compiled.in_tree
    assert out_tree == compiled.out_tree


@needs_libtpu
def test_what_is_compiled_for_a_topology_cannot_be_called() -> None:
    mesh = mesh_of("v5e:2x4", (4, 2), ("d", "t"))
    step = gspmd.jit(product, in_shardings=(NamedSharding(mesh, P("d")), None))
    arguments = np.ones(X.shape, np.float32), np.ones(W.shape, np.float32)
    with pytest.raises(ExecutionError, match="'product' is for '8 x TPU v5 lite', which is not here"):
        step(*arguments)
    with pytest.raises(ExecutionError, match=r"the function is for 'tpu:v5e:2x4@Y4\.X2', which is not here"):
        step.lower(X, W).compile()(*arguments)


@needs_libtpu
@pytest.mark.parametrize("given", ["devices", "abstract", "sizes"])
def test_other_meshes_compile_for_a_topology(given: str) -> None:
    sizes = {"d": 4, "t": 2}
    mesh = AbstractMesh((4, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2) if given == "abstract" else sizes
    options = {} if given == "devices" else {"target": "tpu:v5e:2x4"}
    lowered = gspmd.jit(product, mesh=mesh, in_shardings=(P("d"), P(None, "t")), **options).lower(X, W)
    compiled = lowered.compile(devices=devices("v5e:2x4")) if given == "devices" else lowered.compile()
    assert compiled.machine.hardware.name == "tpu-v5e:2x4"


@needs_libtpu
@pytest.mark.parametrize("body", ["pure_callback", "debug"])
def test_calls_of_python_compile_for_a_topology(body: str) -> None:
    def function(x: jax.Array) -> jax.Array:
        if body == "debug":
            jax.debug.print("{}", x.sum())
            return x + 1
        return jax.pure_callback(lambda x: x, X, x)

    sharding = NamedSharding(mesh_of("v5e:2x4", (4, 2), ("d", "t")), P("d"))
    assert gspmd.jit(function, in_shardings=sharding).lower(X).compile().machine.target == "tpu:v5e:2x4@Y4.X2"


def test_calls_of_python_are_partitioned_for_a_target_whose_devices_are_not_here() -> None:
    def function(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x.sum())
        return x + 1

    lowered = gspmd.jit(function, mesh={"d": 8}, in_shardings=P("d"), target="tpu:v5e:2x4").lower(X)
    assert [each.kind for each in lowered.partitioned.collectives] == ["all_reduce"]
    if importlib.util.find_spec("libtpu") is not None:
        with pytest.raises(Unsupported, match="calls Python, as "):
            lowered.compile()


# ---- tracing and lowering for the platform ----


def branch(x: jax.Array) -> jax.Array:
    return jax.lax.platform_dependent(x, cpu=lambda x: x + 3, tpu=lambda x: x + 7)


def test_a_function_for_a_topology_takes_its_branches() -> None:
    lowered = gspmd.jit(branch, mesh={"d": 8}, in_shardings=P("d"), target="tpu:v5e:2x4").lower(X)
    assert "dense<7.0" in lowered.as_text()
    assert "dense<3.0" not in lowered.as_text()


@needs_libtpu
def test_a_function_over_a_mesh_of_a_topology_takes_its_branches() -> None:
    sharding = NamedSharding(mesh_of("v5e:2x4", (4, 2), ("d", "t")), P("d"))
    assert "dense<7.0" in gspmd.jit(branch, in_shardings=sharding).lower(X).as_text()


def kernel_over(x: jax.Array) -> jax.Array:
    """A kernel of Pallas on the shards, which is lowered for TPUs only."""
    from jax.experimental import pallas as pl

    def twice(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def on_shard(x: jax.Array) -> jax.Array:
        return pl.pallas_call(twice, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    return jax.shard_map(on_shard, in_specs=P("d", "t"), out_specs=P("d", "t"), check_vma=False)(x)


KERNELS = gspmd.jit(
    kernel_over, mesh={"d": 4, "t": 2}, in_shardings=P("d", "t"), target="tpu:v5e:2x4", replicate_unsupported=True
)


def test_kernels_are_lowered_for_the_target() -> None:
    assert "tpu_custom_call" in KERNELS.lower(X).as_text()


@needs_libtpu
def test_kernels_are_compiled_for_the_target() -> None:
    assert "tpu_custom_call" in KERNELS.lower(X).compile().as_text()


def test_what_is_traced_may_ask_for_the_kind_of_the_devices() -> None:
    asked = []

    def function(x: jax.Array, number: int) -> jax.Array:
        asked.append(jax.sharding.get_abstract_mesh().abstract_device.device_kind)
        return x + number

    meshes = ({"d": 8}, AbstractMesh((8,), ("d",)), jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,)))
    for number, mesh in enumerate(meshes):
        jitted = gspmd.jit(function, mesh=mesh, in_shardings=P("d"), target="tpu:v6e:2x4", static_argnums=1)
        jitted.lower(X, number)
    assert asked == ["TPU v6 lite"] * 3


# ---- several slices ----


@needs_libtpu
def test_a_hybrid_mesh_is_priced_and_compiled_by_its_slices() -> None:
    hybrid = mesh_utils.create_hybrid_device_mesh((2, 4), (2, 1), devices=devices("v5e:2x4", 2))
    mesh = Mesh(hybrid, ("data", "model"))

    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        return w - jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)

    shardings = NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P("data"))
    shapes = jax.ShapeDtypeStruct((2048, 4096), jnp.float32), jax.ShapeDtypeStruct((8192, 2048), jnp.float32)
    lowered = gspmd.jit(step, in_shardings=shardings, out_shardings=shardings[0]).lower(*shapes)
    assert str(lowered.hardware) == "tpu:v5e:2x4*2@S2.Y2:2.Y2.X2 (looked up: 16 x TPU v5 lite)"
    steps = [(each.kind, each.axes) for each in lowered.partitioned.collectives][-4:]
    inside, across = '"data":(2)2', '"data":(1)2'
    scatters, gathers = (
        [("reduce_scatter", inside), ("reduce_scatter", across)],
        [("all_gather", across), ("all_gather", inside)],
    )
    assert steps == scatters + gathers
    flat = gspmd.cost(gspmd.partition(lowered.program), target=lowered.hardware.target)
    assert lowered.cost().communication_s < 0.9 * flat.communication_s
    step_time = lowered.compile().step_time()
    between = [each for each in step_time.collectives if "recv" in each.name]
    shard = 2048 * 1024 * 4 / 2 / 2  # of what is scattered inside already
    assert [(each.kind, each.devices, each.sent_bytes) for each in between] == [
        ("reduce_scatter", 2, shard),
        ("all_gather", 2, shard),
    ]
    assert between[0].time_s == pytest.approx(1e-5 + shard / 3.125e9)


@needs_libtpu
def test_several_slices_are_named_in_a_target() -> None:
    compiled = gspmd.jit(product, mesh={"d": 2, "t": 8}, in_shardings=(P("d"), P(None, "t")), target="tpu:v5e:2x4*2")
    machine = compiled.lower(X, W).compile().machine
    assert sorted(device.slice_index for device in machine.devices) == [0] * 8 + [1] * 8


# ---- bad input ----


@needs_libtpu
def test_a_mesh_of_two_topologies_is_refused() -> None:
    mixed = Mesh(np.array([*devices("v5e:2x4")[:4], *devices("v5p:2x2x2")[:4]], object), ("d",))
    alike = Mesh(np.array([*devices("v5e:2x4")[:4], *devices("v5e:4x4")[:4]], object), ("d",))
    for mesh, message in ((mixed, "has devices of 2 kinds: 4 of 'TPU v5 lite', 4 of 'TPU v5'"), (alike, "2 clients")):
        with pytest.raises(UsageError, match=message):
            gspmd.jit(product, in_shardings=NamedSharding(mesh, P("d"))).lower(X, W)


@needs_libtpu
@pytest.mark.parametrize("target", ["tpu:v5p:2x2x2", "tpu:v5e:4x4", "gpu:h100:8", "tpu-v5p", "h100"])
def test_a_target_that_is_not_the_mesh_is_refused(target: str) -> None:
    sharding = NamedSharding(mesh_of("v5e:2x4", (4, 2), ("d", "t")), P("d"))
    message = f"has devices of kind 'TPU v5 lite', which are 'tpu:v5e:2x4'; the target is '{target}'; leave the target"
    with pytest.raises(UsageError, match=message):
        gspmd.jit(product, in_shardings=(sharding, None), target=target).lower(X, W)


@needs_libtpu
@pytest.mark.parametrize(
    ("target", "assumed"),
    [("tpu:v5e:2x4", "tpu:v5e:2x4@Y4.X2"), ("tpu:v5e:2x4@X2.Y4", "tpu:v5e:2x4@X2.Y4"), ("tpu-v5e", "tpu-v5e")],
)
def test_a_target_that_is_the_mesh_is_taken(target: str, assumed: str) -> None:
    sharding = NamedSharding(mesh_of("v5e:2x4", (4, 2), ("d", "t")), P("d"))
    lowered = gspmd.jit(product, in_shardings=(sharding, None), target=target).lower(X, W)
    assert lowered.hardware.target == assumed
    assert lowered.compile().machine.target == "tpu:v5e:2x4@Y4.X2"


@needs_libtpu
def test_devices_in_no_order_compile() -> None:
    chips = devices("v5e:4x4")
    mesh = Mesh(np.array([chips[i] for i in (0, 5, 3, 10, 6, 9, 15, 12)], object), ("d",))
    lowered = gspmd.jit(product, in_shardings=(NamedSharding(mesh, P("d")), None)).lower(X, W)
    assert lowered.hardware.target.startswith("tpu")
    assert lowered.partitioned.mesh.size == 8


@needs_libtpu
@pytest.mark.parametrize("target", ["tpu:v5e:3x3", "tpu:v5e:2x4*3@S3.X1"])
def test_a_topology_that_does_not_exist_is_refused(target: str) -> None:
    with pytest.raises(Error, match=r"topology|devices"):
        gspmd.jit(product, mesh={"d": 9}, in_shardings=P(), target=target).lower(X, W).compile()


@needs_libtpu
def test_what_jax_cannot_hold_is_not_serialized() -> None:
    sharding = NamedSharding(mesh_of("v5e:2x4", (4, 2), ("d", "t")), P("d"))
    uneven = jax.ShapeDtypeStruct((63, 64), jnp.float32)
    compiled = gspmd.jit(lambda x: x * 2, in_shardings=sharding).lower(uneven).compile()
    assert jax.tree.leaves(compiled.in_avals)[0].shape == compiled.out_info.shape == (63, 64)
    with pytest.raises(Unsupported, match="that JAX cannot represent, such as an uneven one; save it by"):
        serialize(compiled)


# ---- here ----


def test_what_is_compiled_here_is_serialized_and_loaded() -> None:
    mesh = jax.make_mesh((4, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    shardings = NamedSharding(mesh, P("d")), NamedSharding(mesh, P(None, "t"))
    x, w = (np.random.default_rng(0).normal(size=each.shape).astype(np.float32) for each in (X, W))
    compiled = gspmd.jit(product, in_shardings=shardings).lower(x, w).compile()
    loaded = deserialize_and_load(*serialize(compiled), execution_devices=list(mesh.devices.flat))
    arguments = [jax.device_put(value, sharding) for value, sharding in zip((x, w), shardings, strict=True)]
    np.testing.assert_array_equal(np.asarray(loaded(*arguments)), np.asarray(compiled(x, w)))
