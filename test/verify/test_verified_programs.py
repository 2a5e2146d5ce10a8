"""`gspmd.verify`: what is proved, what is refuted, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from proof.graphs import Graph

import gspmd
from gspmd.examples import decoder_lm
from gspmd.examples.common.running import lowered
from gspmd.tools import cli

MATMULS = """
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
"""
LARGE = """
sdy.mesh @mesh = <["data"=32, "model"=64]>
func.func @main(%x: tensor<1024x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                %w: tensor<4096x8192xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
                %v: tensor<8192x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
    -> (tensor<1024x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1024x4096xf32>, tensor<4096x8192xf32>) -> tensor<1024x8192xf32>
  %1 = stablehlo.tanh %0 : tensor<1024x8192xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
    : (tensor<1024x8192xf32>, tensor<8192x4096xf32>) -> tensor<1024x4096xf32>
  return %2 : tensor<1024x4096xf32>
}
"""
BROADCAST = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<6xf32>,
                %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}, %d: tensor<8x1xf32>)
    -> (tensor<8x6xf32>, tensor<8x6xi1>) {
  %0 = "chlo.broadcast_add"(%a, %b) {broadcast_dimensions = array<i64: 1>}
    : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %1 = "chlo.broadcast_add"(%0, %c) {broadcast_dimensions = array<i64: 0>}
    : (tensor<8x6xf32>, tensor<8xf32>) -> tensor<8x6xf32>
  %2 = "chlo.broadcast_compare"(%1, %d) {comparison_direction = #chlo<comparison_direction LT>}
    : (tensor<8x6xf32>, tensor<8x1xf32>) -> tensor<8x6xi1>
  return %1, %2 : tensor<8x6xf32>, tensor<8x6xi1>
}
"""
MAP = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.map"(%a, %b) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.subtract %p, %q : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
UNEVEN = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%t: tensor<10x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %i: tensor<5x1xi32>)
    -> (tensor<5x6xf32>, tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<6xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>}>
    : (tensor<10x6xf32>, tensor<5x1xi32>) -> tensor<5x6xf32>
  %1 = stablehlo.slice %t [2:9, 0:6] : (tensor<10x6xf32>) -> tensor<7x6xf32>
  %2 = stablehlo.reduce(%t init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<10x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %0, %1, %2 : tensor<5x6xf32>, tensor<7x6xf32>, tensor<6xf32>
}
"""
SUM = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<16x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<16x3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = stablehlo.exponential %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}
"""
SUMMANDS = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>})
    -> tensor<8x4xf32> {
  %0 = stablehlo.negate %a : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""
MANUAL = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
      manual_axes={"x"} (%b: tensor<2x4xf32>) {
    %1 = "stablehlo.collective_permute"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}>
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = stablehlo.add %1, %b : tensor<2x4xf32>
    sdy.return %2 : tensor<2x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""
BITS = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<10x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<10x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<10x3x4xui8>) {
  %0 = stablehlo.bitcast_convert %a : (tensor<10x3xf32>) -> tensor<10x3x4xui8>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<10x3x4xui8>
  %2 = stablehlo.bitcast_convert %1 : (tensor<10x3x4xui8>) -> tensor<10x3xf32>
  return %2, %1 : tensor<10x3xf32>, tensor<10x3x4xui8>
}
"""
SCATTER = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<10x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %i: tensor<5x1xi32>,
                %u: tensor<5x3xf32>) -> (tensor<10x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    BODY
  }) : (tensor<10x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<10x3xf32>
  return %0 : tensor<10x3xf32>
}
"""
REPLACED = SCATTER.replace("BODY", "stablehlo.return %q : tensor<f32>")
SUBTRACTED = SCATTER.replace(
    "BODY", "%c = stablehlo.subtract %p, %q : tensor<f32>\n    stablehlo.return %c : tensor<f32>"
)
DRAWN = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%low: tensor<f32>, %high: tensor<f32>) -> tensor<8xf32> {
  %shape = stablehlo.constant dense<8> : tensor<1xi64>
  %0 = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def elementwise(*lines: str) -> str:
    """A program of one array that is split, `%a`, whose result is `%r`."""
    said = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'
    return "\n".join(
        (
            'sdy.mesh @mesh = <["x"=2]>',
            f"func.func @main(%a: tensor<8xf32> {said}) -> (tensor<8xf32> {said}) {{",
            *lines,
            "return %r : tensor<8xf32> }",
        )
    )


def scaled(by: float) -> str:
    return elementwise(
        f"%c = stablehlo.constant dense<{by}> : tensor<8xf32>", "%r = stablehlo.multiply %a, %c : tensor<8xf32>"
    )


def clamped(low: float, high: float) -> str:
    return elementwise(
        f"%l = stablehlo.constant dense<{low}> : tensor<f32>",
        f"%h = stablehlo.constant dense<{high}> : tensor<f32>",
        "%r = stablehlo.clamp %l, %a, %h : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>",
    )


@pytest.mark.parametrize("other", [3.0, 0.0, -2.5])
def test_another_factor_is_refuted(other: float) -> None:
    assert gspmd.verify(scaled(-2.0)).proved
    assert gspmd.verify(scaled(-2.0), gspmd.partition(scaled(other))).verdict is gspmd.Verdict.REFUTED


def test_other_limits_are_refuted() -> None:
    assert gspmd.verify(clamped(0.7, 1.1)).proved
    assert gspmd.verify(clamped(0.7, 1.1), gspmd.partition(clamped(0.8, 1.2))).verdict is gspmd.Verdict.REFUTED
    found = gspmd.verify(clamped(-1.0, 3.0), gspmd.partition(clamped(-1.5, 3.5)))
    assert found.verdict is gspmd.Verdict.REFUTED


def test_matmuls_whose_sums_are_scattered_are_proved() -> None:
    found = gspmd.verify(MATMULS)
    assert found
    assert found.verdict is gspmd.Verdict.PROVED
    assert found.lines()[-1] == "PROVED: 1 results are the same for all inputs; 1 sums may be added up in another order"


def test_look_ups_and_uneven_parts_are_proved() -> None:
    assert gspmd.verify(UNEVEN).proved


def test_operands_are_broadcast_as_they_say() -> None:
    assert gspmd.verify(BROADCAST).proved


def test_what_a_region_computes_counts() -> None:
    product = gspmd.partition(MAP)
    assert gspmd.verify(MAP, product).proved
    assert not gspmd.verify(MAP, product.module_text.replace("stablehlo.subtract", "stablehlo.add")).proved


def test_a_training_step_is_proved_to_its_last_result() -> None:
    program = decoder_lm.program(decoder_lm.Config(), decoder_lm.RECIPES["2d"])
    found = gspmd.verify(lowered(program, {"x": 4, "y": 2}).program)
    assert found.proved, [result for result in found.results if result.verdict is not gspmd.Verdict.PROVED]


@pytest.mark.parametrize("program", [BITS, REPLACED, SUBTRACTED], ids=["bits", "replaced", "subtracted"])
def test_bits_and_scatters_by_any_function_are_proved(program: str) -> None:
    assert gspmd.verify(program).proved


def test_a_scatter_of_other_updates_is_not_proved() -> None:
    text = gspmd.partition(REPLACED).module_text
    for right, wrong in (("stablehlo.return %arg4", "stablehlo.return %arg3"), ("dense<10>", "dense<9>")):
        assert right in text
        assert not gspmd.verify(REPLACED, text.replace(right, wrong)).proved


@pytest.mark.parametrize("seed", [41003, 41018, 41020, 41030, 41053, 41104])
def test_random_programs_are_proved(seed: int) -> None:
    """A scan by a function of tensors; bits; sums of nothing in places; terms that differ in equal slots; scatters."""
    assert gspmd.verify(str(Graph(seed, 8).program())).proved


@pytest.mark.parametrize("seed", [1062, 1109, 1137])
def test_random_programs_get_a_verdict(seed: int) -> None:
    """Operands of two ranks; a function of whole operands in another one, in a loop."""
    assert gspmd.verify(str(Graph(seed, 8).program())).verdict is not gspmd.Verdict.REFUTED


def test_a_wrong_group_is_refuted_with_an_element() -> None:
    text = gspmd.partition(MATMULS).module_text
    wrong = text.replace("[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]")
    assert wrong != text
    (result,) = gspmd.verify(MATMULS, wrong).results
    assert result.verdict is gspmd.Verdict.REFUTED
    assert result.operation == "stablehlo.reduce_scatter"
    assert result.element is not None
    assert len(result.element.index) == 2


def test_a_sum_that_is_left_out_is_refuted() -> None:
    text = gspmd.partition(SUM).module_text
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if "stablehlo.all_reduce" in line)
    name, operand = lines[begin].split(" = ")[0], lines[begin].split("(")[1].split(")")[0]
    end = next(i for i in range(begin, len(lines)) if lines[i].lstrip().startswith("})"))
    type_ = lines[end].rpartition("-> ")[2]
    lines[begin : end + 1] = [f"{name} = stablehlo.optimization_barrier {operand} : {type_}"]
    assert gspmd.verify(SUM).proved
    assert gspmd.verify(SUM, "\n".join(lines)).verdict is gspmd.Verdict.REFUTED


def test_what_nothing_is_known_of_is_not_proved() -> None:
    found = gspmd.verify(DRAWN)
    assert found.verdict is gspmd.Verdict.NOT_KNOWN
    assert found.results[0].operation == "stablehlo.rng"


def test_a_program_that_is_not_proved_is_refused_by_the_gate() -> None:
    assert gspmd.partition(MATMULS, verify=True).num_partitions == 4
    with pytest.raises(gspmd.NotProved, match="result 0 of the partitioned program is not known") as caught:
        gspmd.partition(DRAWN, verify=True)
    assert not caught.value.verification.proved


def test_summands_that_enter_the_program_are_not_known_to_be_right() -> None:
    found = gspmd.verify(SUMMANDS)
    assert found.verdict is gspmd.Verdict.NOT_KNOWN
    assert found.results[0].reason == "an argument or a result is unreduced"


def test_manual_computations_are_run_as_they_are_written() -> None:
    assert gspmd.verify(MANUAL).proved


def test_a_program_on_thousands_of_devices_is_proved() -> None:
    found = gspmd.verify(LARGE)
    assert found.proved
    assert found.num_partitions == 2048


def test_other_programs_are_a_mistake() -> None:
    with pytest.raises(gspmd.UsageError, match="has other arguments"):
        gspmd.verify(UNEVEN, gspmd.partition(MATMULS))


def test_the_command_says_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, partitioned = tmp_path / "given.mlir", tmp_path / "partitioned.mlir"
    given.write_text(MATMULS)
    assert cli.main(["verify", str(given)]) == 0
    assert "PROVED: 1 results" in capsys.readouterr().out
    assert cli.main(["partition", str(given), "--verify", "-o", str(partitioned)]) == 0
    partitioned.write_text(partitioned.read_text().replace("[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]"))
    assert cli.main(["verify", str(given), str(partitioned), "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "refuted"
    assert said["results"][0]["operation"] == "stablehlo.reduce_scatter"
