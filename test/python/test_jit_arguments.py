"""What goes into and comes out of functions of `gspmd.jit`: pytrees, static and keyword arguments, dtypes, keys."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting, split

import gspmd


def test_pytrees_go_in_and_come_out() -> None:
    def f(state: Any, *, scale: Any) -> Any:
        return {"sum": state["a"] + state["b"][0] * scale, "none": None, "rest": (state["b"][1],)}

    found = gspmd.jit(f, mesh=MESH)({"a": jnp.ones(8), "b": [counting(8), 3]}, scale=2.0)
    assert found["none"] is None
    np.testing.assert_array_equal(found["sum"], 1 + 2 * np.arange(8.0))
    assert int(found["rest"][0]) == 3


def test_shardings_are_prefixes_and_none_says_nothing() -> None:
    def f(a: Any, b: Any) -> Any:
        return {"both": [a["p"], a["q"]], "none": None, "b": b}

    f = gspmd.jit(f, mesh=MESH, in_shardings=(P("x"), None), out_shardings={"both": P("y"), "none": None, "b": None})
    lowered = f.lower({"p": counting(8), "q": counting(8, 2)}, None)
    assert [s.sdy for s in lowered.partitioned.in_shardings] == ['<@mesh, [{"x"}]>', '<@mesh, [{"x"}, {}]>']
    assert [s.sdy for s in lowered.partitioned.out_shardings] == ['<@mesh, [{"y"}]>', '<@mesh, [{"y"}, {}]>']
    assert lowered.out_info["none"] is None


def test_static_arguments_are_part_of_the_program() -> None:
    traces = []

    @functools.partial(gspmd.jit, mesh=MESH, static_argnames=("n", "f"))
    def power(x: Any, n: int, *, f: Any = jnp.sin) -> Any:
        """Says what it does."""
        traces.append(n)
        return f(x) ** n

    x = counting(8)
    for _ in range(2):
        np.testing.assert_allclose(power(x, 2), np.sin(x) ** 2, rtol=1e-6)
        np.testing.assert_allclose(power(x, n=3, f=jnp.cos), np.cos(x) ** 3, rtol=1e-6)
    assert traces == [2, 3]
    assert (power.__name__, power.__doc__) == ("power", "Says what it does.")


def test_a_program_is_compiled_once_for_each_kind_of_arguments() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(x.shape)
        return x * 2

    f = gspmd.jit(f, mesh=MESH)
    for value in (counting(8), counting(8), counting(4), np.ones(8, np.float32), 1.0, 2.0, 1):
        f(value)
    assert traces == [(8,), (4,), (), ()]
    assert len(f._lowered) == 4  # an array of 8, on a device or of the host, one of 4, a float, an int
    f(split(counting(8), "x"))
    f(split(counting(8), "x"))
    assert len(f._lowered) == 5
    f.clear_cache()
    f(counting(8))
    assert len(f._lowered) == 1


def test_settings_that_jax_traces_by_are_looked_at() -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH)
    host = np.arange(8.0)
    assert f(host).dtype == np.float32
    with jax.enable_x64(True):
        assert f(host).dtype == np.float64
        assert f(np.arange(8)).dtype == np.int64
        assert f(3).dtype == np.int64
    assert f(host).dtype == np.float32
    assert f(3).dtype == np.int32


def test_results_of_64_bits_go_back_in() -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH, in_shardings=P("x"), out_shardings=P("x"))
    with jax.enable_x64(True):
        found = f(f(np.arange(8.0) / 3))
        uneven = f(f(np.arange(7.0) / 3))
    np.testing.assert_array_equal(np.asarray(found), np.arange(8.0) / 3 * 4)
    np.testing.assert_array_equal(np.asarray(uneven), np.arange(7.0) / 3 * 4)


def test_results_are_weakly_typed_as_those_of_jax() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return a + 1, b * 2.0, a + b, c + a, jnp.zeros(3)

    found, expected = gspmd.jit(f, mesh=MESH)(1, 2.0, counting(8)), jax.jit(f)(1, 2.0, counting(8))
    assert [r.weak_type for r in found] == [r.weak_type for r in expected] == [True, True, True, False, False]
    assert [r.dtype for r in found] == [r.dtype for r in expected]
    assert (found[1] + jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "int8", "int4", "uint32", "bool", "complex64", "float8_e4m3fn"]
)
def test_every_dtype_passes(dtype: str) -> None:
    x = (jnp.arange(16) % 5).reshape(8, 2).astype(dtype)
    same, back = gspmd.jit(lambda x: (x, x[::-1]), mesh=MESH, in_shardings=P("x"))(x)
    assert same.dtype == back.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(same), np.asarray(x))
    np.testing.assert_array_equal(np.asarray(back), np.asarray(x)[::-1])


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_go_in_and_come_out(impl: str) -> None:
    key = jax.random.key(7, impl=impl)

    def f(key: Any) -> Any:
        return jax.random.split(key, 8), jax.random.fold_in(key, 3)

    keys, folded = gspmd.jit(f, mesh=MESH, out_shardings=(P("x"), None))(key)
    expected_keys, expected = jax.jit(f)(key)
    assert keys.dtype == key.dtype
    assert keys.sharding.spec == P("x")
    np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(expected_keys))
    np.testing.assert_array_equal(jax.random.key_data(folded), jax.random.key_data(expected))
    again = gspmd.jit(lambda keys: jax.random.key_data(keys).sum(), mesh=MESH)(keys)
    assert int(again) == int(jax.random.key_data(expected_keys).sum())


def test_raw_keys_are_arrays() -> None:
    key = jax.random.PRNGKey(1)
    found = gspmd.jit(lambda key: jax.random.normal(key, (8, 4)), mesh=MESH, out_shardings=P("x"))(key)
    np.testing.assert_allclose(found, jax.random.normal(key, (8, 4)), rtol=1e-6)


def test_nothing_is_a_value_like_others() -> None:
    f = gspmd.jit(lambda a, b: (a + 1, b.sum(), jnp.zeros((0,))), mesh=MESH, in_shardings=(P("x"), P("x", "y")))
    a, b, c = f(jnp.zeros((0, 4)), jnp.zeros((8, 0)))
    assert (np.shape(a), float(b), c.shape) == ((0, 4), 0.0, (0,))
    flat = gspmd.jit(lambda x: x[::-1], mesh=MESH, in_shardings=P(None, "x"), out_shardings=P(None, "y"))
    assert np.asarray(flat(np.asarray(flat(jnp.zeros((0, 8)))))).shape == (0, 8)
    assert gspmd.jit(lambda: jnp.arange(8), mesh=MESH, out_shardings=P("x"))().sum() == 28
    assert gspmd.jit(lambda a: None, mesh=MESH)(1) is None
    assert gspmd.jit(lambda a: (), mesh=MESH)({}) == ()


def test_constants_around_the_function_are_part_of_it() -> None:
    table = np.random.default_rng(0).random((512, 512), np.float32)
    constant = jnp.asarray(table)
    found = gspmd.jit(lambda x: x @ constant, mesh=MESH, in_shardings=P("x"))(jnp.ones((8, 512)))
    np.testing.assert_allclose(found, np.ones((8, 512)) @ table, rtol=1e-5)


def test_gradients_of_integers_have_no_values() -> None:
    def loss(p: Any) -> Any:
        return (p["a"] * p["i"]).sum()

    values = {"a": jnp.ones(8), "i": jnp.arange(8)}
    found = gspmd.jit(jax.grad(loss, allow_int=True), mesh=MESH)(values)
    assert found["i"].dtype == jax.dtypes.float0
    np.testing.assert_array_equal(found["a"], np.arange(8.0))
    np.testing.assert_array_equal(gspmd.jit(lambda g: g["a"], mesh=MESH)(found), found["a"])


def test_methods_and_partial_functions_and_callables() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @functools.partial(gspmd.jit, mesh=MESH, static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.scale

        def __call__(self, x: Any) -> Any:
            return x + self.scale

    model, x = Model(3.0), counting(8)
    np.testing.assert_array_equal(model.apply(x), 3 * np.arange(8.0))
    np.testing.assert_array_equal(gspmd.jit(model, mesh=MESH)(x), 3 + np.arange(8.0))
    np.testing.assert_array_equal(gspmd.jit(functools.partial(jnp.add, 1.0), mesh=MESH)(x), 1 + np.arange(8.0))
    np.testing.assert_array_equal(gspmd.jit(jax.jit(jnp.negative), mesh=MESH)(x), -np.arange(8.0))


def test_variable_arguments_and_positions_from_the_end() -> None:
    total = gspmd.jit(lambda *args, **kwargs: sum(args) + sum(kwargs.values()), mesh=MESH)
    assert float(total(1, 2, b=3.0)) == 6.0
    with pytest.raises(gspmd.UsageError, match=r"argument args\[1\]\['z'\] is of type str"):
        total(1, {"z": "text"})
    times = gspmd.jit(lambda x, n: x * n, mesh=MESH, static_argnums=-1)
    np.testing.assert_array_equal(times(counting(8), 3), 3 * np.arange(8.0))


def test_calls_from_several_threads() -> None:
    square = gspmd.jit(lambda x: x @ x, mesh=MESH, in_shardings=P("x"))
    x = counting(8, 8)
    with ThreadPoolExecutor(4) as threads:
        for i, found in enumerate(threads.map(lambda i: square(x * i), range(8))):
            np.testing.assert_allclose(found, x @ x * i * i)


def test_lowered_tells_what_it_knows() -> None:
    def f(x: Any, w: Any) -> Any:
        return gspmd.annotate(x @ w, "x", None)

    lowered = gspmd.jit(f, mesh=MESH, in_shardings=(P("x"), P("y"))).lower(counting(8, 4), counting(4, 4))
    assert "sdy.sharding_constraint" in lowered.as_text()
    assert "test_jit_arguments.py" in lowered.as_text(debug_info=True)
    assert 'gspmd.name = "w"' in lowered.partitioned.module_text
    assert [c.kind for c in lowered.partitioned.collectives] == ["all_reduce"]
    cost = lowered.cost("tpu-v5p")
    assert cost.target == "tpu-v5p"
    assert cost.runs == 1
    assert lowered.cost().flops_ratio is not None
    assert lowered.explain().conflicts
    compiled = lowered.compile()
    assert compiled.in_shardings[0][1].spec == P("y")
    np.testing.assert_allclose(compiled(counting(8, 4), counting(4, 4)), counting(8, 4) @ counting(4, 4))
