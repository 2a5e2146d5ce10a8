"""`jax.experimental.custom_partitioning` in `gspmd.jit`: the functions of a call are asked, and split it."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import dispatch
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import BATCHING, SdyShardingRule, custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting

import gspmd
from gspmd.frontend.device_mesh import DeviceMesh

RNG = np.random.default_rng(7)
X = RNG.standard_normal((16, 8)).astype(np.float32)
W = RNG.standard_normal((8, 12)).astype(np.float32)


@dataclasses.dataclass
class Asked:
    """What functions of the user's were called with: for each call the specs of operands, and those of results."""

    partition: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = dataclasses.field(default_factory=list)
    infer: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    user: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def specs(tree: Any) -> tuple[Any, ...]:
    return tuple(value.sharding.spec for value in jax.tree.leaves(tree))


def on(*spec: Any, mesh: Any = MESH) -> NamedSharding:
    return NamedSharding(mesh, P(*spec))


def product(asked: Asked, rule: Any = "i k, k j -> i j", infer: bool = False) -> Any:
    """A product of matrices, of which the contraction may be split: then its function sums."""

    @functools.partial(custom_partitioning, static_argnums=(2,))
    def multiply(x: Any, w: Any, scale: float) -> Any:
        return scale * (x @ w)

    def partition(scale: float, mesh: Any, arguments: Any, result: Any) -> Any:
        asked.partition.append((specs(arguments), specs(result)))
        rows, inner = arguments[0].sharding.spec
        columns = arguments[1].sharding.spec[1]
        columns = None if columns in (rows, inner) else columns

        def part(x: Any, w: Any) -> Any:
            made = scale * (x @ w)
            return made if inner is None else jax.lax.psum(made, inner)

        return mesh, part, on(rows, columns, mesh=mesh), (on(rows, inner, mesh=mesh), on(inner, columns, mesh=mesh))

    def inferred(scale: float, mesh: Any, arguments: Any, result: Any) -> Any:
        assert result.shape == (arguments[0].shape[0], arguments[1].shape[1])
        asked.infer.append(specs(arguments))
        return on(arguments[0].sharding.spec[0], arguments[1].sharding.spec[1], mesh=mesh)

    ruled = {} if rule is None else {"sharding_rule": rule}
    if isinstance(rule, str):
        ruled["reduction_factors"] = ("k",)
    multiply.def_partition(partition=partition, infer_sharding_from_operands=inferred if infer else None, **ruled)
    return multiply


def same(fun: Callable[..., Any], like: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Compare with `jax.jit` of the plain function, to 1e-5 of the largest element; returns what was lowered."""
    split = gspmd.jit(fun, **{"mesh": MESH, **options})
    found, expected = split(*args), jax.jit(like)(*args)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        b = np.asarray(b)
        np.testing.assert_allclose(np.asarray(a), b, atol=1e-5 * max(1.0, float(np.abs(b).max())))
    return split.lower(*args)


def rows(kept: int) -> Callable[..., Any]:
    """A function for `sharding_rule` and others: the sharding of the first argument, of leading dimensions only."""

    def keep(mesh: Any, arguments: Any, result: Any) -> Any:
        return on(*(*arguments[0].sharding.spec[:kept], *(None,) * (len(arguments[0].shape) - kept)), mesh=mesh)

    return keep


def transform(x: Any) -> Any:
    return jnp.fft.fft(x)


def along_rows(fun: Callable[..., Any], asked: Asked, **given: Any) -> Any:
    """A function of rows of matrices, in the style of distributed transforms."""
    keep = rows(1)

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        asked.partition.append((specs(arguments), specs(result)))
        kept = keep(mesh, arguments, result)
        return mesh, fun, kept, (kept,)

    def infer(mesh: Any, arguments: Any, result: Any) -> Any:
        asked.infer.append(specs(arguments))
        return keep(mesh, arguments, result)

    split = custom_partitioning(fun)
    split.def_partition(partition=partition, infer_sharding_from_operands=infer, **given)
    return split


# ---- who is asked what ----


def test_what_a_rule_lets_be_split_is_not_gathered(asked: Asked) -> None:
    fft = along_rows(transform, asked, sharding_rule="... i -> ... i", need_replication_factors=("i",))
    lowered = same(lambda x: fft(2 * x) + 1, lambda x: jnp.fft.fft(2 * x) + 1, X, in_shardings=P("x"))
    assert asked.partition[0] == ((P("x", None),), (P("x", None),))
    assert not asked.infer
    assert not lowered.partitioned.collectives
    assert lowered.partitioned.out_shardings[0].sdy == '<@mesh, [{"x"}, {}]>'


def test_without_a_rule_results_are_what_is_inferred_from_operands(asked: Asked) -> None:
    fft = along_rows(transform, asked)
    lowered = same(lambda x: fft(fft(2 * x)) + 1, lambda x: jnp.fft.fft(jnp.fft.fft(2 * x)) + 1, X, in_shardings=P("x"))
    assert asked.infer[-1] == (P("x", None),)
    assert {*asked.partition} == {((P("x", None),), (P("x", None),))}
    assert not lowered.partitioned.collectives
    assert lowered.partitioned.out_shardings[0].sdy == '<@mesh, [{"x"}, {}]>'


def test_what_cannot_be_split_is_gathered_for_it(asked: Asked) -> None:
    fft = along_rows(transform, asked)
    lowered = same(fft, jnp.fft.fft, X, in_shardings=P(None, "y"))
    assert asked.partition[0] == ((P(None, "y"),), (P(None, None),))
    assert [(c.kind, c.bytes) for c in lowered.partitioned.collectives] == [("all_gather", 16 * 4 * 4)]


def test_a_split_contraction_is_summed_by_its_own_function(asked: Asked) -> None:
    multiply = product(asked)
    lowered = same(lambda x, w: multiply(x, w, 2.0), lambda x, w: 2 * (x @ w), X, W, in_shardings=(P("x", "y"), P("y")))
    assert asked.partition[0] == ((P("x", "y"), P("y", None)), (P("x", None),))
    (collective,) = lowered.partitioned.collectives
    assert (collective.kind, collective.axes, collective.bytes) == ("all_reduce", '"y"', 4 * 12 * 4)


@pytest.mark.parametrize(
    "rule",
    [
        SdyShardingRule((("i", "k"), ("k", "j")), (("i", "j"),), reduction_factors=("k",)),
        lambda scale, mesh, operands, results: SdyShardingRule((("i", "k"), ("k", "j")), (("i", "j"),)),
        lambda scale, mesh, operands, results: ("i k, k j -> i j", {"reduction_factors": ("k",)}),
    ],
    ids=["value", "function", "function of text"],
)
def test_a_rule_may_be_a_value_or_a_function(asked: Asked, rule: Any) -> None:
    multiply = product(asked, rule)
    same(lambda x, w: multiply(x, w, 2.0), lambda x, w: 2 * (x @ w), X, W, in_shardings=(None, P(None, "y")))
    assert asked.partition[0] == ((P(None, None), P(None, "y")), (P(None, "y"),))


def test_a_rule_of_factors_that_make_up_dimensions(asked: Asked) -> None:
    """As Transformer Engine writes its layers: a group of dimensions becomes one, and another stays apart."""

    @custom_partitioning
    def gate(x: Any) -> Any:
        return (x[:, 0] * jax.nn.sigmoid(x[:, 1])).reshape(-1)

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        asked.partition.append((specs(arguments), specs(result)))
        (axis, *_) = arguments[0].sharding.spec
        part = functools.partial(lambda x: (x[:, 0] * jax.nn.sigmoid(x[:, 1])).reshape(-1))
        return mesh, part, on(axis, mesh=mesh), (on(axis, mesh=mesh),)

    gate.def_partition(
        partition=partition,
        infer_sharding_from_operands=lambda mesh, arguments, result: on(arguments[0].sharding.spec[0], mesh=mesh),
        sharding_rule="b two d -> (b d)",
        need_replication_factors=("two", "d"),
    )
    x = RNG.standard_normal((8, 2, 6)).astype(np.float32)

    def plain(x: Any) -> Any:
        return (x[:, 0] * jax.nn.sigmoid(x[:, 1])).reshape(-1)

    lowered = same(gate, plain, x, in_shardings=P("x"))
    assert asked.partition[0] == ((P("x", None, None),), (P("x"),))
    assert not lowered.partitioned.collectives


def test_dimensions_in_front_are_a_batch(asked: Asked) -> None:
    fft = along_rows(transform, asked, sharding_rule=SdyShardingRule(((BATCHING, "i"),), ((BATCHING, "i"),)))
    same(fft, jnp.fft.fft, X, in_shardings=P("x"))
    assert asked.partition[0] == ((P("x", None),), (P("x", None),))


def test_users_of_a_result_are_heard_where_operands_say_nothing(asked: Asked) -> None:
    @custom_partitioning
    def double(x: Any) -> Any:
        return 2 * x

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        asked.partition.append((specs(arguments), specs(result)))
        return mesh, lambda x: 2 * x, result.sharding, (result.sharding,)

    def propagate(mesh: Any, result: Any) -> Any:
        asked.user.append(specs(result))
        return on(result.sharding.spec[0], mesh=mesh)

    double.def_partition(
        partition=partition,
        infer_sharding_from_operands=lambda mesh, arguments, result: arguments[0].sharding,
        propagate_user_sharding=propagate,
    )
    same(double, lambda x: 2 * x, X, in_shardings=P(), out_shardings=P("x", "y"))
    assert asked.user == [(P("x", "y"),)]
    assert asked.partition[0] == ((P(None, None),), (P("x", None),))
    asked.partition.clear()
    same(double, lambda x: 2 * x, X, in_shardings=P("y"), out_shardings=P("x"))
    assert asked.partition[0] == ((P("y", None),), (P("y", None),))


def test_without_rule_and_functions_nothing_follows(asked: Asked) -> None:
    multiply = product(asked, rule=None)
    same(
        lambda x, w: multiply(x, w, 1.0),
        lambda x, w: x @ w,
        X,
        W,
        in_shardings=(P("x"), None),
        out_shardings=P(None, "y"),
    )
    assert asked.partition[0] == ((P("x", None), P(None, None)), (P(None, "y"),))


def test_shards_are_even(asked: Asked) -> None:
    fft = along_rows(transform, asked, sharding_rule="b i -> b i", need_replication_factors=("i",))
    same(fft, jnp.fft.fft, X[:14], in_shardings=P("x"))
    assert asked.partition[0] == ((P(None, None),), (P(None, None),))
    asked.partition.clear()
    same(fft, jnp.fft.fft, X[:12], in_shardings=P(("x", "y")))
    assert asked.partition[0] == ((P("x", None),), (P("x", None),))


def test_equal_calls_are_asked_once_and_static_arguments_tell_them_apart(asked: Asked) -> None:
    multiply = product(asked)
    square = RNG.standard_normal((8, 8)).astype(np.float32) / 3

    def powers(scales: tuple[Any, ...], multiply: Any, x: Any, w: Any) -> Any:
        for scale in scales:
            x = jnp.tanh(multiply(x, w, scale))
        return x

    def plain(x: Any, w: Any, scale: float) -> Any:
        return scale * (x @ w)

    def check(*scales: Any) -> int:
        asked.partition.clear()
        fun, like = (functools.partial(powers, scales, each) for each in (multiply, plain))
        gspmd.jit(fun, mesh=MESH, in_shardings=(P("x"), None)).lower(X, square).partitioned  # noqa: B018
        count = len(asked.partition)
        same(fun, like, X, square, in_shardings=(P("x"), None))
        return count

    assert check(1.5, 1.5, 1.5) == 1
    assert check(1.5, 2.5) == 2
    assert check(1, True, 1.0) == 3


def test_layers_that_repeat_are_partitioned_once(asked: Asked) -> None:
    multiply = product(asked, rule=None, infer=True)
    weights = [RNG.standard_normal((8, 8)).astype(np.float32) / 3 for _ in range(40)]

    def model(multiply: Any, x: Any, weights: Any) -> Any:
        for w in weights:
            x = jnp.tanh(multiply(x, w, 1.0)) + 0.5 * x - jnp.mean(x, -1, keepdims=True)
        return x

    stages: list[str] = []
    fun = functools.partial(model, multiply)
    split = gspmd.jit(fun, mesh=MESH, in_shardings=(P("x"), None), on_stage=lambda stage, seconds: stages.append(stage))
    np.testing.assert_allclose(
        split(X, weights), jax.jit(functools.partial(model, lambda x, w, scale: x @ w))(X, weights), atol=1e-4
    )
    assert {"fold", "unfold"} <= {*stages}
    assert len(asked.partition) == 1


def test_a_primitive_of_a_library_may_be_lowered_to_a_call(asked: Asked) -> None:
    """As those of Transformer Engine and of JAX's cuDNN attention: the call is not in the traced function."""
    outer = Primitive("library_norm")

    @functools.partial(custom_partitioning, static_argnums=(1,))
    def norm(x: Any, epsilon: float) -> Any:
        return x / (epsilon + jnp.abs(x).max(-1, keepdims=True))

    def infer(epsilon: float, mesh: Any, arguments: Any, result: Any) -> Any:
        return on(*arguments[0].sharding.spec[:-1], None, mesh=mesh)

    def partition(epsilon: float, mesh: Any, arguments: Any, result: Any) -> Any:
        asked.partition.append((specs(arguments), specs(result)))
        kept = infer(epsilon, mesh, arguments, result)
        return mesh, functools.partial(norm.fun, epsilon=epsilon), kept, (kept,)

    norm.def_partition(
        infer_sharding_from_operands=infer,
        partition=partition,
        sharding_rule="b i -> b i",
        need_replication_factors=("i",),
    )
    outer.def_abstract_eval(lambda x, epsilon: x)
    mlir.register_lowering(outer, mlir.lower_fun(norm, multiple_results=False))
    dispatch.prim_requires_devices_during_lowering.add(outer)
    try:
        lowered = same(lambda x: outer.bind(2 * x, epsilon=0.5), lambda x: norm.fun(2 * x, 0.5), X, in_shardings=P("x"))
    finally:
        dispatch.prim_requires_devices_during_lowering.discard(outer)
    assert asked.partition[0] == ((P("x", None),), (P("x", None),))
    assert not lowered.partitioned.collectives


def test_attention_of_cudnn_is_split_over_batch_and_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as that can be seen without a GPU: the kernels, forward and backward, are those of a device's part."""
    attention = importlib.import_module("jax._src.cudnn.fused_attention_stablehlo")
    monkeypatch.setattr(attention, "check_cudnn_version", lambda: 91200)
    monkeypatch.setattr(attention, "check_compute_capability", lambda capability: True)
    monkeypatch.setattr(attention, "is_cuda_compute_capability_equal", lambda capability: False)
    monkeypatch.setattr(DeviceMesh, "platform", "cuda")

    def loss(*qkv: Any) -> Any:
        return jax.nn.dot_product_attention(*qkv, implementation="cudnn", is_causal=True).astype(jnp.float32).sum()

    shape = jax.ShapeDtypeStruct((8, 128, 4, 64), jnp.bfloat16)
    split = gspmd.jit(jax.grad(loss, (0, 1, 2)), mesh=MESH, in_shardings=(P("x", None, "y"),) * 3)
    partitioned = split.lower(shape, shape, shape).partitioned
    assert [str(sharding) for sharding in partitioned.out_shardings] == ['<@mesh, [{"x"}, {}, {"y"}, {}]>'] * 3
    kernels = re.findall(r"@__cudnn\$(\w+)\(.* : \((tensor<\w+>)", partitioned.module_text)
    assert kernels == [(f"fmhaSoftmax{which}", "tensor<2x128x2x64xbf16>") for which in ("", "Backward")]
    assert not partitioned.collectives


# ---- values and meshes ----


def test_pytrees_scalars_and_constants_of_the_function(asked: Asked) -> None:
    table = np.arange(8, dtype=np.float32)

    def plain(values: Any, pair: Any) -> Any:
        return {"s": values["a"] + pair[0] + jnp.arange(8.0), "n": jnp.sum(values["a"])}, pair[1]

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        values, pair = arguments
        asked.partition.append((specs(arguments), specs(results)))
        assert pair[1].dtype == np.int32
        assert results[0]["n"].shape == ()

        def part(values: Any, pair: Any) -> Any:
            total = jax.lax.psum(jnp.sum(values["a"]), values_axis)
            return {"s": values["a"] + pair[0] + table, "n": total}, pair[1]

        values_axis = values["a"].sharding.spec[0]
        whole, split = on(mesh=mesh), values["a"].sharding
        return mesh, part, ({"s": split, "n": whole}, whole), ({"a": split}, (split, whole))

    fun = custom_partitioning(plain)
    fun.def_partition(partition=partition, sharding_rule="i j, i j, k -> , i j, k", need_replication_factors=("j", "k"))
    k = np.arange(3, dtype=np.int32)
    same(
        lambda x, k: fun({"a": x}, (2 * x, k)),
        lambda x, k: plain({"a": x}, (2 * x, k)),
        X,
        k,
        in_shardings=(P("x"), None),
    )
    assert asked.partition[0] == ((P("x", None), P("x", None), P(None)), (P(), P("x", None), P(None)))


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "complex64", "uint32"])
def test_types_of_elements(asked: Asked, dtype: str) -> None:
    flip = along_rows(lambda x: x[:, ::-1], asked, sharding_rule="b i -> b i", need_replication_factors=("i",))
    same(flip, lambda x: x[:, ::-1], (counting(8, 6) % 5).astype(dtype), in_shardings=P("x"))


def test_shardings_as_xla_has_them() -> None:
    seen: list[Any] = []

    @custom_partitioning
    def double(x: Any) -> Any:
        return 2 * x

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        seen.append(arguments[0].sharding)
        return mesh, lambda x: 2 * x, result.sharding, (arguments[0].sharding,)

    double.def_partition(partition=partition, sharding_rule="i j -> i j", decode_shardings=False)
    lowered = same(double, lambda x: 2 * x, X, in_shardings=P("x", "y"))
    assert type(seen[0]).__name__ == "GSPMDSharding"
    assert seen[0].is_equivalent_to(on("x", "y"), 2)
    assert not lowered.partitioned.collectives


def test_meshes_that_are_not_here(asked: Asked) -> None:
    multiply = product(asked)
    split = gspmd.jit(
        lambda x, w: multiply(x, w, 1.0), mesh={"x": 64, "y": 4}, in_shardings=(P(None, "x"), P("x", "y"))
    )
    shapes = jax.ShapeDtypeStruct((8, 128), np.float32), jax.ShapeDtypeStruct((128, 16), np.float32)
    (collective,) = split.lower(*shapes).partitioned.collectives
    assert (collective.kind, collective.axes) == ("all_reduce", '"x"')
    assert asked.partition == [((P(None, "x"), P("x", "y")), (P(None, "y"),))]


def test_meshes_around_and_types(asked: Asked) -> None:
    multiply = product(asked)
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((4, 1, 2), ("a", "one", "b"), axis_types=(kind,) * 3)
        asked.partition.clear()
        with jax.set_mesh(mesh):
            x, w = jax.device_put(X, P("a", "one")), jax.device_put(W, P(None, "b"))
            found = gspmd.jit(lambda x, w: multiply(x, w, 1.0))(x, w)
        np.testing.assert_allclose(found, X @ W, atol=1e-4)
        assert asked.partition[0] == ((P("a", None), P(None, "b")), (P("a", "b"),))


def test_one_device_computes_the_function_itself(asked: Asked) -> None:
    multiply = product(asked)
    same(lambda x, w: multiply(x, w, 2.0), lambda x, w: 2 * (x @ w), X, W, mesh={"x": 1})
    assert not asked.partition


def test_devices_in_other_orders(asked: Asked) -> None:
    """Functions see the mesh of `gspmd.jit`; groups of their collectives name devices of the program."""
    multiply = product(asked)
    other = Mesh(np.array(jax.devices())[[3, 1, 2, 0, 7, 6, 5, 4]].reshape(4, 2), ("x", "y"))
    args = jax.device_put(X, on("x", "y", mesh=other)), jax.device_put(W, on("y", mesh=other))
    for out in (P("x"), P(("x", "y"))):
        asked.partition.clear()
        same(lambda x, w: multiply(x, w, 2.0), lambda x, w: 2 * (x @ w), *args, mesh=MESH, out_shardings=out)
        assert asked.partition[0][0] == (P("x", "y"), P("y", None))


def test_another_mesh_of_the_same_devices_may_be_returned() -> None:
    @custom_partitioning
    def total(x: Any) -> Any:
        return jnp.sum(x, 0)

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        flat = Mesh(mesh.devices.reshape(-1), ("all",))
        return flat, lambda x: jax.lax.psum(jnp.sum(x, 0), "all"), on(mesh=flat), (on("all", mesh=flat),)

    total.def_partition(partition=partition, sharding_rule="i j -> j", need_replication_factors=("j",))
    lowered = same(total, lambda x: jnp.sum(x, 0), X, in_shardings=P(("x", "y")))
    assert [c.kind for c in lowered.partitioned.collectives] == ["all_reduce"]


# ---- transformations ----


def differentiable(multiply: Any) -> Any:
    @jax.custom_vjp
    def times(x: Any, w: Any) -> Any:
        return multiply(x, w, 1.0)

    def backward(saved: Any, cotangent: Any) -> Any:
        x, w = saved
        return multiply(cotangent, w.T, 1.0), multiply(x.T, cotangent, 1.0)

    times.defvjp(lambda x, w: (times(x, w), (x, w)), backward)
    return times


def test_gradients_in_loops_and_branches(asked: Asked) -> None:
    weights = RNG.standard_normal((5, 8, 8)).astype(np.float32) / 3

    def loss(times: Any, weights: Any, x: Any) -> Any:
        def body(carry: Any, w: Any) -> Any:
            def step(carry: Any) -> Any:
                return jnp.tanh(times(carry, w))

            return jax.lax.cond(w[0, 0] > 0, step, lambda carry: 2 * carry, carry), None

        return jnp.sum(jax.lax.scan(body, x, weights)[0] ** 2)

    fun, like = (functools.partial(loss, times) for times in (differentiable(product(asked)), jnp.matmul))
    same(jax.value_and_grad(fun, (0, 1)), jax.value_and_grad(like, (0, 1)), weights, X, in_shardings=(None, P("x")))
    assert asked.partition


def test_vmap_by_a_rule_of_ones_own(asked: Asked) -> None:
    fft = along_rows(transform, asked, sharding_rule="... i -> ... i", need_replication_factors=("i",))

    @custom_vmap
    def one(x: Any) -> Any:
        return jnp.fft.fft(x)

    one.def_vmap(lambda size, batched, x: (fft(x), True))
    lowered = same(jax.vmap(one), jax.vmap(jnp.fft.fft), X, in_shardings=P("x"))
    assert not lowered.partitioned.collectives


def test_whole_manual_computations_compute_the_function_itself(asked: Asked) -> None:
    multiply = product(asked)
    mapped = jax.shard_map(
        lambda x, w: multiply(x, w, 1.0), mesh=MESH, in_specs=(P(("x", "y")), P()), out_specs=P(("x", "y"))
    )
    same(mapped, jnp.matmul, X, W)
    flat = Mesh(MESH.devices.reshape(-1), ("all",))
    mapped = jax.shard_map(lambda x, w: multiply(x, w, 1.0), mesh=flat, in_specs=(P("all"), P()), out_specs=P("all"))
    same(mapped, jnp.matmul, X, W)
    assert not asked.partition


def test_free_axes_of_a_manual_computation_may_split_it(asked: Asked) -> None:
    multiply = product(asked)
    mapped = jax.shard_map(
        lambda x, w: multiply(x, w, 1.0),
        mesh=MESH,
        in_specs=(P("x"), P()),
        out_specs=P("x"),
        axis_names={"x"},
        check_vma=False,
    )
    lowered = same(mapped, jnp.matmul, X, W, in_shardings=(P("x"), P(None, "y")))
    assert asked.partition[0] == ((P(None, None), P(None, "y")), (P(None, "y"),))
    assert not lowered.partitioned.collectives
    asked.partition.clear()
    lowered = same(mapped, jnp.matmul, X, W, in_shardings=(P("x", "y"), P("y")))
    assert asked.partition[0] == ((P(None, "y"), P("y", None)), (P(None, None),))
    assert [(c.kind, c.axes) for c in lowered.partitioned.collectives] == [("all_reduce", '"y"')]


def test_calls_within_the_function_of_one_device(asked: Asked) -> None:
    """There each device computes what it has: an inner call is computed by its own function."""
    inner = product(asked, rule=None, infer=True)

    @jax.jit
    def part(x: Any) -> Any:
        return jnp.cumsum(inner(jnp.sin(x), jnp.ones((8, 8), np.float32), 1.0), axis=1)

    outer = custom_partitioning(lambda x: jnp.cumsum(jnp.sin(x) @ jnp.ones((8, 8), np.float32), axis=1))

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        asked.partition.append((specs(arguments), specs(result)))
        return mesh, part, result.sharding, (arguments[0].sharding,)

    outer.def_partition(partition=partition, sharding_rule="i k -> i j", need_replication_factors=("k", "j"))
    same(outer, lambda x: jnp.cumsum(jnp.sin(x) @ jnp.ones((8, 8)), axis=1), X, in_shardings=P("x"))
    assert {*asked.partition} == {((P("x", None),), (P("x", None),))}


def test_devices_may_look_where_they_are_and_talk_in_every_way() -> None:
    @custom_partitioning
    def shift(x: Any) -> Any:
        places = jnp.repeat(jnp.arange(4.0), x.shape[0] // 4)
        return jnp.roll(x, x.shape[0] // 4, 0) + places[:, None] - jnp.max(x, 1, keepdims=True)

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        def part(x: Any) -> Any:
            moved = jax.lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)])
            largest = jnp.max(jax.lax.all_gather(x, "y", axis=1, tiled=True), 1, keepdims=True)
            return moved + jax.lax.axis_index("x") - largest

        return mesh, part, on("x", "y", mesh=mesh), (on("x", "y", mesh=mesh),)

    shift.def_partition(partition=partition, sharding_rule="i j -> i j")
    lowered = same(shift, shift.fun, X, in_shardings=P("x", "y"))
    kinds = sorted(c.kind for c in lowered.partitioned.collectives)
    assert kinds == ["all_gather", "collective_permute"]


def test_functions_that_its_calls_name_are_brought_along(asked: Asked) -> None:
    """An approximate top-k names the one that compares."""

    def best(x: Any) -> Any:
        return jax.lax.approx_max_k(x, 3)[0]

    top = along_rows(best, asked, sharding_rule="b i -> b k", need_replication_factors=("i", "k"))

    def both(best: Any, x: Any) -> Any:
        return best(x), best(x[:8]), jax.lax.approx_max_k(x, 2)[0]

    same(functools.partial(both, top), functools.partial(both, best), X, in_shardings=P("x"))
    assert len(asked.partition) == 2


# ---- what is made of it ----


def test_explained_priced_and_reported(asked: Asked) -> None:
    multiply = product(asked)
    lowered = gspmd.jit(
        lambda x, w: 2 * multiply(x, w, 1.0), mesh=MESH, in_shardings=(P("x"), P(None, "y")), shardings=None
    ).lower(X, W)
    values = {value.name: value for value in lowered.explain().values}
    assert values["%0"].operation == "sdy.manual_computation"
    assert values["%0"].sharding == '[{"x"}, {"y"}]'
    assert lowered.cost().sent_bytes == 0
    assert "multiply" in lowered.as_text()
    assert lowered.report().html


def test_a_search_asks_for_what_it_tries(asked: Asked) -> None:
    multiply = product(asked)
    split = gspmd.jit(
        lambda x, w: jnp.tanh(multiply(x, w, 1.0)), mesh=MESH, shardings={"time_limit_s": 3.0}, target="tpu-v5e"
    )
    np.testing.assert_allclose(split(X, W), np.tanh(X @ W), atol=1e-5)
    assert len({*asked.partition}) > 1


def test_jax_itself_is_as_before(asked: Asked) -> None:
    """`jax.jit` splits by rules, and refuses functions alone, beside programs of ours."""
    fft = along_rows(transform, asked)
    same(fft, jnp.fft.fft, X, in_shardings=P("x"))
    with pytest.raises(NotImplementedError, match="sharding_rule"):
        jax.jit(fft)(jax.device_put(X, on("x")))
    ruled = along_rows(transform, asked, sharding_rule="b i -> b i", need_replication_factors=("i",))
    found = jax.jit(ruled)(jax.device_put(X, on("x")))
    np.testing.assert_allclose(found, gspmd.jit(ruled, in_shardings=on("x"))(X), atol=1e-4)


# ---- mistakes ----


def broken(**changed: Any) -> Any:
    """A function whose `partition` returns something else for one of its four values, or for all."""

    @custom_partitioning
    def double(x: Any) -> Any:
        return 2 * x

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        given = {"mesh": mesh, "fun": lambda x: 2 * x, "out": result.sharding, "in": (arguments[0].sharding,)}
        given |= {name: value(mesh) if callable(value) and name != "fun" else value for name, value in changed.items()}
        return given.get("all", (given["mesh"], given["fun"], given["out"], given["in"]))

    double.def_partition(partition=partition, sharding_rule="i j -> i j")
    return double


def fail(x: Any) -> Any:
    raise KeyError("no such layout")


MISTAKES = {
    "no tuple": ({"all": 7}, "'partition' of 'double' returned 7, expected a mesh, a function, and shardings"),
    "no mesh": ({"mesh": "x"}, "returned 'x', expected a mesh"),
    "another mesh": ({"mesh": lambda mesh: Mesh(mesh.devices[:2], mesh.axis_names)}, "a mesh {'x': 2, 'y': 2}"),
    "another order": ({"mesh": lambda mesh: Mesh(mesh.devices[::-1], mesh.axis_names)}, "expected the devices of"),
    "a part of a shape": ({"fun": lambda x: x[:1]}, "gives float32[1, 8] on each device, expected float32[4, 8]"),
    "another type": ({"fun": lambda x: x.astype(jnp.int32)}, "gives int32[4, 8] on each device, expected float32"),
    "more results": ({"fun": lambda x: (x, x)}, "gives float32[4, 8], float32[4, 8] on each device, expected"),
    "an error of the user's": ({"fun": fail}, "KeyError: 'no such layout'"),
    "Python": ({"fun": lambda x: jax.pure_callback(lambda v: v, x, x)}, "calls Python in the per-device function"),
    "a spec": ({"out": P("x")}, "returned for result 0 P('x',), expected a sharding"),
    "too few arguments": ({"in": ()}, "returned other shardings than there are arguments"),
    "no sequence": ({"in": None}, "returned other shardings than there are arguments"),
    "a long spec": ({"out": lambda mesh: on("x", None, "y", mesh=mesh)}, "returned for result 0"),
    "another size": ({"out": lambda mesh: on("x", mesh=Mesh(mesh.devices[:2], mesh.axis_names))}, "of 8"),
    "padding": ({"out": lambda mesh: on(None, ("x", "y"), mesh=mesh)}, None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_partition_are_told_where_it_is_called(mistake: str) -> None:
    changed, message = MISTAKES[mistake]
    x = X if message else X[:, :7]
    message = message or "for result 0 of shape [16, 7], which would have padding"
    with pytest.raises(gspmd.Error) as raised:
        gspmd.jit(broken(**changed), mesh=MESH, in_shardings=P("x"))(x)
    assert message in str(raised.value)
    assert "stablehlo.custom_call" in str(raised.value)
    assert raised.value.location is not None
    assert raised.value.location.file == __file__


def test_errors_of_users_say_where_they_were_raised() -> None:
    with pytest.raises(gspmd.Error) as raised:
        gspmd.jit(broken(fun=fail), mesh=MESH, in_shardings=P("x"))(X)
    (note,) = raised.value.notes
    assert note.location is not None
    assert (note.location.file, note.location.line) == (__file__, fail.__code__.co_firstlineno + 1)


@pytest.mark.parametrize("function", ["infer_sharding_from_operands", "propagate_user_sharding", "sharding_rule"])
def test_errors_of_other_functions_are_told_too(function: str) -> None:
    def wrong(*given: Any) -> Any:
        raise RuntimeError("mesh of the wrong kind")

    double = custom_partitioning(lambda x: 2 * x)
    double.def_partition(
        partition=lambda mesh, arguments, result: (mesh, lambda x: 2 * x, result.sharding, (result.sharding,)),
        **{function: wrong},
    )
    annotated = {"in_shardings": P("x")} if function != "propagate_user_sharding" else {"out_shardings": P("x")}
    with pytest.raises(gspmd.Error, match="RuntimeError: mesh of the wrong kind") as raised:
        gspmd.jit(lambda x: 1 + double(x), mesh=MESH, **annotated)(X)
    assert raised.value.location is not None
    assert raised.value.location.file == __file__


def test_what_is_inferred_has_to_be_shardings() -> None:
    double = custom_partitioning(lambda x: 2 * x)
    double.def_partition(
        partition=lambda mesh, arguments, result: (mesh, lambda x: 2 * x, result.sharding, (result.sharding,)),
        infer_sharding_from_operands=lambda mesh, arguments, result: (on(mesh=mesh), on(mesh=mesh)),
    )
    with pytest.raises(gspmd.Error, match=r"returned for result 0 .* expected a sharding"):
        gspmd.jit(double, mesh=MESH, in_shardings=P("x"))(X)


@pytest.mark.parametrize("rule", ["i j, k -> i j", "i -> i", lambda mesh, operands, results: 5])
def test_a_rule_that_does_not_fit_is_told_where_it_is_used(rule: Any) -> None:
    double = custom_partitioning(lambda x: 2 * x)
    double.def_partition(partition=lambda *given: None, sharding_rule=rule)
    with pytest.raises(gspmd.Error, match="the sharding rule of '<lambda>'") as raised:
        gspmd.jit(lambda x: 1 + double(x), mesh=MESH, in_shardings=P("x"))(X)
    assert raised.value.location is not None
    assert raised.value.location.file == __file__


def test_axes_that_are_manual_around_it_cannot_split_it(asked: Asked) -> None:
    double = broken(out=lambda mesh: on("x", mesh=mesh))
    mapped = jax.shard_map(
        lambda x: 1 + double(x), mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    with pytest.raises(gspmd.Error, match="with axes that a manual computation around it holds"):
        gspmd.jit(mapped, mesh=MESH)(X)


def test_the_text_of_a_program_has_no_functions(asked: Asked) -> None:
    multiply = product(asked)
    lowered = gspmd.jit(lambda x, w: multiply(x, w, 1.0), mesh=MESH, in_shardings=(P("x"), None)).lower(X, W)
    for options in ({}, {"replicate_unsupported": True}):
        with pytest.raises(
            gspmd.Error, match="partitioning functions are in the Python program that made it"
        ) as raised:
            gspmd.partition(lowered.as_text(), **options)
        assert "gspmd.jit" in str(raised.value)
        assert raised.value.location is not None
