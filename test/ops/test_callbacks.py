"""Programs that call Python: once with whole values, in order, with the results that the function returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P
from support.callback_runs import Run, annotated, compiled, lower
from support.two_processes import run_twice

import gspmd
from gspmd.runtime import executable as runtime

Array = Any
Log = list[tuple[Any, ...]]
MESHES = ['<["x"=4, "y"=2]>', '<["x"=3]>', '<["x"=2, "y"=3], device_ids=[3, 1, 5, 0, 4, 2]>']
X = np.arange(32, dtype=np.float32).reshape(8, 4)

_log: Log = []


def noted(name: str, result: Any = None) -> Callable[..., Any]:
    """A function to be called from a program, which writes down what it was called with."""

    def function(*args: Any) -> Any:
        _log.append((name, *[np.array(arg) for arg in args]))
        return result(*args) if callable(result) else result

    return function


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def of(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


# ---- programs -----------------------------------------------------------------------------------


def prints(x: Array) -> Array:
    jax.debug.callback(noted("debug"), x)
    jax.debug.callback(noted("debug"), x)
    jax.debug.callback(noted("ordered 1"), x.sum(), ordered=True)
    return x + 1


def several_results(x: Array) -> tuple[Array, ...]:
    more, large = jax.pure_callback(noted("pure", lambda v: (v + 1, v > 3)), (like(x), of(bool, *x.shape)), x)
    return jnp.where(large, more, 0), more.sum()


def unused_and_empty_results(x: Array) -> Array:
    io_callback(noted("unused", lambda v: v), like(x), x)
    io_callback(noted("empty", np.zeros((0, 3), np.float32)), of(np.float32, 0, 3), x)
    return x


def without_operands(x: Array) -> Array:
    return x + io_callback(noted("ordered", np.float32(2)), of(np.float32), ordered=True)


def two_orders(x: Array) -> Array:
    for i in range(3):
        io_callback(noted("ordered io"), None, x[i], ordered=True)
        jax.debug.callback(noted("ordered debug"), x[i], ordered=True)
    return x


def scanned(x: Array) -> Array:
    def body(carry: Array, t: Array) -> tuple[Array, Array]:
        io_callback(noted("ordered io"), None, carry, ordered=True)
        jax.debug.callback(noted("unordered"), t, x)

        def branch(c: Array) -> Array:
            jax.debug.callback(noted("ordered debug"), c, ordered=True)
            return c

        carry = lax.cond(t > 1, branch, lambda c: c, carry)
        return carry + t, jax.pure_callback(noted("pure", lambda v: v * 2), like(t), t)

    return lax.scan(body, x, jnp.arange(4, dtype=np.float32))


def looped(x: Array) -> Array:
    def go_on(carry: tuple[Array, Array]) -> Array:
        return jax.pure_callback(noted("pure", lambda v: np.bool_(v.sum() < 2000)), of(bool), carry[0])

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        jax.debug.callback(noted("ordered debug"), carry[0], ordered=True)
        step = io_callback(noted("ordered io", np.int32(1)), of(np.int32), ordered=True)
        return carry[0] * 2 + 1, carry[1] + step

    return lax.while_loop(go_on, body, (x, jnp.int32(0)))


def the_same_in_every_round(x: Array) -> Array:
    def body(_: Array, carry: Array) -> Array:
        jax.debug.callback(noted("debug"), x)
        return carry + io_callback(noted("io", lambda v: v[0]), of(np.float32, 4), x)

    return lax.fori_loop(0, 3, body, jnp.zeros(4, np.float32))


def one_branch(x: Array) -> Array:
    return lax.cond(x.sum() > 0, lambda x: jax.pure_callback(noted("pure", lambda v: v * 3), like(x), x), jnp.exp, x)


def gradient(x: Array) -> Array:
    @jax.custom_vjp
    def square(x: Array) -> Array:
        return jax.pure_callback(noted("forward", lambda v: v * v), like(x), x)

    def backward(x: Array, g: Array) -> tuple[Array]:
        return (jax.pure_callback(noted("backward", lambda v, g: 2 * v * g), like(x), x, g),)

    square.defvjp(lambda x: (square(x), x), backward)
    return jax.grad(lambda x: (square(x) * 2).sum())(x)


def rematerialised(x: Array) -> Array:
    @jax.checkpoint
    def inner(x: Array) -> Array:
        jax.debug.callback(noted("debug"), x)
        return (x * x) * x

    return jax.grad(lambda x: inner(x).sum())(x)


def vmapped(method: str) -> Callable[[Array], Array]:
    def program(x: Array) -> Array:
        def row(r: Array) -> Array:
            return jax.pure_callback(noted("pure", lambda v: np.asarray(v).sum(-1)), of(x.dtype), r, vmap_method=method)

        return jax.vmap(row)(x)

    return program


def vmapped_effects(x: Array) -> Array:
    jax.vmap(lambda row: jax.debug.callback(noted("debug"), row.max()))(x)
    return jax.vmap(lambda row: io_callback(noted("io", lambda v: v.max()), of(np.float32), row))(x)


def partitioned_call(x: Array) -> Array:
    jax.debug.callback(noted("part"), x, partitioned=True)
    return x


def called_twice(x: Array) -> Array:
    @jax.jit
    def inner(x: Array) -> Array:
        jax.debug.callback(noted("ordered"), x, ordered=True)
        return x + 1

    return inner(inner(x))


_FUNCTIONS = (
    prints,
    several_results,
    unused_and_empty_results,
    without_operands,
    two_orders,
    scanned,
    looped,
    the_same_in_every_round,
    one_branch,
    gradient,
    rematerialised,
    vmapped_effects,
    called_twice,
)
_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
PROGRAMS = {f.__name__: f for f in _FUNCTIONS} | {f"vmapped {method}": vmapped(method) for method in _METHODS}


def entries(name: str | None = None) -> list[Any]:
    """What was written down, all or by one name, in order."""
    return [(n, [(v.dtype, v.shape, v.tobytes()) for v in values]) for n, *values in _log if name in (None, n)]


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_and_results_are_those_of_one_device(name: str, mesh: str) -> None:
    function = PROGRAMS[name]
    run = compiled(function, mesh, ['{"x"}, {"y"}' if "y" in mesh else '{"x"}, {}'], X)
    _log.clear()
    results = run(X)
    calls = entries()
    ordered = {n: entries(n) for n, *_ in _log if n.startswith("ordered")}
    _log.clear()
    expected = jax.tree.leaves(jax.jit(function)(X))
    jax.effects_barrier()
    assert sorted(calls, key=repr) == sorted(entries(), key=repr)
    assert ordered == {n: entries(n) for n, *_ in _log if n.startswith("ordered")}
    for result, whole in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, whole)


# ---- results of every type --------------------------------------------------------------------------

_NAMES = """
    bool int2 uint2 int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64
    complex64 complex128 float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz
    float8_e5m2 float8_e5m2fnuz float8_e8m0fnu
"""


def every_bit(name: str) -> np.ndarray[Any, Any]:
    """Values of a type whose bits are anything: NaN of all kinds, infinities, -0.0."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if name == "bool":
        return np.arange(16) % 3 == 0
    if name.startswith("float4"):
        return np.linspace(-6, 6, 16).astype(dtype)
    if name.endswith(("int2", "int4")):
        limits = ml_dtypes.iinfo(dtype)
        return np.resize(np.arange(limits.min, limits.max + 1), 16).astype(dtype)
    values = np.random.default_rng(0).integers(0, 256, 64 * dtype.itemsize).astype(np.uint8).view(dtype)
    values[:2] = values.dtype.type(-0.0)
    if dtype.kind == "f" or name == "bfloat16":
        values[2] = np.nan
        values[2:3].view(f"u{dtype.itemsize}")[0] |= 5
    return values


@pytest.fixture
def wide_types() -> Iterator[None]:
    """Types of 64 bits, in the threads that call functions, too."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.usefixtures("wide_types")
@pytest.mark.parametrize("name", _NAMES.split())
def test_every_bit_of_the_results_arrives(name: str) -> None:
    values, x = every_bit(name), np.ones(4, np.float32)
    run = compiled(lambda x: jax.pure_callback(lambda v: values, like(values), x), '<["x"=4]>', ['{"x"}'], x)
    (result,) = run(x)
    assert result.dtype == values.dtype
    assert result.tobytes() == values.tobytes()


# ---- which devices call -----------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "shape"), [('{"x"}, {"y"}', (2, 2)), ('{"y"}, {}', (4, 4)), ("{}, {}", (8, 4))])
def test_every_device_makes_a_partitioned_call_with_its_part(split: str, shape: tuple[int, ...]) -> None:
    run = compiled(partitioned_call, MESHES[0], [split], X)
    _log.clear()
    run(X)
    assert [values.shape for _, values in _log] == [shape] * 8
    copies = 8 * shape[0] * shape[1] / X.size
    assert sorted(np.concatenate([values.ravel() for _, values in _log])) == sorted(np.repeat(X, copies))


def test_no_device_makes_a_partitioned_call_with_padding() -> None:
    run = compiled(partitioned_call, '<["x"=4]>', ['{"x"}'], X[:7, 0])
    _log.clear()
    run(X[:7, 0])
    assert [values.tolist() for _, values in _log] == [X[:7, 0].tolist()] * 4


# ---- manual computations ------------------------------------------------------------------------------

_OVER = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def manual(inner: Callable[[Array], Array], axes: set[str]) -> Callable[[Array], Array]:
    spec = P(*[axis if axis in axes else None for axis in ("x", "y")])
    return jax.shard_map(inner, mesh=_OVER, in_specs=spec, out_specs=spec, axis_names=axes, check_vma=False)


def effects_and_results(x: Array) -> Array:
    jax.debug.callback(noted("debug"), x)
    io_callback(noted("io"), None, x, ordered=True)
    doubled = jax.pure_callback(noted("pure", lambda v: v * 2), like(x), x)
    return doubled + io_callback(noted("sum", lambda v: v.sum()), of(np.float32), x)


def test_in_a_manual_computation_every_device_calls_with_its_part() -> None:
    run = compiled(manual(effects_and_results, {"x", "y"}), MESHES[0], ['{"x"}, {"y"}'], X)
    _log.clear()
    (result,) = run(X)
    parts = X.reshape(4, 2, 2, 2).swapaxes(1, 2).reshape(8, 2, 2)
    for name in ("debug", "io", "pure", "sum"):
        assert sorted(values.tolist() for n, values in _log if n == name) == parts.tolist()
    expected = parts * 2 + parts.sum((1, 2), keepdims=True)
    np.testing.assert_array_equal(result, expected.reshape(4, 2, 2, 2).swapaxes(1, 2).reshape(8, 4))


@pytest.mark.parametrize("ordered", [False, True])
def test_along_free_axes_one_device_calls_for_all(ordered: bool) -> None:
    def inner(x: Array) -> Array:
        jax.debug.callback(noted("debug"), x, ordered=ordered)
        return x * 2

    run = compiled(manual(inner, {"x"}), MESHES[0], ['{"x"}, {"y"}'], X)
    _log.clear()
    (result,) = run(X)
    assert sorted(values.tolist() for _, values in _log) == X.reshape(4, 2, 4).tolist()
    np.testing.assert_array_equal(result, X * 2)


def with_call(body: str, manual_axes: str = '"x"') -> str:
    """A manual computation of 8x4 over two axes, of which `manual_axes` are manual."""
    return f"""
    sdy.mesh @mesh = <["x"=4, "y"=2]>
    func.func public @main(%x: tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}})
        -> tensor<8x4xf32> {{
      %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
          out_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>] manual_axes={{{manual_axes}}} (%a: tensor<2x4xf32>) {{
        {body}
        sdy.return %r : tensor<2x4xf32>
      }} : (tensor<8x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    }}
    """


CALL = """stablehlo.custom_call @xla_ffi_python_cpu_callback(%a)
    {has_side_effect = true, backend_config = "", mhlo.backend_config = {index = 0 : ui64},
     operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}
    : (tensor<2x4xf32>) -> tensor<2x4xf32>"""


def test_results_reach_the_devices_along_free_axes_only() -> None:
    run = Run(with_call(f"%r = {CALL}"), [noted("call", lambda v: (np.asarray(v) * 2,))])
    _log.clear()
    (result,) = run(X)
    assert sorted(values.tolist() for _, values in _log) == X.reshape(4, 2, 4).tolist()
    np.testing.assert_array_equal(result, X * 2)


def test_devices_that_part_call_without_waiting_for_others() -> None:
    body = f"""
        %c = stablehlo.constant dense<0.0> : tensor<f32>
        %big = stablehlo.constant dense<100.0> : tensor<f32>
        %s = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0, 1]
          : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
        %p = stablehlo.compare GT, %s, %big : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %r = "stablehlo.if"(%p) ({{
          %t = {CALL}
          stablehlo.return %t : tensor<2x4xf32>
        }}, {{
          stablehlo.return %a : tensor<2x4xf32>
        }}) : (tensor<i1>) -> tensor<2x4xf32>"""
    run = Run(with_call(body), [noted("call", lambda v: (np.asarray(v) * 2,))])
    _log.clear()
    (result,) = run(X)
    blocks = X.reshape(4, 2, 4)
    large = blocks.sum((1, 2), keepdims=True) > 100
    assert sorted(values.tolist() for _, values in _log) == blocks[large.ravel()].tolist()
    np.testing.assert_array_equal(result, np.where(large, blocks * 2, blocks).reshape(8, 4))


def test_what_functions_return_differs_by_device_although_operands_do_not() -> None:
    """Devices part at what impure functions of no operands return: no permute may wait for all of them there."""
    counts = iter(range(8))
    body = """
        %n = stablehlo.custom_call @xla_ffi_python_cpu_callback()
          {has_side_effect = true, backend_config = "", mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [],
           result_layouts = [dense<> : tensor<0xindex>]} : () -> tensor<i32>
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %p = stablehlo.compare EQ, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %r = "stablehlo.if"(%p) ({
          %t = stablehlo.slice %a [0:2, 1:4] : (tensor<2x4xf32>) -> tensor<2x3xf32>
          %u = stablehlo.slice %a [0:2, 0:1] : (tensor<2x4xf32>) -> tensor<2x1xf32>
          %v = stablehlo.concatenate %t, %u, dim = 1 : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
          stablehlo.return %v : tensor<2x4xf32>
        }, {
          stablehlo.return %a : tensor<2x4xf32>
        }) : (tensor<i1>) -> tensor<2x4xf32>"""
    run = Run(with_call(body), [lambda: (np.int32(next(counts)),)])
    (result,) = run(X)
    blocks, rolled = X.reshape(4, 2, 4), np.roll(X, -1, 1).reshape(4, 2, 4)
    is_rolled = [np.array_equal(block, r) for block, r in zip(result.reshape(4, 2, 4), rolled, strict=True)]
    assert sum(is_rolled) == 1
    np.testing.assert_array_equal(result.reshape(4, 2, 4)[~np.array(is_rolled)], blocks[~np.array(is_rolled)])


# ---- several orders of the devices, several processes ------------------------------------------------


def test_orders_of_devices_change_nothing_of_who_calls_and_in_which_order() -> None:
    """Values in two orders: calls stay on one device, so that the token between them orders them."""
    call = """{has_side_effect = true, backend_config = "", mhlo.backend_config = {index = 0 : ui64}, operand_layouts =
      [dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<> : tensor<0xindex>]}
      : (!stablehlo.token, tensor<8xf32>) -> !stablehlo.token"""
    text = f"""
    sdy.mesh @a = <["x"=8]>
    sdy.mesh @b = <["x"=8], device_ids=[5, 3, 1, 0, 2, 7, 4, 6]>
    func.func public @main(%t: !stablehlo.token, %x: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@a, [{{"x"}}]>}},
                           %y: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@b, [{{"x"}}]>}})
        -> (!stablehlo.token, tensor<8xf32> {{sdy.sharding = #sdy.sharding<@b, [{{"x"}}]>}}) {{
      %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t, %x) {call}
      %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%0, %y) {call}
      %2 = stablehlo.add %y, %y : tensor<8xf32>
      %3 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%1, %2) {call}
      return %3, %2 : !stablehlo.token, tensor<8xf32>
    }}
    """
    run = Run(text, [noted("call", lambda token, v: (token,))])
    x, y = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) ** 2
    _log.clear()
    (result,) = run(x, y)
    assert [values.tolist() for _, _, values in _log] == [x.tolist(), y.tolist(), (2 * y).tolist()]
    np.testing.assert_array_equal(result, 2 * y)


def test_the_process_of_the_first_device_calls() -> None:
    ends = run_twice(Path(__file__).parent / "callbacks_in_two_processes.py")
    assert [end.returncode for end in ends] == [0, 0], ends
    assert [end.stdout.splitlines()[-1] for end in ends] == ["done", "done"]


# ---- what is not run ------------------------------------------------------------------------------------


def test_a_program_without_the_functions_that_it_calls_is_not_run() -> None:
    program = annotated(lower(prints, X), MESHES[0], ['{"x"}, {"y"}'])
    partitioned = gspmd.partition(program)
    for attempt in (
        lambda: gspmd.compile(partitioned),
        lambda: gspmd.compile(partitioned.module_text),
        lambda: gspmd.compile_for(partitioned, "cpu:8"),
        lambda: gspmd.check(program),
        lambda: runtime.compile_single(program),
    ):
        with pytest.raises(gspmd.Unsupported, match=r"calls Python, .*; run the function that was traced"):
            attempt()
