"""Arrays that lie right go in and come out as they are; donated ones give their memory to results."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting, pointers, split

import gspmd
from gspmd.frontend import jax_stages


def test_arrays_that_lie_right_never_see_the_host() -> None:
    f = gspmd.jit(lambda x, w: (x + 1, w @ x), mesh=MESH, out_shardings=(P("x", "y"), P("x")))
    x, w = split(counting(8, 8), "x", "y"), split(counting(4, 8), "y")
    f(x, w)
    with jax.transfer_guard("disallow"):
        y, z = f(x, w)
        y, z = f(y, z[:4] if z.shape[0] > 4 else z)
    assert y.sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_array_equal(y, counting(8, 8) + 2)


def test_an_argument_is_the_very_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    x = split(counting(8, 8), "x")
    compiled = gspmd.jit(lambda x: x * 2, mesh=MESH).lower(x).compile()
    seen: list[Any] = []
    call = jax_stages.call

    def spy(executable: Any, constants: Any, leaves: Any) -> Any:
        seen.extend(leaves)
        return call(executable, constants, leaves)

    monkeypatch.setattr(jax_stages, "call", spy)
    compiled(x)
    assert seen[0] is x


def test_donated_memory_is_used_again() -> None:
    f = gspmd.jit(lambda x, y: (x + y, x * 2), mesh=MESH, donate_argnums=0, in_shardings=P("x", "y"))
    x, y = split(counting(64, 64), "x", "y"), split(counting(64, 64), "x", "y")
    compiled = f.lower(x, y).compile()
    memory = compiled.executable.loaded.get_compiled_memory_stats()
    assert memory.alias_size_in_bytes == 64 * 64 * 4 // 8
    before = pointers(x)
    total, _ = compiled(x, y)
    assert pointers(total) == before
    assert x.is_deleted()
    assert not y.is_deleted()


def test_a_state_stays_where_it_is_over_steps() -> None:
    def step(state: Any, batch: Any) -> Any:
        return {"w": state["w"] - 0.1 * batch.mean(), "n": state["n"] + 1}, batch.sum()

    step = gspmd.jit(step, mesh=MESH, donate_argnames="state", in_shardings=({"w": P("x", "y"), "n": None}, P("x")))
    state = {"w": split(counting(64, 64), "x", "y"), "n": split(jnp.zeros((), jnp.int32))}
    places = pointers(state["w"])
    for i in range(3):
        old = state
        state, _ = step(state, np.full((8, 2), i, np.float32))
        assert pointers(state["w"]) == places
        assert old["w"].is_deleted()
        assert old["n"].is_deleted()
    assert int(state["n"]) == 3


def test_donation_survives_parts_of_other_sizes() -> None:
    """JAX pairs argument and result by their global shapes; split unlike, they have no memory to share."""
    f = gspmd.jit(lambda x: x * 2, mesh=MESH, donate_argnums=0, in_shardings=P("x"), out_shardings=P(None, "y"))
    x = split(counting(8, 8), "x")
    lowered = f.lower(x)
    assert "tf.aliasing_output = 0" in lowered.as_text()
    assert "jax.buffer_donor = true" in lowered.partitioned.module_text
    assert "tf.aliasing_output" not in lowered.partitioned.module_text
    np.testing.assert_array_equal(f(x), 2 * counting(8, 8))
    assert x.is_deleted()
    even = f(jnp.ones((6, 4)))  # uneven coming in
    np.testing.assert_array_equal(even, 2 * np.ones((6, 4)))


def test_donated_where_only_the_order_of_parts_differs() -> None:
    f = gspmd.jit(lambda x: x.T + 1, mesh={"x": 8}, donate_argnums=0, in_shardings=P("x"), out_shardings=P("x"))
    np.testing.assert_array_equal(f(counting(8, 8)), counting(8, 8).T + 1)


def test_donated_keys_and_uneven_arrays_are_gone() -> None:
    key = jax.random.key(0)
    gspmd.jit(lambda key: jax.random.fold_in(key, 1), mesh=MESH, donate_argnums=0)(key)
    assert key.is_deleted()
    f = gspmd.jit(lambda x: x + 1, mesh=MESH, donate_argnums=0, in_shardings=P("x"), out_shardings=P("x"))
    uneven = f(np.ones(7, np.float32))
    after = f(uneven)
    assert uneven.is_deleted()
    with pytest.raises(gspmd.ExecutionError, match="argument 0 'x' was donated"):
        f(uneven)
    np.testing.assert_array_equal(after, np.full(7, 3.0))


def test_a_donated_array_is_refused_afterwards() -> None:
    f = gspmd.jit(lambda state: state["w"] + 1, mesh=MESH, donate_argnums=0)
    w = split(counting(8), "x")
    f({"w": w})
    with pytest.raises(gspmd.ExecutionError, match=r"argument 0 'state\['w'\]' was donated to an earlier call"):
        f({"w": w})
    g = gspmd.jit(lambda a, b: (a + 1, b), mesh=MESH, donate_argnums=0)
    v = split(counting(8), "x")
    with pytest.raises(gspmd.ExecutionError, match="argument 1 is also donated as argument 0"):
        g(v, v)


def test_uneven_arrays_go_in_again() -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH, in_shardings=P("x"), out_shardings=P("x"))
    once = f(np.arange(7, dtype=np.float32))
    assert isinstance(once, gspmd.ShardedArray)
    with jax.transfer_guard("disallow"):
        twice = f(once)
    np.testing.assert_array_equal(twice, 4 * np.arange(7.0))
    found = gspmd.jit(lambda x: x + 1, mesh=MESH)  # what the argument comes with
    assert found.lower(once).partitioned.in_shardings[0].sdy == '<@mesh, [{"x"}]>'
    np.testing.assert_array_equal(found(once), 2 * np.arange(7.0) + 1)
    np.testing.assert_array_equal(gspmd.jit(lambda x: x, mesh={"z": 8})(once), 2 * np.arange(7.0))
    compiled = f.lower(once).compile()
    for value in (once, np.asarray(once), once.to_jax()):
        np.testing.assert_array_equal(compiled(value), 4 * np.arange(7.0))


def test_devices_in_another_order() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(4, 2), ("x", "y"))
    x = jax.device_put(counting(8, 8), NamedSharding(mesh, P("x", "y")))
    f = gspmd.jit(lambda x: x * 2, mesh=mesh, donate_argnums=0)
    places = pointers(x)
    with jax.transfer_guard("disallow"):
        y = f(x)
    assert pointers(y) == places
    np.testing.assert_array_equal(y, 2 * counting(8, 8))
    # An array on the same devices in another order is moved.
    np.testing.assert_array_equal(f(split(counting(8, 8), "x", "y")), 2 * counting(8, 8))
    g = gspmd.jit(lambda x: x @ x, mesh=mesh, in_shardings=P("x", "y"), out_shardings=P("y"))
    np.testing.assert_allclose(g(counting(8, 8)), counting(8, 8) @ counting(8, 8))


def test_arrays_that_were_put_elsewhere_than_in_shardings_say_are_refused_as_by_jax() -> None:
    part = jax.sharding.Mesh(np.array(jax.devices()[4:]), ("x",))
    f = gspmd.jit(lambda x: x + 1, mesh=MESH, in_shardings=P("y"))
    for array in (
        jax.device_put(counting(8), NamedSharding(part, P("x"))),
        jax.device_put(counting(8), jax.devices()[5]),
        split(counting(8), "x"),
    ):
        for jitted in (f, jax.jit(lambda x: x + 1, in_shardings=NamedSharding(MESH, P("y")))):
            with pytest.raises(ValueError, match=r"argument x is placed as .*device_put first|Sharding passed to jit"):
                jitted(array)
        for lying in (jax.device_put(array, NamedSharding(MESH, P("y"))), np.asarray(array)):
            np.testing.assert_array_equal(f(lying), counting(8) + 1)


def test_arrays_are_moved_where_nothing_is_said_of_them() -> None:
    f = gspmd.jit(lambda x: x + 1, mesh=MESH)
    np.testing.assert_array_equal(f(jax.device_put(counting(8), jax.devices()[5])), counting(8) + 1)
    uneven = gspmd.jit(lambda x: x + 1, mesh=MESH, in_shardings=P("y"))  # as JAX cannot hold an array
    np.testing.assert_array_equal(uneven(split(counting(9))), counting(9) + 1)


def test_results_are_arrays_as_any() -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH, in_shardings=P("x"), out_shardings=P("x", "y"))
    found, expected = f(counting(8, 8)), 2 * np.arange(64.0).reshape(8, 8)
    np.testing.assert_array_equal(jax.jit(lambda x: x.T + 1)(found), expected.T + 1)
    np.testing.assert_array_equal(found[3] + found.sum(), expected[3] + expected.sum())
    for spec in ((), ("y", "x"), (None, "x")):
        np.testing.assert_array_equal(jax.device_put(found, NamedSharding(MESH, P(*spec))), expected)
    np.testing.assert_array_equal(jax.device_put(found, jax.devices()[3]), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)), expected)
    np.testing.assert_array_equal(jnp.concatenate([found, found[:1]])[8], expected[0])
    np.testing.assert_array_equal(jax.device_get({"a": found})["a"], expected)
    np.testing.assert_array_equal(found.copy(), expected)
    donated = jax.jit(lambda x: x + 1, donate_argnums=0)
    np.testing.assert_array_equal(donated(found), expected + 1)
    assert found.is_deleted()


def test_an_array_that_lies_otherwise_than_given_is_refused_in_every_call() -> None:
    """C++ takes arrays over all devices for what they should be."""
    f = gspmd.jit(lambda w, x: x @ w, mesh=MESH, in_shardings=(P("x", "y"), P("x")), out_shardings=P("x", "y"))
    w, x = counting(8, 8), counting(8, 8)
    for lying in (split(x, "x"), split(x, "x", "y"), split(x, None, "y"), split(x, "x")):
        for _ in range(3):
            if lying.sharding.spec == P("x"):
                np.testing.assert_array_equal(f(split(w, "x", "y"), lying), x @ w)
            else:
                with pytest.raises(ValueError, match="argument x is placed as"):
                    f(split(w, "x", "y"), lying)
