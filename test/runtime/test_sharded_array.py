"""ShardedArrays as the jax.Arrays that they are: every method, operator and transformation, against NumPy."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from support.handwritten import value

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.runtime.placing import from_host, place
from gspmd.runtime.sharded_array import ShardedArray

MESH = Mesh((("x", 4), ("y", 2)))
PERMUTED = Mesh((("x", 4), ("y", 2)), (3, 1, 0, 2, 7, 6, 4, 5))
Array = np.ndarray[Any, Any]
Operation = Callable[[Any, Any], Any]  # of jax.numpy or numpy, and of an array

LAYOUTS = {
    "7 over 8": ((7,), '[{"x", "y"}]', MESH),
    "9 over 8": ((9,), '[{"x", "y"}]', MESH),
    "12 over 8": ((12,), '[{"x", "y"}]', MESH),
    "1 over 8": ((1,), '[{"x", "y"}]', MESH),
    "empty": ((0,), '[{"x"}]', MESH),
    "scalar": ((), "[]", MESH),
    "two axes": ((7, 5), '[{"x"}, {"y"}]', MESH),
    "one even": ((7, 4), '[{"x"}, {"y"}]', MESH),
    "in copies": ((5, 3), '[{}, {"y"}]', MESH),
    "empty beside uneven": ((0, 7), '[{"x"}, {"y"}]', MESH),
    "both on one": ((2, 13), '[{}, {"y", "x"}]', MESH),
    "parts of axes": ((3, 2, 5), '[{"x":(1)2}, {"y"}, {"x":(2)2}]', MESH),
    "another order": ((7, 5), '[{"x"}, {"y"}]', PERMUTED),
    "even": ((8, 4), '[{"x"}, {"y"}]', MESH),
}


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """From 0.5 up, in no order that a mistake would keep."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 11 % max(count, 1)).reshape(shape) + 0.5).astype(dtype)


def laid(array: Array, text: str, mesh: Mesh = MESH) -> ShardedArray:
    kind = f"f32[{','.join(map(str, array.shape))}] {text}"
    placed = place(array, value(kind, mesh).sharding, tuple(jax.devices()), "nan")
    assert placed.padded.size == array.size or array.dtype.kind != "f" or np.isnan(placed.padded).any()
    return placed


def named(layout: str, dtype: Any = np.float32) -> tuple[ShardedArray, Array]:
    shape, text, mesh = LAYOUTS[layout]
    array = numbers(shape, dtype)
    return laid(array, text, mesh), array


def check(found: Any, expected: Any) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


OF_ANY: dict[str, Operation] = {
    "T": lambda xp, a: a.T,
    "__abs__": lambda xp, a: abs(-a),
    "__add__": lambda xp, a: a + a,
    "__and__": lambda xp, a: (a > 2) & (a < 5),
    "__array__": lambda xp, a: np.asarray(a),
    "__copy__": lambda xp, a: copy.copy(a),
    "__deepcopy__": lambda xp, a: copy.deepcopy({"a": a}),
    "__divmod__": lambda xp, a: divmod(a, 2),
    "__eq__": lambda xp, a: a == 3.5,
    "__floordiv__": lambda xp, a: a // 2,
    "__ge__": lambda xp, a: a >= 2,
    "__getitem__": lambda xp, a: (a[...], a[..., None], a[a > 2]),
    "__gt__": lambda xp, a: a > 2,
    "__invert__": lambda xp, a: ~(a > 2),
    "__le__": lambda xp, a: a <= 2,
    "__lshift__": lambda xp, a: a.astype(np.int32) << 2,
    "__lt__": lambda xp, a: a < 2,
    "__mod__": lambda xp, a: a % 3,
    "__mul__": lambda xp, a: a * 2.0,
    "__ne__": lambda xp, a: a != 3.5,
    "__neg__": lambda xp, a: -a,
    "__or__": lambda xp, a: (a < 2) | (a > 5),
    "__pos__": lambda xp, a: +a,
    "__pow__": lambda xp, a: a**2,
    "__radd__": lambda xp, a: np.float32(1) + a,
    "__rand__": lambda xp, a: True & (a > 2),
    "__rdivmod__": lambda xp, a: divmod(7.0, a),
    "__reduce__": lambda xp, a: pickle.loads(pickle.dumps({"a": a})),
    "__rfloordiv__": lambda xp, a: 7.0 // a,
    "__rlshift__": lambda xp, a: 1 << (a.astype(np.int32) % 8),
    "__rmod__": lambda xp, a: 7.0 % a,
    "__rmul__": lambda xp, a: 2.0 * a,
    "__ror__": lambda xp, a: False | (a > 2),
    "__round__": lambda xp, a: a.round(),
    "__rpow__": lambda xp, a: 2.0 ** (a / 8),
    "__rrshift__": lambda xp, a: 1024 >> (a.astype(np.int32) % 8),
    "__rshift__": lambda xp, a: a.astype(np.int32) >> 1,
    "__rsub__": lambda xp, a: 1.0 - a,
    "__rtruediv__": lambda xp, a: 1.0 / a,
    "__rxor__": lambda xp, a: True ^ (a > 2),
    "__sub__": lambda xp, a: a - 1.0,
    "__truediv__": lambda xp, a: a / 2.0,
    "__xor__": lambda xp, a: (a > 2) ^ (a > 4),
    "all": lambda xp, a: a.all(),
    "any": lambda xp, a: (a > 1).any(),
    "argsort": lambda xp, a: xp.argsort(a, axis=None),
    "astype": lambda xp, a: a.astype(np.int32),
    "clip": lambda xp, a: a.clip(1.0, 4.0),
    "conj": lambda xp, a: a.conj(),
    "conjugate": lambda xp, a: a.conjugate(),
    "copy": lambda xp, a: a.copy(),
    "cumprod": lambda xp, a: (a / 8).cumprod(),
    "cumsum": lambda xp, a: a.cumsum(),
    "dtype": lambda xp, a: a.dtype == np.float32,
    "flatten": lambda xp, a: a.flatten(),
    "imag": lambda xp, a: a.imag,
    "itemsize": lambda xp, a: a.itemsize,
    "nbytes": lambda xp, a: a.nbytes,
    "ndim": lambda xp, a: a.ndim,
    "prod": lambda xp, a: (a / 4).prod(),
    "ravel": lambda xp, a: a.ravel(),
    "real": lambda xp, a: a.real,
    "repeat": lambda xp, a: a.repeat(2),
    "reshape": lambda xp, a: a.reshape(-1, 1),
    "round": lambda xp, a: a.round(),
    "shape": lambda xp, a: a.shape,
    "size": lambda xp, a: a.size,
    "squeeze": lambda xp, a: a.squeeze(),
    "sum": lambda xp, a: a.sum(),
    "take": lambda xp, a: a.reshape(-1)[:1].take(np.zeros(2, np.int32)) if a.size else a,
    "tobytes": lambda xp, a: np.frombuffer(a.tobytes(), np.float32),
    "tolist": lambda xp, a: a.tolist(),
    "transpose": lambda xp, a: a.transpose(),
    "view": lambda xp, a: a.view(np.int32),
    "concatenate": lambda xp, a: xp.concatenate([xp.ravel(a), xp.ravel(a)]),
    "stack": lambda xp, a: xp.stack([a, a]),
    "array of several": lambda xp, a: xp.array([a, a]),
    "where": lambda xp, a: xp.where(a > 2, a, 0),
    "sin": lambda xp, a: xp.sin(a),
    "pad": lambda xp, a: xp.pad(a, 1),
    "tensordot": lambda xp, a: xp.tensordot(a, a, a.ndim),
    "isin": lambda xp, a: xp.isin(a, xp.array([1.5, 2.5])),
    "full_like": lambda xp, a: xp.full_like(a, 2),
    "broadcast_to": lambda xp, a: xp.broadcast_to(a, (2, *a.shape)),
    "expand_dims": lambda xp, a: xp.expand_dims(a, 0),
    "with NumPy": lambda xp, a: np.ones_like(a) + a,
    "a ufunc of NumPy": lambda xp, a: np.sqrt(a),
}
OF_VECTORS: dict[str, Operation] = {
    "__iter__": lambda xp, a: [*a],
    "__len__": lambda xp, a: len(a),
    "__reversed__": lambda xp, a: [*reversed(a)],
    "__getitem__": lambda xp, a: (a[1:], a[::-1], a[-1:], a[np.array([0, 0])], a[None], a[:-1]),
    "__matmul__": lambda xp, a: a.T @ a,
    "__rmatmul__": lambda xp, a: np.ones(a.shape, np.float32).T @ a,
    "argmax": lambda xp, a: (a.argmax(), a.argmax(0)),
    "argmin": lambda xp, a: (a.argmin(), a.argmin(0)),
    "argpartition": lambda xp, a: xp.take_along_axis(a, a.argpartition(0, axis=0), 0)[0],
    "argsort": lambda xp, a: a.argsort(axis=0),
    "choose": lambda xp, a: (a > 2).astype(np.int32).choose([a, 2 * a]),
    "compress": lambda xp, a: a.compress(np.array([True])[: len(a)], 0),
    "max": lambda xp, a: (a.max(), a.max(0)),
    "mean": lambda xp, a: (a.mean(), a.mean(0)),
    "min": lambda xp, a: (a.min(), a.min(0)),
    "nonzero": lambda xp, a: (a > 2).nonzero(),
    "ptp": lambda xp, a: xp.ptp(a),
    "searchsorted": lambda xp, a: xp.sort(a.ravel()).searchsorted(np.float32(2)),
    "sort": lambda xp, a: xp.sort(a, 0),
    "std": lambda xp, a: a.std(),
    "swapaxes": lambda xp, a: a.swapaxes(0, -1),
    "var": lambda xp, a: a.var(0),
    "flip": lambda xp, a: xp.flip(a),
    "roll": lambda xp, a: xp.roll(a, 2, 0),
    "__contains__": lambda xp, a: [x in a.T[0] if a.ndim > 1 else x in a for x in (3.5, 3.6)],
    "dot": lambda xp, a: (a.dot(2.0), a.T.dot(a)),
    "diff": lambda xp, a: xp.diff(a, axis=0),
    "split": lambda xp, a: xp.array_split(a, 3),
    "norm": lambda xp, a: xp.linalg.norm(a),
    "fft": lambda xp, a: xp.fft.fft(a, axis=0),
    "einsum": lambda xp, a: xp.einsum("i...,i...->...", a, a),
    "unique": lambda xp, a: xp.unique(a),
}
OF_MATRICES: dict[str, Operation] = {
    "__getitem__": lambda xp, a: (a[:, 1:], a[2, :-1], a[::2, ::-1], a[:, None, 2]),
    "diagonal": lambda xp, a: a.diagonal(),
    "mT": lambda xp, a: a.mT,
    "trace": lambda xp, a: a.trace(),
    "transpose": lambda xp, a: a.transpose(1, 0),
    "matmul": lambda xp, a: xp.matmul(a, a.T),
    "svd": lambda xp, a: xp.linalg.svd(a, compute_uv=False),
    "vstack": lambda xp, a: xp.vstack([a, a[:1]]),
    "axis 1": lambda xp, a: (a.sum(1), xp.max(a, 1), xp.cumsum(a, 1), xp.sort(a, 1)),
}
OF_SINGLES: dict[str, Operation] = {
    "__bool__": lambda xp, a: bool(a),
    "__complex__": lambda xp, a: complex(a.reshape(())),
    "__float__": lambda xp, a: float(a.reshape(())),
    "__index__": lambda xp, a: operator.index(a.reshape(()).astype(np.int32)),
    "__int__": lambda xp, a: int(a.reshape(())),
    "item": lambda xp, a: a.item(),
}


def cases(operations: dict[str, Operation], *layouts: str) -> Any:
    """Per layout and operation a test."""
    pairs = [(layout, name) for layout in layouts for name in operations]
    return pytest.mark.parametrize(("layout", "name"), pairs, ids=[" of ".join(pair[::-1]) for pair in pairs])


@cases(OF_ANY, "7 over 8", "two axes")
def test_any_array(layout: str, name: str) -> None:
    array, host = named(layout)
    check(OF_ANY[name](jnp, array), OF_ANY[name](np, host))


@cases(OF_VECTORS, "7 over 8", "another order")
def test_vectors(layout: str, name: str) -> None:
    array, host = named(layout)
    check(OF_VECTORS[name](jnp, array), OF_VECTORS[name](np, host))


@cases(OF_MATRICES, "two axes")
def test_matrices(layout: str, name: str) -> None:
    array, host = named(layout)
    check(OF_MATRICES[name](jnp, array), OF_MATRICES[name](np, host))


@cases(OF_SINGLES, "1 over 8", "scalar")
def test_single_elements(layout: str, name: str) -> None:
    array, host = named(layout)
    check(OF_SINGLES[name](jnp, array), OF_SINGLES[name](np, host.reshape(())))


SOME = (
    "T",
    "__add__",
    "__array__",
    "__getitem__",
    "__reduce__",
    "copy",
    "flatten",
    "nbytes",
    "shape",
    "tobytes",
    "sum",
)


@cases({name: OF_ANY[name] for name in SOME}, *LAYOUTS)
def test_all_layouts(layout: str, name: str) -> None:
    array, host = named(layout)
    check(OF_ANY[name](jnp, array), OF_ANY[name](np, host))


# What jax.Array has that says nothing of values, tested below by itself, and what JAX keeps to itself or gave up.
OTHERS = {
    *("__array_namespace__", "__dlpack__", "__dlpack_device__", "__format__", "__hash__", "__repr__", "__setitem__"),
    *("__str__", "addressable_data", "addressable_shards", "at", "aval", "block_until_ready", "committed"),
    *("copy_to_host_async", "delete", "device", "devices", "global_shards", "is_deleted", "is_fully_addressable"),
    *("is_fully_replicated", "is_ready", "on_device_size_in_bytes", "platform", "sharding", "to_device", "weak_type"),
}
NOT_FOR_USERS = {
    *("__array_module__", "__array_priority__", "__buffer__", "__cuda_array_interface__", "__del__", "__hex__"),
    *("__dict__", "__numpy_dtype__", "__oct__", "__release_buffer__", "__slots__", "__weakref__", "byteswap", "clone"),
    *("device_buffer", "device_buffers", "flat", "format", "traceback", "unsafe_buffer_pointer", "unsafe_raw_buffer"),
}


def test_nothing_of_jax_arrays_is_forgotten() -> None:
    kind = type(jnp.zeros(1))
    there = {name: member for source in (jax.Array, kind) for name, member in vars(source).items()}
    public = {
        name
        for name, member in there.items()
        if (not name.startswith("_") or name.endswith("__")) and (callable(member) or hasattr(member, "__get__"))
    }
    known = {*OF_ANY, *OF_VECTORS, *OF_MATRICES, *OF_SINGLES, *OTHERS, *NOT_FOR_USERS}
    assert public - {"__init__", "__new__"} - known == set()
    assert all(hasattr(ShardedArray, name) for name in public - NOT_FOR_USERS)


# ---- what JAX's functions make of them ------------------------------------------------------------


def _without_jit(f: Any, a: Any) -> Any:
    with jax.disable_jit():
        return jax.jit(f)(a)


TRANSFORMED: dict[str, Operation] = {
    "jit": lambda f, a: jax.jit(f)(a),
    "jit of a tree": lambda f, a: jax.jit(lambda tree, scale: f(tree["a"][0]) * scale)({"a": [a]}, scale=1.0),
    "jit, closed over": lambda f, a: jax.jit(lambda: f(a))(),
    "jit, compiled before": lambda f, a: jax.jit(f).lower(a).compile()(a),
    "jit with shardings": lambda f, a: jax.jit(f, in_shardings=a.sharding, out_shardings=a.sharding)(a),
    "jit, donated": lambda f, a: jax.jit(f, donate_argnums=0)(a.copy()),
    "jit in jit": lambda f, a: jax.jit(lambda x: jax.jit(f)(x) + 0 * a)(a),
    "grad": lambda f, a: jax.grad(lambda x: f(x).sum())(a),
    "value_and_grad": lambda f, a: jax.value_and_grad(lambda x: f(x).sum())(a),
    "grad, closed over": lambda f, a: jax.grad(lambda s: (f(s * a)).sum())(2.0),
    "grad of remat": lambda f, a: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(a),
    "jvp": lambda f, a: jax.jvp(f, (a,), (a,)),
    "vjp": lambda f, a: jax.vjp(f, a)[1](a),
    "linearize": lambda f, a: jax.linearize(f, a)[1](a),
    "jacobian": lambda f, a: jax.jacobian(f)(a),
    "hessian": lambda f, a: jax.hessian(lambda x: f(x).sum())(a),
    "vmap": lambda f, a: jax.vmap(f)(a),
    "vmap of two": lambda f, a: jax.vmap(lambda x, y: f(x) * y, in_axes=(0, None))(a, a),
    "vmap of grad": lambda f, a: jax.vmap(jax.grad(lambda x: f(x).sum()))(a),
    "scan": lambda f, a: jax.lax.scan(lambda c, x: (c + x, f(c)), a[0], a),
    "scan from it": lambda f, a: jax.lax.scan(lambda c, x: (c / 2 + x.sum(), f(c)), a, a),
    "map": jax.lax.map,
    "cond": lambda f, a: jax.lax.cond(a.sum() > 0, f, lambda x: x, a),
    "switch": lambda f, a: jax.lax.switch(1, [lambda x: x, f], a),
    "while_loop": lambda f, a: jax.lax.while_loop(lambda c: c.sum() < 1000, lambda c: f(c) + 1, a),
    "fori_loop": lambda f, a: jax.lax.fori_loop(0, 2, lambda i, c: f(c) / 9 + i, a),
    "associative_scan": lambda f, a: jax.lax.associative_scan(jnp.add, a),
    "lax": lambda f, a: jax.lax.add(jax.lax.sin(a), a),
    "dynamic_slice": lambda f, a: jax.lax.dynamic_slice_in_dim(a, 2, 3),
    "custom_jvp": lambda f, a: jax.nn.relu(f(a) - 3),
    "pure_callback": lambda f, a: jax.pure_callback(lambda x: 2 * x, jax.ShapeDtypeStruct(a.shape, a.dtype), a),
    "eval_shape": lambda f, a: np.zeros(jax.eval_shape(f, a).shape),
    "make_jaxpr": lambda f, a: np.zeros(jax.make_jaxpr(f)(a).out_avals[0].shape),
    "tree.map": lambda f, a: jax.tree.map(lambda x, y: f(x) - y, {"a": [a]}, {"a": [np.asarray(a)]}),
    "device_get": lambda f, a: jax.device_get({"a": a}),
    "block_until_ready": lambda f, a: jax.block_until_ready([a]),
    "random": lambda f, a: jax.random.permutation(jax.random.key(0), a),
    "at": lambda f, a: (a.at[2].set(0), a.at[1:3].add(5), a.at[-1].get()),
    "without jit": _without_jit,
    "shard_map": lambda f, a: jax.shard_map(
        f, mesh=a.sharding.mesh, in_specs=a.sharding.spec, out_specs=a.sharding.spec
    )(a),
    "index by it": lambda f, a: jnp.arange(40)[a.astype(np.int32)],
    "beside one of JAX": lambda f, a: jnp.asarray(a) + f(a),
    "abstract": lambda f, a: jax.jit(f).lower(jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding)).compile()(a),
}


MOST_USED = ("jit", "grad", "vmap", "scan", "tree.map", "shard_map")


@pytest.mark.parametrize(
    ("layout", "name"), [*(("7 over 8", name) for name in TRANSFORMED), *(("two axes", name) for name in MOST_USED)]
)
def test_transformations(layout: str, name: str) -> None:
    array, host = named(layout)
    plain = jax.device_put(host, NamedSharding(array.sharding.mesh, PartitionSpec()))

    def f(x: Any) -> Any:
        return x**2 + 3 * x

    check(TRANSFORMED[name](f, array), TRANSFORMED[name](f, plain))
    check(array, host)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_put_elsewhere(layout: str) -> None:
    array, host = named(layout)
    names = array.sharding.mesh.axis_names
    reverse = jax.sharding.Mesh(np.array(jax.devices())[::-1], ("r",))
    few = jax.sharding.Mesh(np.array(jax.devices()[2:5]), ("f",))
    for target in (
        jax.devices()[3],
        array.sharding,
        NamedSharding(array.sharding.mesh, PartitionSpec()),
        NamedSharding(reverse, PartitionSpec()),
        NamedSharding(few, PartitionSpec()),
        *([NamedSharding(array.sharding.mesh, PartitionSpec(names[0]))] if layout == "even" else []),
    ):
        put = jax.device_put({"a": array}, target)["a"]
        np.testing.assert_array_equal(put, host)
        assert put.devices() == ({target} if isinstance(target, jax.Device) else target.device_set)
    np.testing.assert_array_equal(array.to_device(jax.devices()[3]), host)


def test_nothing_goes_over_the_host() -> None:
    array, host = named("two axes")
    with jax.transfer_guard_device_to_host("disallow"):
        results = [array + array, jnp.sum(array, 0), jax.jit(jnp.sin)(array), array[2:], array.to_jax()]
        placed = place(array, value('f32[7,5] [{"y"}, {"x"}]', MESH).sharding, tuple(jax.devices()))
    for found, expected in zip(results, [host + host, host.sum(0), np.sin(host), host[2:], host], strict=True):
        assert type(found) is type(jnp.zeros(1))
        assert len(found.devices()) == 8
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(placed, host)


# ---- what they say of themselves ------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_types(layout: str) -> None:
    array, host = named(layout)
    value_of = array.to_jax()
    assert isinstance(array, jax.Array)
    assert array.aval == jax.typeof(array) == jax.typeof(value_of)
    assert array.sharding == value_of.sharding
    assert jnp.result_type(array, 1) == jnp.float32
    assert jax.tree.structure({"a": array}) == jax.tree.structure({"a": host})
    assert (array.committed, array.is_fully_addressable, array.platform()) == (True, True, "cpu")
    assert array.is_fully_replicated == array.placement.is_replicated()
    assert array.devices() == {*jax.devices()}
    assert array.device == array.sharding
    assert array.on_device_size_in_bytes() == sum(s.padded.on_device_size_in_bytes() for s in array.shards)
    array.copy_to_host_async()
    assert array.block_until_ready() is array
    assert array.is_ready()
    assert array.__array_namespace__() is jnp


def test_sharding_names_the_axes_that_divide() -> None:
    found = {layout: tuple(named(layout)[0].sharding.spec) for layout in LAYOUTS}
    assert found["7 over 8"] == (None,)
    assert found["12 over 8"] == ("x",)
    assert found["one even"] == (None, "y")
    assert found["both on one"] == (None, None)
    assert found["empty beside uneven"] == ("x", None)
    assert found["parts of axes"] == (None, "y", None)
    assert found["even"] == ("x", "y")
    array, _ = named("one even")
    assert tuple(array.padded.sharding.spec) == ("x", "y")
    assert array.sharding.mesh == array.padded.sharding.mesh


def test_shards_are_those_of_jax_without_padding() -> None:
    array, host = named("in copies")
    for shards in (array.addressable_shards, array.global_shards, array.shards):
        assert [shard.device for shard in shards] == jax.devices()
        assert [shard.replica_id for shard in shards] == [0, 0, 1, 1, 2, 2, 3, 3]
        for i, shard in enumerate(shards):
            np.testing.assert_array_equal(shard.data, host[shard.index], strict=True)
            np.testing.assert_array_equal(array.addressable_data(i), host[shard.index], strict=True)
            assert shard.data.devices() == {shard.device}


def test_weak_types_stay_weak() -> None:
    strong, _ = named("7 over 8")
    padded = jax.jit(lambda: jnp.full(8, 2.0), out_shardings=strong.padded.sharding)()
    weak = ShardedArray(padded, (7,), strong.placement)
    assert weak.weak_type
    assert weak.aval.weak_type
    assert weak.to_jax().weak_type
    assert (weak + jnp.ones(7, jnp.bfloat16)).dtype == jnp.bfloat16
    assert not strong.weak_type
    assert repr(weak).startswith("ShardedArray([2., 2., 2., 2., 2., 2., 2.], dtype=float32, weak_type=True, ")


DTYPES = [
    *("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"),
    *("complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"),
]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str) -> None:
    """Those that JAX does not make without its x64 mode among them."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    host = (np.arange(7) % 5).astype(dtype)
    array = laid(host, '[{"x", "y"}]')
    assert array.dtype == dtype
    assert array.copy().dtype == array.to_jax().dtype == dtype
    np.testing.assert_array_equal(np.asarray(array), host, strict=True)
    np.testing.assert_array_equal(np.asarray(array.to_jax()), host, strict=True)
    np.testing.assert_array_equal(np.asarray(array.copy()), host, strict=True)
    other = place(array, value('f32[7] [{"y"}]', MESH).sharding, tuple(jax.devices()), "nan")
    np.testing.assert_array_equal(np.asarray(other), host, strict=True)
    np.testing.assert_array_equal(np.asarray(array[2:]), host[2:], strict=True)
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x[::-1])(array)), host[::-1], strict=True)


def test_random_keys() -> None:
    keys = jax.random.split(jax.random.key(0), 7)
    strong, _ = named("7 over 8")
    padded = jax.device_put(jnp.concatenate([keys, keys[:1]]), strong.padded.sharding)
    array = ShardedArray(padded, (7,), strong.placement)
    assert array.dtype == keys.dtype
    expected = jax.vmap(jax.random.normal)(keys)
    np.testing.assert_array_equal(jax.vmap(jax.random.normal)(array), expected)
    np.testing.assert_array_equal(jax.random.key_data(array), jax.random.key_data(keys))
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.random.normal))(array), expected)


def test_printed_as_arrays_are() -> None:
    array, host = named("7 over 8")
    assert str(array) == f"{array}" == str(host)
    assert repr(array) == (
        'ShardedArray([0.5, 4.5, 1.5, 5.5, 2.5, 6.5, 3.5], dtype=float32, [{"x", "y"}] of <["x"=4, "y"=2]>)'
    )
    scalar, _ = named("scalar")
    assert f"{scalar:.2f}" == "0.50"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{array:.2f}"
    assert repr(named("empty")[0]) == 'ShardedArray([], shape=(0,), dtype=float32, [{"x"}] of <["x"=4, "y"=2]>)'
    large = laid(np.zeros((1 << 18) + 1, np.float32), '[{"x"}]')
    assert repr(large) == str(large) == f"{large}"
    assert repr(large) == 'ShardedArray(shape=(262145,), dtype=float32, [{"x"}] of <["x"=4, "y"=2]>)'


# ---- what they refuse -----------------------------------------------------------------------------

USES: dict[str, Callable[[ShardedArray], Any]] = {
    "to_numpy": lambda a: a.to_numpy(),
    "to_jax": lambda a: a.to_jax(),
    "asarray": np.asarray,
    "shards": lambda a: a.shards,
    "block_until_ready": jax.block_until_ready,
    "copy": copy.copy,
    "pickle": pickle.dumps,
    "+": lambda a: a + 1,
    "sum": lambda a: a.sum(),
    "[0]": lambda a: a[0],
    "jnp": jnp.sin,
    "lax": jax.lax.neg,
    "jit": jax.jit(lambda x: x + 1),
    "device_put": lambda a: jax.device_put(a, jax.devices()[1]),
    "grad": jax.grad(lambda a: a.sum()),
    "iter": list,
}


@pytest.mark.parametrize("use", USES)
def test_a_deleted_array_is_named(use: str) -> None:
    array, _ = named("7 over 8")
    array.delete()
    assert array.is_deleted()
    assert array.shape == (7,)
    assert (
        repr(array)
        == str(array)
        == 'ShardedArray(shape=(7,), dtype=float32, [{"x", "y"}] of <["x"=4, "y"=2]>, deleted)'
    )
    with pytest.raises(gspmd.ExecutionError, match=r"ShardedArray\(shape=\(7,\).* deleted\) was donated to a program"):
        USES[use](array)


def test_misuse_is_refused_as_of_other_arrays() -> None:
    array, _ = named("7 over 8")
    with pytest.raises(TypeError, match="unhashable"):
        hash(array)
    with pytest.raises(TypeError, match="immutable"):
        array[0] = 1
    with pytest.raises(ValueError, match="truth value of an array"):
        bool(array)
    with pytest.raises(TypeError, match="Only scalar arrays can be converted"):
        float(array)
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        len(named("scalar")[0])
    with pytest.raises(BufferError, match="8 devices"):
        np.from_dlpack(array)
    with pytest.raises(TypeError, match="incompatible shapes"):
        array + np.ones(8, np.float32)


def test_a_padded_array_of_another_shape_is_refused() -> None:
    array, _ = named("7 over 8")
    with pytest.raises(gspmd.UsageError, match=r"split as .* is padded to \(16,\) over a mesh, got \(8,\)"):
        ShardedArray(array.padded, (9,), array.placement)
    with pytest.raises(gspmd.UsageError, match="over a mesh, got"):
        ShardedArray(jnp.zeros(8), (7,), array.placement)


def test_one_device_packs_by_dlpack() -> None:
    array = place(numbers((3, 2)), value("f32[3,2] [{}, {}]", Mesh((("x", 1),))).sharding, (jax.devices()[0],))
    np.testing.assert_array_equal(np.from_dlpack(array), numbers((3, 2)))
    assert array.__dlpack_device__() == (1, 0)
    assert array.device == jax.devices()[0]


# ---- in the midst of other things -----------------------------------------------------------------


@pytest.mark.parametrize("layout", ["7 over 8", "another order"])
def test_a_mesh_that_is_set_is_not_asked(layout: str) -> None:
    """Its axes of type Explicit, or devices in another order, are none of the array's."""
    array, host = named(layout)
    with jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)):
        np.testing.assert_array_equal(array.to_jax(), host)
        np.testing.assert_array_equal(array.copy(), host)
        for shard in array.shards:
            np.testing.assert_array_equal(shard.data, host[shard.index])
        moved = place(array, named("7 over 8" if host.ndim == 1 else "two axes")[0].placement, tuple(jax.devices()))
        np.testing.assert_array_equal(moved, host)


def test_values_are_there_while_a_function_is_traced() -> None:
    one, vector = named("1 over 8")[0], named("7 over 8")[0]
    seen = []

    def traced(x: Any) -> Any:
        seen.append([bool(one), one.item(), *vector.tolist(), len(vector)])
        return x + vector + one

    np.testing.assert_array_equal(jax.jit(traced)(vector), 2 * numbers((7,)) + 0.5)
    gspmd_too = gspmd.jit(traced, mesh={"x": 4, "y": 2}, in_shardings=PartitionSpec("x"))
    np.testing.assert_array_equal(gspmd_too(vector), 2 * numbers((7,)) + 0.5)
    assert seen[0] == seen[1] == [True, 0.5, *numbers((7,)), 7]


def test_many_at_a_time() -> None:
    array, host = named("two axes")
    results = jax.tree.map(lambda x: x + 1, [array] * 300)
    for found in results:
        np.testing.assert_array_equal(found, host + 1)


@pytest.mark.parametrize("shape", [(3, 0), (4, 3, 0), (3, 4, 0), (0, 3, 2)])
def test_arrays_of_no_elements_are_put_together(shape: tuple[int, ...]) -> None:
    mesh = Mesh((("x", 2), ("y", 2)))
    axes = [DimSharding((mesh.axis("xy"[i % 2]),)) if i < 2 else DimSharding() for i in range(len(shape))]
    array = from_host(np.zeros(shape, np.float32), TensorSharding(mesh, tuple(axes)), tuple(jax.devices()[:4]))
    for each in (array, array.to_jax()):
        assert np.asarray(each).shape == shape
