"""Run twice by a test: training steps of `gspmd.jit` over two processes, and what goes wrong where they differ."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import gspmd

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
OWN = jax.process_index()
MESH = gspmd.make_mesh((4, 2), ("x", "y"))


def loss_of(params: Any, batch: Any) -> Any:
    hidden = jnp.tanh(gspmd.annotate(batch @ params["w1"], "x", "y", mesh=MESH))
    return ((hidden @ params["w2"]) ** 2).mean()


def train(params: Any, batch: Any) -> Any:
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss


def batch_of(step: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(step).random((16, 8), np.float32)


def train_steps() -> None:
    rng = np.random.default_rng(100)
    start = {"w1": rng.random((8, 16), np.float32), "w2": rng.random((16, 4), np.float32)}
    shardings = ({"w1": P(None, "y"), "w2": P("y")}, P("x"))
    abstract = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (start, batch_of(0)))
    step = gspmd.jit(train, mesh=MESH, in_shardings=shardings, out_shardings=(shardings[0], None), donate_argnums=0)
    compiled = step.lower(*abstract).compile()
    places, batch_place = compiled.in_shardings[0]
    params = jax.tree.map(
        lambda place, a: jax.make_array_from_callback(a.shape, place, lambda index: a[index]), places, start
    )
    expected, reference = start, jax.jit(train)
    for i in range(3):
        whole = batch_of(i)
        own = whole[8 * OWN : 8 * OWN + 8]
        batch = jax.make_array_from_process_local_data(batch_place, own, whole.shape)
        with jax.transfer_guard("disallow"):
            params, loss = compiled(params, batch)
        expected, expected_loss = reference(expected, whole)
        gspmd.wait(params)
        np.testing.assert_allclose(float(loss), float(expected_loss), rtol=1e-5)
        for name in expected:
            assert not params[name].is_fully_addressable or params[name].is_fully_replicated
            for shard in params[name].addressable_shards:
                np.testing.assert_allclose(shard.data, np.asarray(expected[name])[shard.index], rtol=1e-5, atol=1e-6)
    print("trained", float(loss))


def host_values_and_uneven_shards() -> None:
    f = gspmd.jit(lambda x: x * 2, mesh=MESH, in_shardings=P("x"), out_shardings=P("x"))
    even = f(np.arange(8, dtype=np.float32))
    assert [float(s.data[0]) for s in even.addressable_shards] == [8 * OWN, 8 * OWN, 8 * OWN + 4, 8 * OWN + 4]
    uneven = f(f(np.arange(7, dtype=np.float32)))
    whole = np.arange(0, 28, 4)
    for shard in uneven.shards:
        np.testing.assert_array_equal(shard.to_numpy(), whole[shard.index])
    gathered = gspmd.jit(lambda x: x, mesh=MESH, out_shardings=P())(uneven)
    np.testing.assert_array_equal(np.asarray(gathered), whole)
    uneven_arrays_in_jax(uneven, whole)


def uneven_arrays_in_jax(uneven: gspmd.ShardedArray, whole: Any) -> None:
    """What JAX computes with them, all processes compute together; what only this process would need is refused."""
    assert not uneven.is_fully_addressable
    for found, expected in (
        (uneven.to_jax(), whole),
        (uneven + uneven, 2 * whole),
        (jnp.sum(uneven), whole.sum()),
        (jax.jit(lambda x: x[::-1])(uneven), whole[::-1]),
        (jax.grad(lambda x: (x**2).sum())(uneven), 2 * whole),
    ):
        np.testing.assert_array_equal(found, expected)
    assert repr(uneven) == str(uneven) == 'ShardedArray(shape=(7,), dtype=float32, [{"x"}] of <["x"=4, "y"=2]>)'
    assert "2 of 4 parts of the array are on devices of other processes; gather it" in told(np.asarray, uneven)
    assert [shard.padded is None for shard in uneven.global_shards] == [i // 4 != OWN for i in range(8)]
    elsewhere = gspmd.jit(lambda x: x + 1, mesh=MESH, in_shardings=P("y"), out_shardings=P())
    np.testing.assert_array_equal(elsewhere(uneven), whole + 1)  # moved over the devices
    np.testing.assert_array_equal(elsewhere(jnp.asarray(whole, jnp.float32)), whole + 1)  # of this process alone


def random_keys() -> None:
    """Those of one process go to all devices; NumPy has none of them."""
    for keys, given in ((jax.random.key(3), None), (jax.random.split(jax.random.key(3), 8), P("x"))):
        f = gspmd.jit(lambda k: jax.random.bits(k.reshape(-1)[-1], (8,)), mesh=MESH, in_shardings=given)
        expected = jax.random.bits(keys.reshape(-1)[-1], (8,))
        np.testing.assert_array_equal(np.asarray(f(keys)), np.asarray(expected))


def told(f: Any, *args: Any) -> str:
    try:
        f(*args)
    except gspmd.ExecutionError as error:
        return str(error)
    raise AssertionError("it went through")


def different_programs() -> None:
    x = np.arange(8, dtype=np.float32)
    scale = 2.0 + OWN
    message = told(gspmd.jit(lambda x: x * scale, mesh=MESH), x)
    assert "the processes compile different programs: the program is" in message, message
    message = told(gspmd.jit(lambda x: x + 1, mesh=MESH), x[: 8 - 4 * OWN])
    assert f"argument 0 is f32[{8 - 4 * OWN}] <@mesh, [{{}}]> in process {OWN}" in message, message
    message = told(gspmd.jit(jnp.sin if OWN else jnp.cos, mesh=MESH), x)
    assert f"the function is {'jit_sin' if OWN else 'jit_cos'} in process {OWN}" in message, message
    same = gspmd.jit(lambda x: x + 1, mesh=MESH)(x)  # and they can go on
    np.testing.assert_array_equal(np.asarray(same), x + 1)


def one_does_not_come() -> None:
    if OWN == 0:
        message = told(gspmd.jit(jnp.negative, mesh=MESH, timeout_s=1.0), np.ones(8, np.float32))
        assert "'jit_negative': process 1 did not reach its compilation within 1 s" in message, message


train_steps()
host_values_and_uneven_shards()
random_keys()
different_programs()
one_does_not_come()
print("done")
