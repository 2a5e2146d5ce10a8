"""`gspmd.jit` of functions that call Python: once with whole values, in order, and what is returned goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, io_callback
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import gspmd

MESH = {"x": 4, "y": 2}
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def split(function: Callable[..., Any]) -> Any:
    """The function over eight devices, its argument split over all of them."""
    return gspmd.jit(function, mesh=MESH, in_shardings=P("x", "y"))


def scalar(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((), np.asarray(value).dtype)


def test_a_print_shows_the_whole_value_once(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x + 1

    result = split(function)(X)
    jax.effects_barrier()
    np.testing.assert_array_equal(result, X + 1)
    assert capfd.readouterr().out == f"{X}\n"


@pytest.mark.parametrize("runs", [1, 3])
def test_ordered_prints_come_in_order(runs: int, capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        def body(carry: Any, t: Any) -> tuple[Any, Any]:
            jax.debug.print("{} {}", t, carry.sum(), ordered=True)
            return lax.cond(t % 2 == 0, lambda c: c + 1, lambda c: c, carry), None

        return lax.scan(body, x, jnp.arange(4))[0]

    f, value, expected = split(function), X, []
    for _ in range(runs):
        for t in range(4):
            expected.append(f"{t} {value.sum()}")
            value = value + (t % 2 == 0)
    result: Any = X
    for _ in range(runs):
        result = f(result)
    jax.effects_barrier()
    assert capfd.readouterr().out.splitlines() == expected
    np.testing.assert_array_equal(result, value)


def test_results_of_pure_functions_go_to_all_devices() -> None:
    shapes = []

    def on_host(x: Any) -> Any:
        shapes.append(x.shape)
        return np.asarray(x) * -0.0

    result = split(lambda x: jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x))(X)
    assert np.signbit(result).all()
    assert shapes == [(8, 4)]


@pytest.mark.parametrize(("dtype", "copies"), [(jnp.int4, 4), (jnp.uint2, 4), (jnp.float32, 1_000_003)])
@pytest.mark.parametrize("ordered", [None, False, True])
def test_a_function_may_look_at_small_numbers_and_at_large_arrays_while_other_devices_wait(
    dtype: Any, copies: int, ordered: bool | None
) -> None:
    """JAX copies these on threads that all of the other devices may hold."""

    def seen(x: Any) -> Any:
        return np.asarray(x).copy()

    def call(x: Any) -> Any:
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(seen, result, x) if ordered is None else io_callback(seen, result, x, ordered=ordered)

    f = gspmd.jit(lambda x: call(jnp.tile(x, (copies,))), mesh={"x": 8})
    x = jnp.ones((8,), dtype)
    for _ in range(20 if copies < 100 else 3):
        for shard in f(x).addressable_shards:
            assert (np.asarray(shard.data) == 1).all()


@pytest.mark.parametrize("ordered", [False, True])
def test_functions_with_effects_are_called_in_every_run_and_round(ordered: bool) -> None:
    seen: list[float] = []

    def on_host(value: Any) -> Any:
        seen.append(float(value))
        return np.float32(len(seen))

    def function(x: Any) -> Any:
        return lax.fori_loop(
            0, 3, lambda i, c: c + io_callback(on_host, scalar(np.float32(0)), c.sum(), ordered=ordered), x
        )

    f = split(function)
    first, second = f(X), f(X)
    jax.effects_barrier()
    np.testing.assert_array_equal(first, X + 6)
    np.testing.assert_array_equal(second, X + 15)
    sums = [float((X + n).sum()) for n in (0, 1, 3, 0, 4, 9)]
    assert seen == sums


def test_each_device_calls_in_a_manual_computation_and_for_partitioned_calls() -> None:
    over = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    seen: list[tuple[int, ...]] = []

    def function(x: Any) -> Any:
        def inner(part: Any) -> Any:
            jax.debug.callback(lambda v: seen.append(v.shape), part)
            return part

        jax.debug.callback(lambda v: seen.append(v.shape), x, partitioned=True)
        return jax.shard_map(inner, mesh=over, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)(x)

    np.testing.assert_array_equal(split(function)(X), X)
    jax.effects_barrier()
    assert seen == [(2, 2)] * 16


def test_gradients_pass_functions_with_a_rule_of_their_own() -> None:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return jax.pure_callback(lambda v: np.asarray(v) ** 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
    np.testing.assert_array_equal(split(jax.grad(lambda x: square(x).sum()))(X), 2 * X)


def test_checks_that_are_returned_need_no_call() -> None:
    def function(x: Any) -> Any:
        checkify.check(x.sum() > 1000, "the sum is {s}", s=x.sum())
        return x

    error, result = split(checkify.checkify(function))(X)
    np.testing.assert_array_equal(result, X)
    with pytest.raises(checkify.JaxRuntimeError, match="the sum is 496"):
        error.throw()


def test_a_call_that_is_there_for_errors_lets_right_values_pass() -> None:
    """As libraries write checks that raise: a branch that only wrong values take calls a function that raises."""

    def fail(x: Any) -> Any:
        raise ValueError("negative")

    def function(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return lax.cond((x < 0).any(), lambda x: jax.pure_callback(fail, shape, x), lambda x: x, x) * 2

    np.testing.assert_array_equal(split(function)(X), 2 * X)


@pytest.mark.parametrize("ordered", [False, True])
def test_an_error_in_a_called_function_ends_the_call(ordered: bool) -> None:
    """Devices that wait for what it returns go on, and the next call is as any."""

    def refuse(value: Any) -> Any:
        if value.sum() > 1000:
            raise ValueError("too large")
        return np.asarray(value * 2)

    def function(x: Any) -> Any:
        jax.debug.callback(lambda v: refuse(v) is None, x, ordered=ordered)
        return jax.pure_callback(refuse, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    f = split(function)
    np.testing.assert_array_equal(f(X), 2 * X + 1)
    for _ in range(2):
        with pytest.raises(gspmd.ExecutionError, match="that the program calls raised ValueError: too large"):
            f(X + 1000)
    np.testing.assert_array_equal(f(X), 2 * X + 1)


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("where", ["alone", "loop", "branch", "shard_map"])
@pytest.mark.parametrize("returned", ["raises", "another shape", "too few"])
def test_an_ordered_call_that_goes_wrong_ends_the_call(devices: int, where: str, returned: str) -> None:
    """Its token goes on, as those after it wait for that."""

    def refuse(value: Any) -> Any:
        if value > 1000:
            if returned == "raises":
                raise ValueError("too large")
            return (np.zeros((3, 5), np.float32), np.float32(0)) if returned == "another shape" else ()
        return np.float32(value), np.float32(0)

    def called(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct((), x.dtype)
        return x + sum(io_callback(refuse, (shape, shape), x.sum(), ordered=where != "shard_map"))

    mesh = gspmd.make_mesh((devices,), ("x",))
    function = {
        "alone": called,
        "loop": lambda x: lax.fori_loop(0, 2, lambda _, x: called(x) + called(x), x),
        "branch": lambda x: lax.cond(x[0] >= 0, called, lambda x: x, x),
        "shard_map": jax.shard_map(called, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False),
    }[where]
    f = gspmd.jit(function, mesh=mesh)
    x = np.ones(8, np.float32)
    with jax.set_mesh(mesh):
        expected = f(x)
        for _ in range(2):
            with pytest.raises(gspmd.ExecutionError, match="that the program calls raised"):
                f(x * 1000)
        np.testing.assert_array_equal(f(x), expected)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("has no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unspeakable(), "raised Unspeakable"),
        (ValueError("half of a pair: \udcff"), r"raised ValueError: half of a pair: \\udcff"),
        (SystemExit(3), "raised SystemExit: 3"),
        (KeyboardInterrupt(), "raised KeyboardInterrupt"),
        (StopIteration("at once"), "raised StopIteration: at once"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_any_kind_ends_the_call_alone(
    error: BaseException, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # JAX logs the error as it is, and a worker of pytest-xdist cannot report half of a surrogate pair.
    monkeypatch.setattr(logging.getLogger("jax._src.callback"), "disabled", True)

    def fail(_: Any) -> Any:
        raise error

    f = split(lambda x: jax.pure_callback(fail, scalar(np.float32(0)), x.sum()) + x)
    for _ in range(2):
        with pytest.raises(gspmd.ExecutionError, match=told):
            f(X)


def test_a_function_that_a_program_calls_cannot_run_another_one_over_the_same_devices() -> None:
    total = split(lambda x: x.sum())

    def on_host(x: Any) -> Any:
        return np.float32(total(np.asarray(x)))

    f = split(lambda x: jax.pure_callback(on_host, scalar(np.float32(0)), x) + x.sum())
    for _ in range(2):
        with pytest.raises(gspmd.ExecutionError, match="devices, which are busy with the first; compute on one device"):
            f(X)
    assert total(X) == X.sum()

    def on_one_device(x: Any) -> Any:
        return np.asarray(jax.jit(jnp.sum)(np.asarray(x)))

    g = split(lambda x: jax.pure_callback(on_one_device, scalar(np.float32(0)), x) + x.sum())
    assert g(X) == 2 * X.sum()


def test_calls_in_functions_without_arguments_and_results(capfd: pytest.CaptureFixture[str]) -> None:
    def loop() -> None:
        jax.lax.fori_loop(0, 2, lambda i, _: jax.debug.print("{}", i), None)

    def unused(x: Any) -> None:
        jax.debug.print("unused")

    gspmd.jit(loop, mesh=MESH)()
    gspmd.jit(unused, mesh=MESH)(np.ones(8))
    gspmd.jit(lambda: jax.debug.print("ordered", ordered=True), mesh=MESH)()
    jax.effects_barrier()
    assert capfd.readouterr().out.split() == ["0", "1", "unused", "ordered"]


def test_a_function_that_inspects_shardings_is_told_what_values_have() -> None:
    found: list[Any] = []
    mesh = gspmd.make_mesh((4, 2), ("x", "y"))

    def inspected(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x, callback=found.append)
        return x

    def f(x: Any) -> Any:
        y = lax.scan(lambda c, _: (inspected(c @ c), None), x, None, length=2)[0]
        jax.shard_map(inspected, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)
        jax.shard_map(inspected, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"y"})(x)
        return inspected(y.T), inspected(y.sum())

    x = np.eye(8, dtype=np.float32)
    jitted = gspmd.jit(f, mesh=mesh, in_shardings=P("x"))
    for _ in range(2):
        np.testing.assert_array_equal(jitted(x)[0], x)
        assert sorted(str(each.spec) for each in found) == sorted(map(str, (P("x"), P(), P("x"), P(None, "x"), P())))
    assert all(each.mesh == mesh for each in found)


def test_devices_may_wait_for_each_other_in_python_beside_collectives() -> None:
    over = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def waiting(part: Any) -> Any:
        all_here = threading.Barrier(8, timeout=20)

        def wait(part: np.ndarray) -> np.ndarray:
            all_here.wait()
            return np.asarray(part) + 1

        return io_callback(wait, jax.ShapeDtypeStruct(part.shape, part.dtype), part)

    def function(x: Any) -> Any:
        met = jax.shard_map(waiting, mesh=over, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)
        return [(met(x * scale), met(x).T @ (x + scale)) for scale in range(8)]

    x = np.sin(np.arange(128 * 128, dtype=np.float32)).reshape(128, 128)  # XLA runs small arrays in order anyway
    for scale, (called, product) in enumerate(split(function)(x)):
        np.testing.assert_array_equal(called, x * scale + 1)
        np.testing.assert_allclose(product, (x + 1).T @ (x + scale), rtol=1e-4)
