"""Arguments and results that are left unreduced: who holds which summand, what is sent, and what comes out."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_sharding
from gspmd.runtime import executable as runtime
from gspmd.runtime import layout, placing

MESHES = {
    "4x2": '<["x"=4, "y"=2]>',
    "3x2": '<["x"=3, "y"=2]>',
    "reordered": '<["x"=4, "y"=2], device_ids=[7, 2, 1, 0, 3, 6, 5, 4]>',
}
P = PartitionSpec
_DOT = "(tensor<8x12xf32>, tensor<12x5xf32>) -> tensor<8x5xf32>"


def _program(arguments: str, results: str, body: str, mesh: str = MESHES["4x2"]) -> str:
    """Shardings in short, as `8x6 [{"y"}, {}], unreduced={"x"}`."""

    def value(short: str) -> str:
        shape, sharding = short.strip().split(" ", 1)
        return f"tensor<{shape}xf32> {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}"

    given = ", ".join(f"%{i}: {value(short)}" for i, short in enumerate(arguments.split(";")))
    made = ", ".join(map(value, results.split(";")))
    return f"sdy.mesh @mesh = {mesh}\nfunc.func public @main({given}) -> ({made}) {{\n{body.replace('{dot}', _DOT)}\n}}"


PROGRAMS: dict[str, tuple[tuple[str, str, str], list[str]]] = {
    "a product that leaves partial": (
        (
            '8x12 [{"y"}, {"x"}]; 12x5 [{"x"}, {}]',
            '8x5 [{"y"}, {}], unreduced={"x"}',
            """%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : {dot}
            %s = sdy.sharding_constraint %r <@mesh, [{"y"}, {}], unreduced={"x"}> : tensor<8x5xf32>
            return %s : tensor<8x5xf32>""",
        ),
        [],
    ),
    "a product added to what came in partial": (
        (
            '8x5 [{"y"}, {}], unreduced={"x"}; 8x12 [{"y"}, {"x"}]; 12x5 [{"x"}, {}]',
            '8x5 [{"y"}, {}], unreduced={"x"}',
            """%r = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : {dot}
            %s = stablehlo.add %0, %r : tensor<8x5xf32>
            return %s : tensor<8x5xf32>""",
        ),
        [],
    ),
    "twice the same": (
        (
            '7x5 [{"y"}, {}], unreduced={"x"}',
            '7x5 [{"y"}, {}], unreduced={"x"}',
            "%r = stablehlo.add %0, %0 : tensor<7x5xf32>\nreturn %r : tensor<7x5xf32>",
        ),
        [],
    ),
    "reduced where it is used": (
        (
            '7x9 [{"y"}, {}], unreduced={"x"}',
            '7x9 [{"y"}, {}]',
            "%r = stablehlo.tanh %0 : tensor<7x9xf32>\nreturn %r : tensor<7x9xf32>",
        ),
        ["all_reduce"],
    ),
    "reduced to shards": (
        ('8x24 [{"y"}, {}], unreduced={"x"}', '8x24 [{"y"}, {"x"}]', "return %0 : tensor<8x24xf32>"),
        ["reduce_scatter"],
    ),
    "made partial": (('7x3 [{"y"}, {}]', '7x3 [{"y"}, {}], unreduced={"x"}', "return %0 : tensor<7x3xf32>"), []),
    "made partial behind an operation": (
        (
            '7x3 [{"y"}, {}]',
            '7x3 [{"y"}, {}], unreduced={"x"}',
            "%r = stablehlo.tanh %0 : tensor<7x3xf32>\nreturn %r : tensor<7x3xf32>",
        ),
        [],
    ),
    "moved while partial": (
        ('8x6 [{"y"}, {}], unreduced={"x"}', '8x6 [{}, {"y"}], unreduced={"x"}', "return %0 : tensor<8x6xf32>"),
        ["all_to_all"],
    ),
    "partial over other axes": (
        ('7x3 [{}, {}], unreduced={"y"}', '7x3 [{}, {}], unreduced={"x"}', "return %0 : tensor<7x3xf32>"),
        ["all_reduce"],
    ),
    "partial over more axes": (
        ('7x3 [{}, {}], unreduced={"y"}', '7x3 [{}, {}], unreduced={"x", "y"}', "return %0 : tensor<7x3xf32>"),
        [],
    ),
    "nothing in it": (
        ('0x3 [{}, {}], unreduced={"y"}', '0x3 [{"y"}, {}], unreduced={"x"}', "return %0 : tensor<0x3xf32>"),
        [],
    ),
}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, mesh: str) -> None:
    """Each argument is given as summands that all matter; copies agree, and what is sent is no more than it takes."""
    (arguments, results, body), kinds = PROGRAMS[name]
    text = _program(arguments, results, body, MESHES[mesh])
    partitioned = gspmd.partition(text)
    if mesh == "4x2":
        assert [c.kind for c in partitioned.collectives] == kinds
    assert gspmd.check(text).passed
    step = runtime.compile(partitioned, padding="nan")
    rng = np.random.default_rng(0)
    whole, given = [], []
    for value in step.signature.inputs:
        parts = sorted({index[-1] for index in layout.part_indices(value.sharding)})
        summands = [rng.integers(-4, 5, value.shape).astype(np.float32) for _ in parts]
        held = [placing.from_host(s, _reduced(value.sharding), step.devices, "nan").buffers for s in summands]
        buffers = [held[k[-1]][i] for i, k in enumerate(layout.part_indices(value.sharding))]
        dtype = np.dtype(np.float32)
        given.append(placing.from_buffers(value.shape, dtype, value.sharding, step.devices, buffers))
        whole.append(sum(summands, np.zeros(value.shape, np.float32)))
    for array, expected in zip(given, whole, strict=True):
        np.testing.assert_array_equal(np.asarray(array), expected)
    for result, expected in zip(step(*given), runtime.compile_single(text)(*whole), strict=True):
        np.testing.assert_allclose(np.asarray(result), np.asarray(expected), rtol=1e-5)


def _reduced(sharding: gspmd.dialect.sharding.TensorSharding) -> gspmd.dialect.sharding.TensorSharding:
    return sharding.with_axes(sharding.dim_axes())


def test_host_values_are_the_first_summand() -> None:
    mesh = Mesh((("x", 2), ("y", 2)))
    sharding = parse_sharding('<@mesh, [{"y"}], unreduced={"x"}>', {"mesh": mesh})
    values = np.arange(3, dtype=np.float32) + 1
    devices = tuple(jax.devices()[:4])
    array = placing.from_host(values, sharding, devices)
    assert [buffer.tolist() for buffer in array.buffers.values()] == [[1, 2], [3, 0], [0, 0], [0, 0]]
    assert array.to_numpy().tolist() == [1, 2, 3]
    buffers = [*array.buffers.values()]
    buffers[2] = jax.device_put(np.array([10, 20], np.float32), devices[2])
    more = placing.from_buffers((3,), values.dtype, sharding, devices, buffers)
    assert more.to_numpy().tolist() == [11, 22, 3]


def test_arrays_of_jax() -> None:
    """An unreduced jax.Array goes in as it is, and comes out as one; one that lies otherwise is refused in words."""
    (arguments, results, body), _ = PROGRAMS["twice the same"]
    step = gspmd.compile(
        gspmd.partition(
            _program(arguments.replace("7x5", "8x6"), results.replace("7x5", "8x6"), body.replace("7x5", "8x6"))
        )
    )
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    wanted = NamedSharding(mesh, P("y", None, unreduced={"x"}))
    values = np.arange(48, dtype=np.float32).reshape(8, 6)
    (result,) = step(jax.device_put(values, wanted))
    np.testing.assert_array_equal(np.asarray(result), 2 * values)
    array = result.to_jax()
    assert array.sharding.is_equivalent_to(wanted, 2)
    assert array.sharding.spec == P("y", unreduced={"x"})
    (again,) = step(array)
    np.testing.assert_array_equal(np.asarray(again), 4 * values)
    other = jax.device_put(values, NamedSharding(mesh, P(None, "y", unreduced={"x"})))
    with pytest.raises(
        gspmd.Error, match=r"argument 0 is unreduced over x, and the program wants it as .*; sum it first"
    ):
        step(other)


def test_what_jax_writes() -> None:
    """Gradients accumulated over steps, and reduced once at the end, as JAX lowers it with explicit axes."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    rng = np.random.default_rng(1)
    with jax.set_mesh(mesh):
        partial = NamedSharding(mesh, P(None, "y", unreduced={"x"}))

        def shape(dims: tuple[int, ...], spec: P) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(dims, np.float32, sharding=NamedSharding(mesh, spec))

        accumulated = jax.ShapeDtypeStruct((6, 8), np.float32, sharding=partial)
        add = jax.jit(lambda acc, x, g: acc + jax.numpy.dot(x.T, g, out_sharding=P(None, "y", unreduced={"x"}))).lower(
            accumulated, shape((16, 6), P("x")), shape((16, 8), P("x", "y"))
        )
        finish = jax.jit(lambda acc: jax.sharding.reshard(acc, P(None, ("y", "x")))).lower(accumulated)
    added, finished = gspmd.partition(add), gspmd.partition(finish)
    assert not added.collectives
    assert [c.kind for c in finished.collectives] == ["reduce_scatter"]
    step, last = gspmd.compile(added), gspmd.compile(finished)
    total = gradient = np.zeros((6, 8), np.float32)
    for _ in range(3):
        x, g = rng.random((16, 6), np.float32), rng.random((16, 8), np.float32)
        (total,) = step(total, x, g)
        gradient = gradient + x.T @ g
    np.testing.assert_allclose(np.asarray(total), gradient, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(last(total)[0]), gradient, rtol=1e-5)


def test_the_file_says_so() -> None:
    (arguments, results, body), _ = PROGRAMS["made partial"]
    module = gspmd.partition(_program(arguments, results, body)).module_text
    assert re.search(r'gspmd\.sharding = "<@mesh, \[\{\\22y\\22\}, \{\}\], unreduced=\{\\22x\\22\}>"', module)
    assert "gspmd.unreduced" not in module
    assert runtime.compile(module).signature.outputs[0].sharding.unreduced
