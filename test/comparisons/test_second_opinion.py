"""`gspmd.compare`: a program as gspmd and the partitioners inside XLA have it."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import numpy as np
import pytest
from support.compared_programs import GATHERED, MESH, PRODUCT, said

import gspmd
from gspmd.comparisons import measuring, second_opinion
from gspmd.comparisons.figures import Figures, SentCollectives
from gspmd.comparisons.increases import over_peers
from gspmd.comparisons.opinions import opinion_lines
from gspmd.comparisons.peers import GSPMD, PEERS, SHARDY
from gspmd.dialect.errors import Unsupported, UsageError

SWAPPED = f"""{MESH}
func.func public @main(%a: tensor<16x16xf32> {said('[{"x"}, {"y"}]')})
    -> (tensor<16x16xf32> {said('[{"y"}, {"x"}]')}) {{
  %0 = stablehlo.negate %a : tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}}"""
COUNTED = f"""{MESH}
func.func public @main() -> (tensor<16xi32> {said('[{"x"}]')}) {{
  %0 = stablehlo.iota dim = 0 : tensor<16xi32>
  return %0 : tensor<16xi32>
}}"""
LOOK_UP = f"""{MESH}
func.func public @main(%table: tensor<64x4xf32> {said('[{"x"}, {}]')}, %at: tensor<8x1xi32> {said('[{"y"}, {}]')})
    -> (tensor<8x4xf32> {said('[{"y"}, {}]')}) {{
  %0 = "stablehlo.gather"(%table, %at) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}}>
    : (tensor<64x4xf32>, tensor<8x1xi32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}}"""
UPDATE = f"""{MESH}
func.func public @main(%cache: tensor<64x4xf32> {said('[{"x"}, {}]')}, %row: tensor<1x4xf32>, %at: tensor<i32>)
    -> (tensor<64x4xf32> {said('[{"x"}, {}]')}) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %cache, %row, %at, %zero
    : (tensor<64x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<64x4xf32>
  return %0 : tensor<64x4xf32>
}}"""
BEGUN = f"""{MESH}
func.func public @main(%a: tensor<16x4xf32> {said('[{"x"}, {}]')}, %b: tensor<f32> {said("[]")})
    -> (tensor<4xf32> {said("[{}]")}) {{
  %0 = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0]
    : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}}"""
MANUAL = f"""{MESH}
func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {{
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{}}]>] out_shardings=[<@mesh, [{{"x"}}, {{}}]>]
    manual_axes={{"x"}} (%b: tensor<2x4xf32>) {{
    %1 = stablehlo.add %b, %b : tensor<2x4xf32>
    sdy.return %1 : tensor<2x4xf32>
  }} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}}"""


def with_custom_call(target: str) -> str:
    return f"""{MESH}
func.func public @main(%a: tensor<8x4xf32> {said('[{"x"}, {}]')}) -> tensor<8x4xf32> {{
  %0 = stablehlo.custom_call @{target}(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}}"""


def abort(task: measuring.Task, partitioner: str, partitioned: str = "") -> measuring.Measured:
    """As a peer that ends the process; the others work."""
    if partitioner == SHARDY:
        os.write(2, b"F0000 Check failed: no such luck\n")
        os.abort()
    return measuring.measured(task, partitioner, partitioned)


def sleep(task: measuring.Task, partitioner: str, partitioned: str = "") -> measuring.Measured:
    """As a peer whose compiler never ends."""
    if partitioner == GSPMD:
        time.sleep(600)
    return measuring.measured(task, partitioner, partitioned)


def test_all_compute_the_same_and_are_counted_alike() -> None:
    found = gspmd.compare(PRODUCT)
    assert found
    assert [opinion.partitioner for opinion in found.opinions] == ["gspmd", *PEERS]
    for opinion in found.opinions:
        assert opinion.results is not None
        assert opinion.results.passed
        assert opinion.figures is not None
        assert opinion.figures.by_axes == {("all_gather", "x"): (GATHERED, 1)}
        assert [each.line for each in opinion.figures.sent] == ["-:4"]
        assert opinion.figures.held_bytes > 0
        assert 0 < opinion.figures.lower_bound_s <= opinion.figures.upper_bound_s
    assert found.differences == ()
    assert "the traffic of every line is the same for all" in opinion_lines(found)


@pytest.mark.parametrize("text", [SWAPPED, COUNTED, LOOK_UP])
def test_what_all_have_made_is_proved(text: str) -> None:
    found = gspmd.compare(text, verify=True, run=False)
    for opinion in found.opinions:
        assert opinion.verification, f"{opinion.partitioner}: {opinion.unproved}{opinion.verification}"
    (row,) = [line for line in opinion_lines(found) if "for all inputs" in line]
    assert row.split()[3:] == ["proved"] * 3


def test_a_peer_that_is_wrong_is_refuted() -> None:
    # XLA's devices all begin their sums with the initial value, and add up what they have.
    found = gspmd.compare(BEGUN, verify=True)
    assert found
    assert found.ours.verification
    for opinion in found.opinions[1:]:
        assert opinion.verification is not None
        assert opinion.verification.verdict is gspmd.Verdict.REFUTED
        assert opinion.results is not None
        assert not opinion.results.passed
    assert any("XLA GSPMD: refuted: result 0" in line for line in opinion_lines(found))


def test_an_update_that_is_lost_is_refuted() -> None:
    # An index out of range is moved into it; XLA's devices update nothing then.
    found = gspmd.compare(UPDATE, verify=True, run=False)
    assert found.ours.verification
    for opinion in found.opinions[1:]:
        assert opinion.verification is not None
        assert opinion.verification.verdict is gspmd.Verdict.REFUTED


def test_lines_that_differ_have_the_cause_of_ours() -> None:
    # A constraint that only our notation has: peers are free to gather later.
    text = PRODUCT.replace('"x"}, {}]', '"x", "y"}, {}]', 1)
    found = gspmd.compare(text, run=False)
    assert found
    if found.differences:
        (first, *_) = found.differences
        assert first.line.startswith("-:")
        assert set(first.sent) == {"gspmd", *PEERS}
        assert first.causes


def test_steps_are_estimated_for_a_target() -> None:
    neutral, other = (gspmd.compare(PRODUCT, target=target, run=False, peers=()) for target in ("", "tpu:v5p:2x2x2"))
    assert neutral.ours.figures is not None
    assert other.ours.figures is not None
    assert neutral.ours.figures.upper_bound_s != other.ours.figures.upper_bound_s
    assert neutral.ours.results is None


def test_annotations_of_gspmd_are_given_to_all() -> None:
    text = """module attributes {mhlo.num_partitions = 4 : i32} {
    func.func public @main(%a: tensor<8x4xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
        -> (tensor<4xf32> {mhlo.sharding = "{replicated}"}) {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    } }"""
    found = gspmd.compare(text)
    assert found
    kinds = [opinion.figures and {kind for kind, _ in opinion.figures.by_axes} for opinion in found.opinions]
    assert kinds == [{"all_reduce"}] * 3
    assert all(opinion.results for opinion in found.opinions)


def test_a_peer_that_has_no_word_for_something_says_so() -> None:
    found = gspmd.compare(MANUAL)
    assert found
    ours, of_gspmd, shardy = found.opinions
    assert ours.figures is not None
    assert shardy.results
    assert "'sdy.manual_computation' op has no form that GSPMD reads" in of_gspmd.failure
    assert any("XLA GSPMD refuses" in line for line in opinion_lines(found))


def test_a_peer_that_ends_the_process_does_not_end_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_opinion, "measured", abort)
    found = gspmd.compare(PRODUCT)
    ours, of_gspmd, shardy = found.opinions
    assert ours.results
    assert of_gspmd.results
    assert shardy.figures is None
    assert "SIGABRT" in shardy.failure
    assert "no such luck" in shardy.failure
    assert "aborts" in "\n".join(opinion_lines(found))


def test_a_peer_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_opinion, "measured", sleep)
    found = gspmd.compare(PRODUCT, timeout_s=12, run=False)
    assert "no answer within 12 s" in found.opinions[1].failure
    assert found.opinions[2].figures is not None


def test_what_only_gspmd_refuses_is_its_opinion() -> None:
    found = gspmd.compare(PRODUCT, strict=True)
    assert not found
    assert "refuses it" in found.ours.failure
    assert found.opinions[1].results


def test_our_results_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = second_opinion.api.partition

    def wrong(*arguments: Any, **options: Any) -> Any:
        text = partition(*arguments, **options).module_text.replace("stablehlo.tanh", "stablehlo.sine")
        return second_opinion.api.Partitioned(gspmd.reading.read_program(text))

    monkeypatch.setattr(second_opinion.api, "partition", wrong)
    found = gspmd.compare(PRODUCT)
    assert not found
    text = "\n".join(opinion_lines(found))
    assert "DIFFER" in text
    assert "gspmd: result 0 differs: error " in text


def test_inputs_and_tolerances_are_those_of_check() -> None:
    arrays = [np.full((64, 64), 0.01, np.float32)] * 2
    assert gspmd.compare(PRODUCT, inputs=arrays, rtol=0.1, peers=())
    with pytest.raises(UsageError, match="rtol is -1"):
        gspmd.compare(PRODUCT, rtol=-1)


@pytest.mark.parametrize(
    ("program", "options", "error", "message"),
    [
        ("func.func @main(%a: tensor<4xf32>) {", {}, gspmd.ParseError, "expected"),
        (PRODUCT.replace('[{"x"}, {"y"}]', '[{"z"}, {}]'), {}, gspmd.ParseError, 'unknown axis name: "z"'),
        (PRODUCT, {"peers": ["Alpa"]}, UsageError, "there is no peer 'Alpa'"),
        (PRODUCT, {"target": "abacus"}, UsageError, "unknown target 'abacus'"),
        (PRODUCT, {"options": {"max_rounds": "many"}}, UsageError, "max"),
        (with_custom_call("no_such_target"), {}, gspmd.ExecutionError, "no_such_target"),
        (with_custom_call("no_such_target"), {"run": False}, Unsupported, "calls 'no_such_target', which has no"),
        (PRODUCT, {"strict": True, "run": False, "peers": ()}, gspmd.ReshardError, "reshard"),
    ],
)
def test_bad_calls(program: str, options: dict[str, Any], error: type[gspmd.Error], message: str) -> None:
    with pytest.raises(error, match=message):
        gspmd.compare(program, **options)


def test_partitioned_programs_have_no_second_opinion() -> None:
    with pytest.raises(UsageError, match="already partitioned"):
        gspmd.compare(gspmd.partition(PRODUCT).module)


def test_calls_of_python_are_refused() -> None:
    with pytest.raises(Unsupported):
        gspmd.compare(with_custom_call("xla_ffi_python_cpu_callback"))


# ---- thresholds -----------------------------------------------------------------------------------


def _opinions(ours: int, *theirs: int) -> Any:
    def figures(size: int) -> Figures:
        return Figures((SentCollectives("a:1", "all_gather", "x", 1, size),), 100, 1.0, 2.0)

    found = gspmd.compare(PRODUCT, run=False, peers=())
    opinions = [second_opinion.Opinion("gspmd", figures(ours))]
    opinions += [second_opinion.Opinion(peer, figures(size)) for peer, size in zip(PEERS, theirs, strict=False)]
    return dataclasses.replace(found, opinions=tuple(opinions))


def test_more_than_the_better_peer_is_an_increase() -> None:
    found = _opinions(110, 200, 100)
    assert over_peers(found, {"": 0.1}) == ()
    (increase,) = over_peers(found, {"": 0.05})
    assert str(increase) == "bytes sent: 110 B (110 bytes), 10.0% above 100 B (100 bytes); allowed is 5.0%"
    assert over_peers(found, {"": 0.0, "bytes": 0.2}) == ()
    assert over_peers(_opinions(110), {"": 0.0}) == ()
