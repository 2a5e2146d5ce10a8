"""gspmd compile: for devices that are here, for topologies that are not, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from jax.sharding import PartitionSpec as P
from support.simple_code import users_environment

import gspmd
from gspmd.compiled import ahead_of_time
from gspmd.compiled.file import read_compiled
from gspmd.dialect.errors import Error, ExecutionError, InputError, UsageError
from gspmd.tools import cli

PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %b: tensor<32x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
    -> (tensor<16x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<16x32xf32>, tensor<32x24xf32>) -> tensor<16x24xf32>
  return %0 : tensor<16x24xf32>
}
"""
needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 32)).astype(np.float32), rng.normal(size=(32, 24)).astype(np.float32)


def test_what_is_compiled_here_is_saved_loaded_and_run(tmp_path: Path) -> None:
    compiled = gspmd.compile_for(PROGRAM, "cpu:8")
    assert compiled.memory.arguments == 4 * (4 * 32 + 16 * 24)
    assert compiled.step_time() is None
    compiled.save(tmp_path / "program.gspmd")
    a, b = operands()
    (result,) = gspmd.load_compiled(tmp_path / "program.gspmd")(a, b)
    np.testing.assert_allclose(np.asarray(result), a @ b, rtol=1e-5, atol=1e-5)


def test_a_loaded_program_runs_on_other_devices(tmp_path: Path) -> None:
    gspmd.compile_for(PROGRAM, "cpu").save(tmp_path / "program.gspmd")
    executable = gspmd.load_compiled(tmp_path / "program.gspmd", jax.devices()[::-1][:8])
    a, b = operands()
    np.testing.assert_allclose(np.asarray(executable(a, b)[0]), a @ b, rtol=1e-5, atol=1e-5)


def test_partitioned_modules_are_compiled_as_they_are() -> None:
    partitioned = gspmd.partition(PROGRAM)
    for program in (partitioned, partitioned.module_text):
        assert gspmd.compile_for(program, "cpu").memory.arguments == 4 * (4 * 32 + 16 * 24)


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ("cpu:4", UsageError, "the mesh has 8 devices, target 'cpu:4' has 4"),
        ("npu", UsageError, "cannot compile for target 'npu'; known are tpu:v5p:4x4x4"),
        ("cpu:x", UsageError, "cannot compile for target 'cpu:x'"),
        ("gpu", ExecutionError, "no gpu devices"),
        ("tpu:v9:2x2", UsageError, "unknown TPU 'v9'"),
        ("tpu:v5e:2x2", UsageError, "a mesh of 8 devices does not fit a topology of 2x2 with 4 devices"),
    ],
)
def test_targets_that_are_none(target: str, kind: type[Error], message: str) -> None:
    with pytest.raises(kind, match=message):
        gspmd.compile_for(PROGRAM, target)


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="libtpu is installed")
def test_without_libtpu_the_error_says_what_to_install() -> None:
    with pytest.raises(ExecutionError, match=r"needs libtpu, which is not installed; pip install 'gspmd\[tpu\]'"):
        gspmd.compile_for(PROGRAM, "tpu:v5e:2x4")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_files_that_are_no_compiled_program(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "program.gspmd"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not a compiled program; gspmd compile -o writes one"):
        gspmd.load_compiled(path)


def test_a_file_for_other_devices_says_so(tmp_path: Path) -> None:
    path = tmp_path / "program.gspmd"
    gspmd.compile_for(PROGRAM, "cpu").save(path)
    assert len(read_compiled(path).about.ids) == 8
    with pytest.raises(ExecutionError, match="compiled for 8 devices"):
        gspmd.load_compiled(path, jax.devices()[:4])


# ---- functions of JAX ----


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    return gspmd.annotate(a, P("x", None)) @ gspmd.annotate(b, P("y", None))


def test_a_function_runs_on_the_devices_its_target_names() -> None:
    a, b = operands()
    for target in ("cpu", "cpu:8"):
        result = gspmd.jit(product, mesh={"x": 4, "y": 2}, target=target)(a, b)
        np.testing.assert_allclose(np.asarray(result), a @ b, rtol=1e-5, atol=1e-5)


def test_a_function_compiles_for_machines() -> None:
    lowered = gspmd.jit(product, mesh={"x": 4, "y": 2}).lower(*operands())
    assert lowered.compile_for("cpu").memory.arguments == 4 * (4 * 32 + 16 * 24)
    with pytest.raises(UsageError, match="unknown TPU 'v9'"):
        lowered.compile_for("tpu:v9:2x4")


def test_a_function_for_a_topology_cannot_be_called() -> None:
    step = gspmd.jit(product, mesh={"x": 4, "y": 2}, target="tpu:v5e:2x4")
    with pytest.raises(ExecutionError, match="'product' is for 'tpu:v5e:2x4', which is not here; compile it by lower"):
        step(*operands())
    assert step.lower(*operands()).cost().placement is not None


def test_devices_of_a_mesh_and_a_target_agree() -> None:
    mesh = gspmd.make_mesh((4, 2), ("x", "y"))
    with pytest.raises(UsageError, match="the mesh has cpu devices, the target is 'tpu'"):
        gspmd.jit(product, mesh=mesh, target="tpu")(*operands())
    with pytest.raises(UsageError, match="the mesh has 8 devices, target 'cpu:4' has 4"):
        gspmd.jit(product, mesh={"x": 4, "y": 2}, target="cpu:4")(*operands())


# ---- the command ----


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gspmd.tools.cli", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=users_environment(),
    )


def test_the_command_writes_what_run_runs(tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(PROGRAM)
    done = command("compile", tmp_path / "program.mlir", "--target", "cpu", "-o", tmp_path / "program.gspmd")
    assert done.returncode == 0, done.stderr
    assert "compiled for cpu" in done.stdout
    assert "all_reduce" in done.stdout
    run = command("run", tmp_path / "program.gspmd")
    assert run.returncode == 0, run.stderr
    assert 'result 0: f32[16,24] [{"x"}, {}]' in run.stdout


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(PROGRAM)
    done = command("compile", tmp_path / "program.mlir", "--target", "tpu:v7:2x2")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "unknown TPU 'v7'" in done.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("xla_cpu_enable_fast_math", "--compiler-option xla_cpu_enable_fast_math; write it as NAME=VALUE"),
        ("xla_nonsense=1", "the compiler does not take its options: No such compile option: 'xla_nonsense'"),
        ("xla_cpu_enable_fast_math=perhaps", "the compiler does not take its options"),
    ],
)
def test_options_that_the_compiler_does_not_take(tmp_path: Path, option: str, message: str) -> None:
    (tmp_path / "program.mlir").write_text(PROGRAM)
    done = command("compile", tmp_path / "program.mlir", "--target", "cpu", "--compiler-option", option)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_options_reach_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(PROGRAM)
    words = ["--target", "cpu", "--compiler-option", "xla_cpu_enable_fast_math=true"]
    assert command("compile", tmp_path / "program.mlir", *words).returncode == 0


# ---- the compiler of TPUs ----


RAGGED = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<128x256xf32>,
                %c: tensor<16xi32>) -> tensor<128x256xf32> {
  %0 = sdy.manual_computation(%a, %b, %c)
      in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>]
      out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"}
      (%d: tensor<16x256xf32>, %e: tensor<32x256xf32>, %f: tensor<4xi32>) {
    %1 = stablehlo.custom_call @ragged_all_to_all(%d, %e, %f, %f, %f, %f) {api_version = 4 : i32, backend_config =
      {channel_id = 1 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>}}
      : (tensor<16x256xf32>, tensor<32x256xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>)
      -> tensor<32x256xf32>
    sdy.return %1 : tensor<32x256xf32>
  } : (tensor<64x256xf32>, tensor<128x256xf32>, tensor<16xi32>) -> tensor<128x256xf32>
  return %0 : tensor<128x256xf32>
}
"""


@needs_libtpu
def test_ragged_exchanges_are_those_of_the_machine() -> None:
    """Between the devices that the program names; each of them has half of the columns."""
    compiled = gspmd.compile_for(RAGGED, "tpu:v5e:2x4")
    (call,) = (line for line in compiled.hlo_text.splitlines() if " ragged-all-to-all(" in line)
    assert "f32[32,1,128]" in call
    assert "replica_groups={{0,2,4,6},{1,3,5,7}}" in call
    step = compiled.step_time()
    assert step is not None
    assert [collective.kind for collective in step.collectives] == ["all_to_all"]


@needs_libtpu
def test_gathers_begin_early_where_the_compiler_is_asked_to() -> None:
    """What a product waits for comes in eight pieces, which arrive while the other operand is cut or in products."""
    text = """
    sdy.mesh @mesh = <["x"=8]>
    func.func @main(%a: tensor<4096x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                    %b: tensor<8192x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
        -> (tensor<4096x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
      %c = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<4096x8192xbf16>
      %d = stablehlo.dot_general %c, %b, contracting_dims = [1] x [0]
        : (tensor<4096x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<4096x8192xbf16>
      return %d : tensor<4096x8192xbf16>
    }
    """
    bound = {"constraints": "bind"}
    step = gspmd.compile_for(text, "tpu:v3:2x2", options=bound).step_time()
    assert step is not None
    assert sorted((c.kind, c.is_async) for c in step.collectives) == [("all_gather", True)] * 8
    assert step.scheduled_s < 0.99 * step.upper_bound_s
    off = {"xla_enable_async_all_gather": False}
    plain = gspmd.compile_for(text, "tpu:v3:2x2", compiler_options=off, options=bound | {"overlap": False}).step_time()
    assert plain is not None
    assert [(c.kind, c.is_async) for c in plain.collectives] == [("all_gather", False)]


@needs_libtpu
def test_a_report_has_the_step_in_the_order_of_the_compiler(tmp_path: Path) -> None:
    compiled = gspmd.compile_for(PROGRAM, "tpu:v5p:2x2x2")
    step = compiled.step_time()
    assert step is not None
    data = gspmd.report(PROGRAM, target="tpu:v5p:2x2x2", compiled=compiled).data
    assert (data["timeline"]["source"], data["timeline"]["total_s"]) == ("compiler", step.scheduled_s)
    assert {*data["timeline"]["lanes"]} <= {"compute", "x", "y", "x, y"}
    (tmp_path / "p.mlir").write_text(PROGRAM)
    words = ["report", str(tmp_path / "p.mlir"), "--target", "tpu:v5p:2x2x2", "--compile", "--data"]
    assert cli.main([*words, str(tmp_path / "data.json")]) == 0
    assert json.loads((tmp_path / "data.json").read_text())["timeline"]["source"] == "compiler"


def test_a_program_that_only_fits_without_early_collectives() -> None:
    asked: list[dict[str, Any]] = []

    def compile_(module: Any, options: Any = None) -> str:
        asked.append(options)
        if options:
            raise JaxRuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.0G of 16.0G hbm.")
        return "executable"

    assert ahead_of_time._begun_early(compile_, None, {}) == "executable"
    assert asked == [{"xla_enable_async_all_gather": True, "xla_enable_async_collective_permute": True}, None]
    with pytest.raises(JaxRuntimeError):  # where the user said so
        ahead_of_time._begun_early(compile_, None, asked[0])
    assert len(asked) == 3


@needs_libtpu
def test_a_tpu_topology_that_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(PROGRAM)
    output = tmp_path / "program.gspmd"
    done = command("compile", tmp_path / "program.mlir", "--target", "tpu:v5e:2x4", "--json", "-o", output)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["memory"]["arguments"] >= 4 * (4 * 32 + 16 * 24)  # and what layouts add
    assert found["memory"]["limit"] == 16e9
    assert [c["kind"] for c in found["collectives"]] == ["all_reduce"]
    assert found["time"]["lower_bound_s"] <= found["time"]["upper_bound_s"]
    assert set(found["axes"]) == {"x", "y"}
    assert read_compiled(output).about.target == "tpu:v5e:2x4"


@needs_libtpu
def test_a_program_that_does_not_fit_names_what_is_large(tmp_path: Path) -> None:
    text = PROGRAM.replace("32x", "262144x").replace("x32xf32", "x262144xf32").replace("x24xf32", "x65536xf32")
    (tmp_path / "program.mlir").write_text(text)
    done = command("compile", tmp_path / "program.mlir", "--target", "tpu:v5e:2x4")
    assert done.returncode == 1
    assert "of memory on each device" in done.stderr
    assert "argument" in done.stderr


@needs_libtpu
def test_libtpu_has_the_last_word_on_topologies(tmp_path: Path) -> None:
    text = PROGRAM.replace('"y"=2', '"y"=3').replace("x24xf32", "x24xf32")
    (tmp_path / "program.mlir").write_text(text)
    done = command("compile", tmp_path / "program.mlir", "--target", "tpu:v5e:3x4")
    assert done.returncode == 2
    assert "libtpu does not know topology 'v5e:3x4'" in done.stderr


@needs_libtpu
def test_a_function_compiles_for_a_topology() -> None:
    compiled = gspmd.jit(product, mesh={"x": 4, "y": 2}, target="tpu:v5e:2x4").lower(*operands()).compile()
    assert isinstance(compiled, gspmd.CompiledProgram)
    step = compiled.step_time()
    assert step is not None
    assert step.scheduled_s <= step.upper_bound_s * (1 + 1e-9)  # the same seconds, added up in another order


@needs_libtpu
def test_groups_reach_the_compiler_as_axes_where_modules_can_say_so() -> None:
    """jaxlib 0.10 writes modules in a version of StableHLO that has lists only."""
    text = """
    sdy.mesh @mesh = <["x"=8, "y"=16]>
    func.func @main(%a: tensor<1024x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                    %b: tensor<2048x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
        -> (tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
      %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<1024x2048xf32>, tensor<2048x512xf32>) -> tensor<1024x512xf32>
      return %c : tensor<1024x512xf32>
    }
    """
    compiled = gspmd.compile_for(text, "tpu:v3:8x8")
    if tuple(int(part) for part in jaxlib.__version__.split(".")[:2]) >= (0, 12):
        assert "replica_groups=mesh['x'=8,'y'=16] {'y'}" in compiled.hlo_text
    step = compiled.step_time()
    assert step is not None
    assert [(c.kind, c.devices) for c in step.collectives] == [("all_reduce", 16)]


@needs_libtpu
def test_groups_of_many_devices_along_parts_of_an_axis() -> None:
    text = PROGRAM.replace('["x"=4, "y"=2]', '["x"=128]').replace('{"x"}', '{"x":(1)4}').replace('{"y"}', '{"x":(2)4}')
    compiled = gspmd.compile_for(text, "tpu:v3:8x8")
    step = compiled.step_time()
    assert step is not None
    assert {c.devices for c in step.collectives} <= {2, 4}
    assert len(step.collectives) == len(compiled.partitioned.collectives)


@needs_libtpu
def test_loops_in_stages_of_a_pipeline_are_compiled() -> None:
    """In a process of its own, which libtpu ends where it takes for replicated what a loop is given."""
    script = """
from gspmd.examples import parallelisms
from gspmd.examples.common.running import lowered
recipe = parallelisms.RECIPES["pipeline-2d"]
program = parallelisms.program(parallelisms.Config(layers=2, remat=True), recipe)
print(lowered(program, recipe.mesh).compile_for("tpu:v5e:2x4").memory.peak)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:500]
    assert int(done.stdout) > 0
