"""Ragged all-to-alls, which JAX cannot run on CPUs, are what a model in numpy makes of them."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

import gspmd
from proof.ragged import difference, ragged_case

P = PartitionSpec


@pytest.mark.parametrize("seed", range(32))
def test_it_is_what_the_model_says(seed: int) -> None:
    """`test/fuzz_ragged.py` tries more."""
    case = ragged_case(seed)
    assert not difference(case), case.described()


def exchange(mesh: Mesh, *names: str) -> Any:
    """Of operands with a leading dimension of devices, over the first axis; `names` are manual."""
    axis = mesh.axis_names[0]

    def body(*operands: Any) -> Any:
        return jax.lax.ragged_all_to_all(*(operand[0] for operand in operands), axis_name=axis)[None]

    return jax.shard_map(
        body, mesh=mesh, in_specs=P(axis), out_specs=P(axis), axis_names=set(names or [axis]), check_vma=False
    )


def mesh_of(devices: Any, *names: str) -> Mesh:
    return Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names))


def ints(*rows: Any) -> Any:
    return np.array(rows, np.int32)


# What the documentation of `jax.lax.ragged_all_to_all` shows.
SHOWN = (
    np.array([[1, 2, 2], [3, 4, 0]], np.float32),
    np.zeros((2, 4), np.float32),
    ints([0, 1], [0, 1]),
    ints([1, 2], [1, 1]),
    ints([0, 0], [1, 2]),
    ints([1, 1], [2, 1]),
)


def test_the_example_of_jax() -> None:
    found = gspmd.jit(exchange(mesh_of(np.array(jax.devices()[:2]), "x")))(*SHOWN)
    np.testing.assert_array_equal(found, [[1, 3, 0, 0], [2, 2, 4, 0]])


def test_devices_in_another_order() -> None:
    devices = np.array([jax.devices()[i] for i in (5, 2)])
    mesh = mesh_of(devices, "x")
    spec = NamedSharding(mesh, P("x"))
    found = gspmd.jit(exchange(mesh), in_shardings=spec)(*SHOWN)
    np.testing.assert_array_equal(found, [[1, 3, 0, 0], [2, 2, 4, 0]])


def test_of_slices_that_overlap_the_last_sender_is_seen() -> None:
    rows = np.array([[1, 1, 1], [2, 2, 2]], np.float32)
    starts, sizes = ints([0, 0], [0, 0]), ints([3, 0], [2, 0])
    places, received = ints([0, 0], [2, 0]), ints([3, 2], [0, 0])
    found = gspmd.jit(exchange(mesh_of(np.array(jax.devices()[:2]), "x")))(
        rows, SHOWN[1], starts, sizes, places, received
    )
    np.testing.assert_array_equal(found, [[1, 1, 2, 2], [0, 0, 0, 0]])


def test_on_one_device_slices_are_copied() -> None:
    """Nothing is sent, but what is written lies elsewhere than what is read."""
    mesh = mesh_of(np.array(jax.devices()[:1]), "x")
    operands = ([[1, 2, 3]], [[0, 0, 0, 0]], [[1, 0]], [[2, 1]], [[0, 3]], [[2, 1]])
    rows, output, *vectors = (np.array(operand, np.int32) for operand in operands)
    function = gspmd.jit(exchange(mesh), mesh=mesh)
    assert not function.lower(rows, output, *vectors).partitioned.collectives
    np.testing.assert_array_equal(function(rows, output, *vectors), [[2, 3, 0, 1]])


def packed(devices: int, rows: int, rng: np.random.Generator) -> tuple[Any, ...]:
    """Offsets and sizes, `[devices, devices]`, of slices that are sent and received one after the other."""
    sizes = rng.multinomial(rows, [1 / devices] * devices, devices).astype(np.int32)
    starts, places = np.cumsum(sizes, 1, dtype=np.int32) - sizes, np.cumsum(sizes, 0, dtype=np.int32) - sizes
    return starts, sizes, places, np.ascontiguousarray(sizes.T)


def on_one_device(rows: Any, output: Any, starts: Any, sizes: Any, places: Any, received: Any) -> Any:
    """The same of packed slices, for arrays of all devices."""
    result = jnp.asarray(output)
    for receiver in range(len(rows)):
        for sender in range(len(rows)):
            index = jnp.arange(output.shape[1])
            inside = index - places[sender, receiver]
            taken = rows[sender][jnp.clip(inside + starts[sender, receiver], 0, rows.shape[1] - 1)]
            is_written = ((inside >= 0) & (inside < sizes[sender, receiver])).reshape(-1, *[1] * (taken.ndim - 1))
            result = result.at[receiver].set(jnp.where(is_written, taken, result[receiver]))
    return result


@pytest.mark.parametrize("names", [("x",), ("x", "y")])
def test_gradients(names: tuple[str, ...]) -> None:
    """Of partially and wholly manual computations, along a free axis split and not."""
    mesh = mesh_of(np.array(jax.devices()).reshape(4, 2), "x", "y")
    rng = np.random.default_rng(3)
    vectors = packed(4, 6, rng)
    rows, output, weights = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 6, 4), (4, 24, 4), (4, 24, 4)))

    def loss(apply: Any, rows: Any, output: Any) -> Any:
        return (jnp.sin(apply(rows, output, *vectors)) * weights).sum()

    split = NamedSharding(mesh, P("x", None, "y"))
    function = gspmd.jit(
        jax.value_and_grad(lambda *given: loss(exchange(mesh, *names), *given)), mesh=mesh, in_shardings=(split, split)
    )
    value, gradient = jax.value_and_grad(lambda *given: loss(on_one_device, *given))(rows, output)
    found = function(rows, output)
    np.testing.assert_allclose(found[0], value, rtol=1e-5)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-5, atol=1e-6)


def test_a_batch_of_them() -> None:
    mesh = mesh_of(np.array(jax.devices()[:4]), "x")
    rng = np.random.default_rng(4)
    each = [packed(4, 5, rng) for _ in range(3)]
    vectors = [np.stack(vector) for vector in zip(*each, strict=True)]
    rows, output = rng.normal(size=(3, 4, 5, 2)).astype(np.float32), np.zeros((3, 4, 20, 2), np.float32)
    function = gspmd.jit(jax.vmap(exchange(mesh)), mesh=mesh)
    expected = [on_one_device(*one) for one in zip(rows, output, *vectors, strict=True)]
    np.testing.assert_array_equal(function(rows, output, *vectors), np.stack(expected))


def test_in_a_loop_of_known_length_it_counts_as_often_as_it_runs() -> None:
    mesh = mesh_of(np.array(jax.devices()[:4]), "x")
    vectors = packed(4, 5, np.random.default_rng(5))
    one = exchange(mesh)

    def repeated(rows: Any, output: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, carry: one(carry[:, :5], carry, *vectors) + 1, output + rows.sum())

    rows, output = np.ones((4, 5, 2), np.float32), np.arange(160, dtype=np.float32).reshape(4, 20, 2)
    lowered = gspmd.jit(repeated, mesh=mesh).lower(rows, output)
    (ragged,) = (c for c in lowered.partitioned.collectives if c.kind == "ragged_all_to_all")
    assert (ragged.count, ragged.bytes, ragged.at_most) == (3, 5 * 2 * 4, True)
    expected = output + rows.sum()
    for _ in range(3):
        expected = np.asarray(on_one_device(expected[:, :5], expected, *vectors)) + 1
    np.testing.assert_allclose(lowered.compile()(rows, output), expected)


@pytest.mark.parametrize("names", [("x",), ("x", "y")])
def test_it_is_checked_against_the_same_on_all_devices(names: tuple[str, ...]) -> None:
    mesh = mesh_of(np.array(jax.devices()).reshape(4, 2), "x", "y")
    vectors = packed(4, 6, np.random.default_rng(6))
    program = jax.jit(lambda rows, output: exchange(mesh, *names)(rows, output, *vectors))
    shape = jax.ShapeDtypeStruct((4, 6, 4), np.float32)
    assert gspmd.check(program.lower(shape, shape)).passed


def test_operands_in_another_device_order_are_exchanged_in_that_one() -> None:
    """Where that moves less: one exchange is between the devices in the order of its mesh, and one in another."""
    devices = np.array(jax.devices()[:4])
    mesh, other = mesh_of(devices, "x"), mesh_of(devices[[2, 0, 3, 1]], "x")
    here, there = NamedSharding(mesh, P("x")), NamedSharding(other, P("x"))
    rng = np.random.default_rng(8)
    rows = np.arange(40, dtype=np.float32).reshape(4, 5, 2)
    given = (rows, np.zeros((4, 20, 2), np.float32), *packed(4, 5, rng))
    function = gspmd.jit(
        lambda first, second: (exchange(mesh)(*first), exchange(mesh)(*second)),
        in_shardings=(here, there),
        out_shardings=(here, there),
    )
    for found in function(given, given):
        np.testing.assert_array_equal(found, on_one_device(*given))
    groups = re.findall(
        r"replica_groups = dense<(\S*, \S*, \S*, \S*)>", str(function.lower(given, given).partitioned.module)
    )
    assert len(groups) == len(set(groups)) == 2
    assert "[[0, 1, 2, 3]]" in groups


def test_a_mesh_of_fewer_devices_than_the_program_has_is_repeated() -> None:
    whole = mesh_of(np.array(jax.devices()).reshape(4, 2), "x", "y")
    few = AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))
    given = (np.arange(40, dtype=np.float32).reshape(4, 5, 2), np.zeros((4, 20, 2), np.float32))
    vectors = packed(4, 5, np.random.default_rng(9))
    lowered = jax.jit(
        lambda rows, output: exchange(few)(rows, output, *vectors), in_shardings=NamedSharding(whole, P("x"))
    ).lower(*(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in given))
    (found,) = gspmd.compile(gspmd.partition(lowered))(*given)
    np.testing.assert_array_equal(found.to_numpy(), on_one_device(*given, *vectors))
    assert gspmd.check(lowered).passed
