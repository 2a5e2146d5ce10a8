"""Options of passes, given to `gspmd.partition` and to the command line."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import gspmd
from gspmd.tools import cli

PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(
    %x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %w: tensor<256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}
) -> (tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
"""
# Large enough that communication is hidden, on a machine that computes slowly.
LARGE = re.sub("64x", "512x", PROGRAM.replace("256x128", "512x1024").replace("x256", "x512").replace("x128", "x1024"))
SLOW = "flops.f32 = 1e10\nmemory.bytes_per_s = 1e12\nnetwork = {dims = 1, bytes_per_s = 1e9, latency_s = 1e-6}\n"
# Two sums of values split differently, each on a line of its own.
TWO_RESHARDS = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(
    %a: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %b: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %c: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>},
    %d: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}
) -> (tensor<64x256xf32>, tensor<64x256xf32>) {
  %0 = stablehlo.add %a, %b : tensor<64x256xf32>
  %1 = stablehlo.multiply %c, %d : tensor<64x256xf32>
  return %0, %1 : tensor<64x256xf32>, tensor<64x256xf32>
}
"""
# A step of data parallelism with momentum, which the last two results take the places of.
UPDATE = """
sdy.mesh @mesh = <["data"=8]>
func.func @main(
    %x: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32},
    %m: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 1 : i32}
) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
      : (tensor<64x32xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
  %c = stablehlo.constant dense<0.5> : tensor<32x64xf32>
  %0 = stablehlo.multiply %m, %c : tensor<32x64xf32>
  %1 = stablehlo.add %0, %g : tensor<32x64xf32>
  %2 = stablehlo.multiply %1, %c : tensor<32x64xf32>
  %3 = stablehlo.subtract %w, %2 : tensor<32x64xf32>
  return %3, %1 : tensor<32x64xf32>, tensor<32x64xf32>
}
"""


def kinds(program: str, target: str = "", **options: Any) -> list[str]:
    return [c.kind for c in gspmd.partition(program, target=target, options=options).collectives]


def test_a_product_is_overlapped_with_its_gather_when_asked(tmp_path: Path) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text(SLOW)
    assert kinds(LARGE, target=str(slow)) == ["all_gather", "all_gather"]
    assert set(kinds(LARGE, target=str(slow), overlap=True)) == {"all_gather", "collective_permute"}
    assert gspmd.check(LARGE, options={"target": str(slow), "options": {"overlap": True}})
    assert kinds(PROGRAM, target=str(slow), overlap=True) == kinds(PROGRAM, target=str(slow))  # too small


def test_products_are_overlapped_on_a_torus_of_tpus() -> None:
    """There the compiler begins collectives early; elsewhere it is an option."""
    text = LARGE.replace("512", "16384").replace("1024", "32768").replace("f32", "bf16")
    on_torus = kinds(text, target="tpu:v5e:4x2")
    assert on_torus != kinds(text, target="tpu:v5e:4x2", overlap=False)
    assert on_torus == kinds(text, target="tpu:v5e:4x2", overlap=True)
    assert kinds(text) == kinds(text, overlap=False)


def test_options_of_passes_given_as_arguments_of_partition() -> None:
    with pytest.raises(gspmd.UsageError, match=r"gspmd\.partition has no argument 'overlap'"):
        gspmd.check(PROGRAM, options={"overlap": True})


def test_options_are_named_as_in_python_or_as_in_pipelines() -> None:
    assert kinds(UPDATE, **{"update-axes": ["data"]}) == kinds(UPDATE, update_axes=["data"]) != kinds(UPDATE)


def test_the_update_of_weights_is_split_when_asked() -> None:
    assert kinds(UPDATE) == ["all_reduce"]
    split = gspmd.partition(UPDATE, options={"update_axes": ["data"]})
    assert [c.kind for c in split.collectives] == ["reduce_scatter", "all_gather"]
    assert [s.value.is_replicated() for s in split.in_shardings] == [False, True, False]
    assert gspmd.check(UPDATE, split)


def test_an_unknown_option_names_those_there_are() -> None:
    with pytest.raises(gspmd.UsageError, match="no option 'nonsense'; it has 'assume-finite', 'combine-bytes', "):
        gspmd.partition(PROGRAM, options={"nonsense": 1})
    with pytest.raises(gspmd.UsageError, match="no option 'combine_byte'; did you mean 'combine-bytes'"):
        gspmd.partition(PROGRAM, options={"combine_byte": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combine_bytes": "many"}, "'combine-bytes' of pass 'gspmd-partition' has value 'many'; give .* type int"),
        ({"combine_bytes": True}, "has value True"),
        ({"assume_finite": 1}, "has value 1; give a value of type bool"),
        ({"overlap": 1}, "has value 1; give a value of type bool"),
        ({"update_axes": "data"}, "has value 'data'"),
        ({"update_axes": ["rows"]}, "rows"),
        ({"target": "tpu-v5p"}, "option 'target' is an argument of its own"),
        ({"num-partitions": 2}, "option 'num-partitions' is an argument of its own"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gspmd.Error, match=message):
        gspmd.partition(UPDATE, options=options)


# ---- the command line ----


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return str(path)


def output(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(words))
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("command", ["cost", "explain"])
def test_commands_that_report_take_options_and_targets(command: str, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW)
    (tmp_path / "large.mlir").write_text(LARGE)
    words = [command, str(tmp_path / "large.mlir"), *(["--conflicts"] if command == "explain" else [])]
    slow = ["--target", str(tmp_path / "slow.toml")]
    code, text, _ = output(*words, *slow, "--option", "overlap=true")
    assert code == 0
    assert "collective_permute" in text
    assert "collective_permute" not in output(*words, *slow)[1]
    times = [re.findall(r"[\d.]+ us", output(*words, "--target", target)[1]) for target in ("tpu-v3", "tpu-v5p")]
    assert times[0] != times[1]


def test_explain_refuses_what_strict_mode_refuses_after_explaining_it(file: str, tmp_path: Path) -> None:
    code, text, errors = output("explain", file, "--strict")
    assert code == 1
    assert "1 conflict, 1 with communication" in text
    assert len(errors.splitlines()) == 1
    assert "strict mode allows no reshard" in errors
    assert output("explain", file, "--strict=64KiB")[0] == 0
    two = tmp_path / "two.mlir"
    two.write_text(TWO_RESHARDS)
    code, _, errors = output("explain", str(two), "--strict")
    assert code == 1
    assert sorted(re.findall(r"two.mlir:(\d+):", errors), key=int) == ["9", "10"]


@pytest.mark.parametrize("command", ["partition", "cost", "check", "run", "explain"])
def test_every_command_refuses_an_unknown_option(command: str, file: str) -> None:
    code, _, errors = output(command, file, "--option", "nonsense=1")
    assert (code, "no option 'nonsense'" in errors) == (2, True)


def test_options_are_refused_for_a_module_that_is_partitioned(tmp_path: Path) -> None:
    path = tmp_path / "partitioned.mlir"
    path.write_text(gspmd.partition(PROGRAM).module_text)
    code, _, errors = output("cost", str(path), "--option", "combine-bytes=1")
    assert (code, "--option with a module that is already partitioned" in errors) == (2, True)
