from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from support.handwritten import GROUP_OF_4, identity, partitioned

from gspmd.dialect.errors import ExecutionError, InputError, ParseError, Unsupported
from gspmd.runtime import executable as runtime
from gspmd.runtime.executable import ShardedArray
from gspmd.transforms.parsing.mlir import new_context, parse_module

MESH = '<["x"=4]>'
WHO_AM_I = "%p = stablehlo.partition_id : tensor<ui32>\n%r = stablehlo.reshape %p : (tensor<ui32>) -> tensor<1xui32>"


def rows(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(1, 1 + math.prod(shape)).reshape(shape).astype(dtype)


def doubling(shape: str = "8,3", local: str = "2x3", sharding: str = '[{"x"}, {}]', extra: str = "") -> str:
    argument = f"f32[{shape}] {sharding}"
    body = f"%r = stablehlo.add %0, %0 : tensor<{local}xf32>\nreturn %r : tensor<{local}xf32>"
    return partitioned(MESH, [argument + extra], [argument], body)


def pointers(array: ShardedArray) -> list[int]:
    return [shard.padded.unsafe_buffer_pointer() for shard in array.shards]


# ---- where programs run ---------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [(), (2, 0, 3, 1)])
@pytest.mark.parametrize("chosen", [(0, 1, 2, 3), (5, 2, 7, 0)])
def test_partition_i_runs_on_device_i(ids: tuple[int, ...], chosen: tuple[int, ...]) -> None:
    mesh = f'<["x"=4], device_ids={list(ids)}>' if ids else MESH
    devices = [jax.devices()[i] for i in chosen]
    text = partitioned(mesh, [], ['ui32[4] [{"x"}]'], f"{WHO_AM_I}\nreturn %r : tensor<1xui32>")
    (result,) = runtime.compile(text, devices)()
    assert np.asarray(result).tolist() == list(ids or range(4))
    for shard in result.shards:
        assert shard.data.devices() == {devices[shard.partition]}
        assert np.asarray(shard.data).tolist() == [shard.partition]


def test_collectives_name_partition_ids() -> None:
    body = f"""{WHO_AM_I}
      %g = "stablehlo.all_gather"(%r) {{all_gather_dim = 0 : i64, {GROUP_OF_4}}} : (tensor<1xui32>) -> tensor<4xui32>
      return %g : tensor<4xui32>"""
    text = partitioned('<["x"=4], device_ids=[2, 0, 3, 1]>', [], ["ui32[4] [{}]"], body)
    (result,) = runtime.compile(text, [jax.devices()[i] for i in (5, 2, 7, 0)])()
    assert [np.asarray(shard.data).tolist() for shard in result.shards] == [[0, 1, 2, 3]] * 4


def test_loops_and_constants_stay_per_device() -> None:
    body = f"""%z = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<3> : tensor<i32>
      %c:2 = stablehlo.while(%i = %z, %v = %0) : tensor<i32>, tensor<2xf32> cond {{
        %l = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %l : tensor<i1>
      }} do {{
        %g = "stablehlo.all_reduce"(%v) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32> }}) {{{GROUP_OF_4}}} : (tensor<2xf32>) -> tensor<2xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %g : tensor<i32>, tensor<2xf32>
      }}
      return %c#1 : tensor<2xf32>"""
    text = partitioned(MESH, ['f32[8] [{"x"}]'], ["f32[2] [{}]"], body)
    (result,) = runtime.compile(text)(rows(8))
    np.testing.assert_array_equal(np.asarray(result), 16 * np.array([1 + 3 + 5 + 7, 2 + 4 + 6 + 8], np.float32))


def test_a_mesh_of_one_device_needs_no_spmd() -> None:
    body = f"{WHO_AM_I}\nreturn %0, %r : tensor<3xf32>, tensor<1xui32>"
    text = partitioned('<["x"=1]>', ['f32[3] [{"x"}]'], ['f32[3] [{"x"}]', "ui32[1] [{}]"], body)
    same, who = runtime.compile(text)(rows(3))
    assert np.asarray(same).tolist() == [1, 2, 3]
    assert np.asarray(who).tolist() == [0]


def test_programs_may_have_no_results() -> None:
    assert runtime.compile(partitioned(MESH, ['f32[8] [{"x"}]'], [], "return"))(rows(8)) == ()


def test_too_few_devices() -> None:
    with pytest.raises(ExecutionError) as caught:
        runtime.compile(doubling(), jax.devices()[:3])
    assert str(caught.value) == (
        "gspmd: error: the program has 4 partitions, but there are 3 cpu devices; "
        "set JAX_NUM_CPU_DEVICES=4 in the environment before jax is used"
    )


# ---- what programs come as ------------------------------------------------------------------------


def test_text_modules_and_products_of_the_partitioner_are_read() -> None:
    class Product:
        module_text = doubling()

    module = parse_module(doubling(), new_context())
    before = str(module)
    for program in (doubling(), doubling().encode(), module, Product()):
        (result,) = runtime.compile(program)(rows(8, 3))
        np.testing.assert_array_equal(np.asarray(result), 2 * rows(8, 3))
    assert str(module) == before


@pytest.mark.parametrize("name", ["program.mlir", "program.mlirbc", "program.bc"])
def test_a_file_is_enough_to_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    runtime.save(doubling("7,3"), path)
    assert path.read_bytes().startswith(b"ML\xefR") == (name != "program.mlir")
    (result,) = runtime.load(path)(rows(7, 3))
    np.testing.assert_array_equal(np.asarray(result), 2 * rows(7, 3))


def test_what_is_not_partitioned_is_neither_run_nor_saved(tmp_path: Path) -> None:
    plain = "module { func.func @main() { return } }"
    for attempt in (lambda: runtime.compile(plain), lambda: runtime.save(plain, tmp_path / "p.mlir")):
        with pytest.raises(ParseError, match="not a partitioned module; run gspmd partition first"):
            attempt()
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*no such file"):
        runtime.load(tmp_path / "none.mlir")
    with pytest.raises(InputError, match=r"cannot write .*no such file"):
        runtime.save(doubling(), tmp_path / "none" / "p.mlir")


def test_a_module_that_xla_refuses_is_an_error_of_one_line() -> None:
    body = """%r = stablehlo.custom_call @nobody_knows_this(%0) : (tensor<2xf32>) -> tensor<2xf32>
      return %r : tensor<2xf32>"""
    with pytest.raises(ExecutionError) as caught:
        runtime.compile(partitioned(MESH, ['f32[8] [{"x"}]'], ['f32[8] [{"x"}]'], body))(rows(8))
    assert "nobody_knows_this" in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_uneven_arguments_are_padded_and_results_trimmed(padding: Any) -> None:
    (result,) = runtime.compile(doubling("7,3"), padding=padding)(rows(7, 3))
    np.testing.assert_array_equal(np.asarray(result), 2 * rows(7, 3))
    tail = np.asarray(result.shards[3].padded)[1]
    assert np.isnan(tail).all() if padding == "nan" else not tail.any()


def test_dimensions_smaller_than_the_axis_and_empty_ones() -> None:
    for size in (0, 1, 2, 3):
        local = min(size, 1)
        argument = f'f32[{size},3] [{{"x"}}, {{}}]'
        text = partitioned(MESH, [argument], [argument], f"return %0 : tensor<{local}x3xf32>")
        (result,) = runtime.compile(text, padding="nan")(rows(size, 3))
        np.testing.assert_array_equal(np.asarray(result), rows(size, 3))


def test_results_are_arguments_of_the_next_call_without_a_copy() -> None:
    executable = runtime.compile(doubling("7,3"))
    (once,) = executable(rows(7, 3))
    (placed,) = executable.place(once)
    assert pointers(placed) == pointers(once)
    (twice,) = executable(once)
    np.testing.assert_array_equal(np.asarray(twice), 4 * rows(7, 3))


def test_sharded_arrays_laid_out_otherwise_are_moved() -> None:
    spread = runtime.compile(identity('<["x"=4], device_ids=[3, 1, 0, 2]>', 'f32[8,3] [{"x"}, {}]'))
    uneven = runtime.compile(identity('<["x"=2, "y"=2]>', 'f32[8,3] [{}, {"y"}]'))
    executable = runtime.compile(doubling())
    for source in (spread, uneven):
        (array,) = source(rows(8, 3))
        np.testing.assert_array_equal(np.asarray(executable(array)[0]), 2 * rows(8, 3))


def test_the_same_placement_under_other_axis_names_is_used_as_it_is() -> None:
    (array,) = runtime.compile(identity('<["p"=2, "q"=2]>', 'f32[8,3] [{"p", "q"}, {}]'))(rows(8, 3))
    (placed,) = runtime.compile(doubling()).place(array)
    assert pointers(placed) == pointers(array)


def test_jax_arrays_that_lie_right_are_not_copied() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",))
    array = jax.device_put(rows(8, 3), NamedSharding(mesh, PartitionSpec("x")))
    (placed,) = runtime.compile(doubling()).place(array)
    where = {s.device: s.data.unsafe_buffer_pointer() for s in array.addressable_shards}
    assert pointers(placed) == [where[device] for device in jax.devices()[:4]]


@pytest.mark.parametrize("spec", [PartitionSpec(None, "x"), PartitionSpec()])
@pytest.mark.parametrize("size", [8, 7])
def test_jax_arrays_that_lie_elsewhere_are_moved(spec: PartitionSpec, size: int) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[2:5]), ("x",))
    array = jax.device_put(rows(size, 3), NamedSharding(mesh, spec))
    (result,) = runtime.compile(doubling(f"{size},3"), padding="nan")(array)
    np.testing.assert_array_equal(np.asarray(result), 2 * rows(size, 3))
    np.testing.assert_array_equal(np.asarray(array), rows(size, 3))


def test_plain_jax_arrays_and_numpy_views_are_taken() -> None:
    executable = runtime.compile(doubling())
    for array in (jnp.asarray(rows(8, 3)), rows(3, 8).T.astype(np.float32), rows(16, 3)[::2]):
        np.testing.assert_array_equal(np.asarray(executable(array)[0]), 2 * np.asarray(array))


def test_numpy_arguments_are_copied_at_once() -> None:
    executable = runtime.compile(identity(MESH, 'f32[1000000] [{"x"}]'))
    for sharding in ('[{"x"}]', "[{}]"):
        executable = runtime.compile(identity(MESH, f"f32[1000000] {sharding}"))
        array = np.ones(1000000, np.float32)
        (result,) = executable(array)
        array[:] = -1
        assert (np.asarray(result) == 1).all()


@pytest.mark.parametrize(
    ("element_type", "number", "expected"),
    [
        ("f32", 2.5, 2.5),
        ("f32", 2, 2.0),
        ("bf16", 2.5, 2.5),
        ("i32", -7, -7),
        ("ui64", 2**64 - 1, 2**64 - 1),
        ("i1", True, True),
        ("complex<f64>", 1 + 2j, 1 + 2j),
        ("complex<f32>", 3, 3),
    ],
)
def test_python_numbers_are_scalars(element_type: str, number: Any, expected: Any) -> None:
    (result,) = runtime.compile(identity(MESH, f"{element_type}[] []"))(number)
    assert np.asarray(result) == expected
    assert np.asarray(result).shape == ()


@pytest.mark.parametrize(
    ("element_type", "number", "message"),
    [
        ("i32", 2.5, "argument 0 is the float 2.5, expected int32"),
        ("f32", 1j, "argument 0 is the complex 1j, expected float32"),
        ("f32", True, "argument 0 is the bool True, expected float32"),
        ("i1", 1, "argument 0 is the int 1, expected bool"),
        ("i8", 300, "argument 0 is 300, which int8 cannot hold"),
        ("i4", 9, "argument 0 is 9, which int4 cannot hold"),
        ("ui32", -1, "argument 0 is -1, which uint32 cannot hold"),
        ("i64", 2**70, f"argument 0 is {2**70}, which int64 cannot hold"),
    ],
)
def test_python_numbers_that_do_not_fit(element_type: str, number: Any, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        runtime.compile(identity(MESH, f"{element_type}[] []"))(number)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "got 0 arguments, expected 2: 0 'w': f32[8,3], 1: i32[]"),
        ((rows(8, 3), 1, 2), "got 3 arguments, expected 2"),
        ((rows(2, 3), 1), "argument 0 'w' has shape (2, 3), expected the global shape (8, 3); pass the whole array"),
        ((jnp.zeros((8, 4)), 1), "argument 0 'w' has shape (8, 4), expected the global shape (8, 3)"),
        ((rows(8, 3, dtype=np.float64), 1), "has dtype float64, expected float32; convert it, e.g. with .astype"),
        ((jnp.zeros((8, 3), jnp.int32), 1), "argument 0 'w' has dtype int32, expected float32"),
        ((rows(8, 3), np.float32(1)), "argument 1 has dtype float32, expected int32"),
        ((1.0, 1), "argument 0 'w' has shape (), expected the global shape (8, 3)"),
        (("text", 1), "argument 0 'w' has shape ()"),
        ((rows(8, 3), None), "argument 1 has dtype object, expected int32"),
        ((rows(8, 3), jax.random.key(0)), "argument 1 has dtype key<fry>, expected int32"),
        (([[1], [2, 3]], 1), "argument 0 'w' is not an array"),
    ],
)
def test_wrong_arguments_are_named(args: tuple[Any, ...], message: str) -> None:
    body = "return %0 : tensor<2x3xf32>"
    text = partitioned(MESH, ['w: f32[8,3] [{"x"}, {}]', "i32[] []"], ['f32[8,3] [{"x"}, {}]'], body)
    with pytest.raises(ExecutionError) as caught:
        runtime.compile(text)(*args)
    assert message in str(caught.value)


# ---- element types --------------------------------------------------------------------------------

FLOATS = ["f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2", "f8E4M3", "f8E3M4", "f8E8M0FNU", "f4E2M1FN"]
INTEGERS = ["i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64"]


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("element_type", [*FLOATS, *INTEGERS, "i1", "complex<f32>", "complex<f64>"])
def test_every_element_type_passes_through(element_type: str, padding: Any) -> None:
    executable = runtime.compile(identity(MESH, f'{element_type}[2,7] [{{}}, {{"x"}}]'), padding=padding)
    (result,) = executable((np.arange(14).reshape(2, 7) % 2).astype(_numpy(element_type)))
    assert result.dtype == _numpy(element_type) == np.asarray(result).dtype
    assert (np.asarray(result).astype(complex) == np.arange(14).reshape(2, 7) % 2).all() or element_type == "f8E8M0FNU"
    (again,) = executable(result)
    assert np.asarray(again).tobytes() == np.asarray(result).tobytes()


def _numpy(element_type: str) -> np.dtype[Any]:
    special = {"i1": "bool", "bf16": "bfloat16", "complex<f32>": "complex64", "complex<f64>": "complex128"}
    name = special.get(element_type)
    if name is None and element_type.startswith(("f8", "f4")):
        name = "float" + element_type[1] + "_" + element_type[2:].lower()
    name = name or element_type.replace("ui", "uint").replace("f", "float")
    name = name.replace("i", "int") if element_type[0] == "i" and element_type != "i1" else name
    return np.dtype(getattr(ml_dtypes, name, name))


def test_double_precision_stays_though_jax_is_set_to_single() -> None:
    assert not jax.config.jax_enable_x64
    body = "%r = stablehlo.add %0, %0 : tensor<2xf64>\nreturn %r : tensor<2xf64>"
    text = partitioned(MESH, ['f64[8] [{"x"}]'], ['f64[8] [{"x"}]'], body)
    (result,) = runtime.compile(text)(rows(8, dtype=np.float64) + 1e-12)
    assert (np.asarray(result) == 2 * (rows(8, dtype=np.float64) + 1e-12)).all()
    assert result.to_jax().dtype == np.float64


def test_types_without_arrays_are_refused() -> None:
    text = identity(MESH, "i32[] []").replace("i32>", "i3>")
    with pytest.raises(Unsupported, match="element type 'i3' cannot be passed"):
        runtime.compile(text)(1)


# ---- donation -------------------------------------------------------------------------------------


def test_a_donated_sharded_array_is_gone() -> None:
    executable = runtime.compile(doubling(extra=" donated"))
    (first,) = executable(rows(8, 3))
    (second,) = executable(first)
    np.testing.assert_array_equal(np.asarray(second), 4 * rows(8, 3))
    assert first.is_deleted()
    with pytest.raises(ExecutionError, match="argument 0 was donated to an earlier call and is gone"):
        executable(first)
    for use in (first.to_numpy, first.to_jax, first.block_until_ready, lambda: first.shards, lambda: np.asarray(first)):
        with pytest.raises(ExecutionError, match="was donated to a program and is gone; use the program's result"):
            use()


@pytest.mark.parametrize("extra", ["tf.aliasing_output = 0 : i32", "jax.buffer_donor = true"])
@pytest.mark.parametrize("spec", [PartitionSpec("x"), PartitionSpec()])
def test_a_donated_jax_array_is_gone_wherever_it_lay(extra: str, spec: PartitionSpec) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",))
    array = jax.device_put(rows(8, 3), NamedSharding(mesh, spec))
    text = doubling(extra=" donated").replace("tf.aliasing_output = 0 : i32", extra)
    executable = runtime.compile(text)
    (result,) = executable(array)
    np.testing.assert_array_equal(np.asarray(result), 2 * rows(8, 3))
    assert array.is_deleted()
    with pytest.raises(ExecutionError, match="argument 0 was donated to an earlier call and is gone"):
        executable(array)


@pytest.mark.parametrize("sharding", ['[{"x"}, {}]', "[{}, {}]"])
def test_donated_numpy_arrays_are_copied(sharding: str) -> None:
    local = "2x3" if "x" in sharding else "8x3"
    executable = runtime.compile(doubling(local=local, sharding=sharding, extra=" donated"))
    array = rows(8, 3)
    for _ in range(3):
        (result,) = executable(array)
        np.testing.assert_array_equal(np.asarray(result), 2 * rows(8, 3))
        np.testing.assert_array_equal(array, rows(8, 3))


def test_arguments_that_are_not_donated_live_on() -> None:
    body = "%r = stablehlo.add %0, %1 : tensor<2xf32>\nreturn %r : tensor<2xf32>"
    text = partitioned(MESH, ['f32[8] [{"x"}] donated', 'f32[8] [{"x"}]'], ['f32[8] [{"x"}]'], body)
    executable = runtime.compile(text)
    given, kept = executable.place(rows(8), rows(8))
    for expected in (2, 3):
        (given,) = executable(given, kept)
        np.testing.assert_array_equal(np.asarray(given), expected * rows(8))
    np.testing.assert_array_equal(np.asarray(kept), rows(8))


def test_one_array_for_a_donated_and_another_argument() -> None:
    body = "%r = stablehlo.add %0, %1 : tensor<2xf32>\nreturn %r : tensor<2xf32>"
    text = partitioned(MESH, ['f32[8] [{"x"}] donated', 'f32[8] [{"x"}]'], ['f32[8] [{"x"}]'], body)
    executable = runtime.compile(text)
    array, _ = executable.place(rows(8), rows(8))
    with pytest.raises(ExecutionError, match="argument 1 is also donated as argument 0"):
        executable(array, array)


# ---- unpartitioned programs -----------------------------------------------------------------------


def test_a_plain_program_runs_on_the_device_asked_for() -> None:
    text = """module { func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
      %r = call @f(%a) : (tensor<3xf32>) -> tensor<3xf32>
      return %r : tensor<3xf32> }
      func.func private @f(%a: tensor<3xf32>) -> tensor<3xf32> {
      %r = chlo.erf_inv %a : tensor<3xf32> -> tensor<3xf32>
      return %r : tensor<3xf32> } }"""
    array = np.array([-0.5, 0.0, 0.5], np.float32)
    (result,) = runtime.compile_single(text, jax.devices()[3])(array)
    np.testing.assert_allclose(np.asarray(result), jax.lax.erf_inv(array), rtol=1e-6)
    assert result.shards[0].data.devices() == {jax.devices()[3]}


def test_sharded_arrays_of_different_programs_mix() -> None:
    (array,) = runtime.compile(doubling("7,3"))(rows(7, 3))
    text = "module { func.func @main(%a: tensor<7x3xf32>) -> tensor<7x3xf32> { return %a : tensor<7x3xf32> } }"
    (result,) = runtime.compile_single(text)(array)
    assert isinstance(result, ShardedArray)
    np.testing.assert_array_equal(np.asarray(result), 2 * rows(7, 3))
