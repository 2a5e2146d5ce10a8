from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from gspmd.dialect.errors import Unsupported
from gspmd.runtime import executable as runtime
from gspmd.runtime.unannotated import has_manual_regions, strip, strip_outside_manual_regions
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_module

ANNOTATED = """
module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32,
                   mhlo.frontend_attributes = {xla.sdy.meshes = "{}"}} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(
      %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, tf.aliasing_output = 0 : i32},
      %b: tensor<4x4xf32> {mhlo.sharding = "{replicated}", jax.buffer_donor = true,
                           mhlo.frontend_attributes = {xla.sdy.sharding = "s", mine = "kept"}})
      -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>, jax.result_info = "out"}) {
    %0 = stablehlo.add %a, %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {?}]>]>} : tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y"}]> : tensor<8x4xf32>
    %2 = sdy.reshard %1 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    sdy.sharding_group %2 group_id = 0 : tensor<8x4xf32>
    %3 = sdy.propagation_barrier %2 allowed_direction = NONE : tensor<8x4xf32>
    %4 = stablehlo.custom_call @Sharding(%3) {mhlo.sharding = "{replicated}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = func.call @twice(%4) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %6 = sdy.named_computation<"block">(%5, %b) (%p: tensor<8x4xf32>, %q: tensor<4x4xf32>) {
      %8 = stablehlo.dot %p, %q : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %9 = sdy.sharding_constraint %8 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
      sdy.return %9 : tensor<8x4xf32>
    } : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %7 = sdy.sharding_constraint %6 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    %10 = sdy.all_gather [{"x"}, {}] %7 out_sharding=<@mesh, [{}, {}]> : tensor<8x4xf32>
    return %10 : tensor<8x4xf32>
  }
  func.func private @twice(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%a) {has_side_effect = true,
        mhlo.frontend_attributes = {xla.sdy.sharding = "s"}} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    stablehlo.custom_call @xla.sdy.ShardingGroup(%0) {has_side_effect = true,
        mhlo.frontend_attributes = {xla.sdy.sharding_group_id = "1"}} : (tensor<8x4xf32>) -> ()
    %1 = stablehlo.add %0, %0 : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""


def test_nothing_but_the_program_is_left() -> None:
    module = parse_module(ANNOTATED, new_context())
    with in_memory(module) as top:
        strip(top)
    assert module.operation.verify()
    assert str(module) == str(
        parse_module(
            """module {
  func.func public @main(%a: tensor<8x4xf32>, %b: tensor<4x4xf32> {mhlo.frontend_attributes = {mine = "kept"}})
      -> (tensor<8x4xf32> {jax.result_info = "out"}) {
    %0 = stablehlo.add %a, %a : tensor<8x4xf32>
    %1 = call @twice(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.dot %1, %b : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
  func.func private @twice(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.add %a, %a : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}""",
            new_context(),
        )
    )


def test_annotated_programs_run_on_one_device() -> None:
    a, b = np.arange(32, dtype=np.float32).reshape(8, 4), np.eye(4, dtype=np.float32)
    executable = runtime.compile_single(ANNOTATED)
    for _ in range(2):
        (result,) = executable(a, b)
        np.testing.assert_array_equal(np.asarray(result), 4 * a)
    assert executable.signature.inputs[0].name is None
    assert executable.signature.outputs[0].name == "out"


def test_constraints_inside_loops_go_too() -> None:
    mesh = jax.make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))

    def program(x: jax.Array) -> jax.Array:
        def body(_: int, y: jax.Array) -> jax.Array:
            return jax.lax.with_sharding_constraint(jnp.tanh(y), NamedSharding(mesh, PartitionSpec("a")))

        return jax.lax.fori_loop(0, 3, body, x)

    x = np.linspace(-1, 1, 16, dtype=np.float32)
    text = jax.jit(program).lower(x).as_text()
    assert "sdy.sharding_constraint" in text
    (result,) = runtime.compile_single(text)(x)
    np.testing.assert_allclose(np.asarray(result), np.tanh(np.tanh(np.tanh(x))), rtol=1e-5)


def _shard_map() -> str:
    mesh = jax.make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        lambda x: jax.lax.psum(x * jax.lax.axis_index("a"), "a"),
        mesh=mesh,
        in_specs=PartitionSpec("a"),
        out_specs=PartitionSpec(),
    )
    outside = NamedSharding(mesh, PartitionSpec("a"))
    return (
        jax.jit(lambda x: jax.lax.with_sharding_constraint(mapped(x * 2) + 1, outside)).lower(jnp.zeros(16)).as_text()
    )


def test_manual_regions_are_not_for_one_device() -> None:
    module = model_of(parse_module(_shard_map(), new_context()))
    assert has_manual_regions(module)
    assert not has_manual_regions(model_of(parse_module(ANNOTATED, new_context())))
    with pytest.raises(Unsupported, match=r"'sdy.manual_computation' op has no meaning on one device"):
        strip(module)


def test_manual_regions_run_on_all_devices_of_the_mesh() -> None:
    executable = runtime.compile_with_xla(_shard_map())
    assert executable.num_partitions == 8
    x = np.arange(16, dtype=np.float32)
    (result,) = executable(x)
    expected = sum(2 * x[2 * i : 2 * i + 2] * i for i in range(8)) + 1
    for shard in result.shards:
        np.testing.assert_array_equal(shard.to_numpy(), expected)


def test_manual_regions_of_older_forms_are_refused() -> None:
    text = """module { func.func @main(%a: tensor<8xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) {mhlo.sharding = "{manual}"}
        : (tensor<8xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> } }"""
    module = model_of(parse_module(text, new_context()))
    assert has_manual_regions(module)
    with pytest.raises(Unsupported, match=r"write the manual region as sdy.manual_computation"):
        strip_outside_manual_regions(module)


def test_reading_a_signature_does_not_import_jax() -> None:
    code = "import sys; import gspmd.transforms.ir.signature; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
