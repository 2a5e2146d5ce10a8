"""Every axis of every value is led back to an annotation, and every collective to the conflict that needs it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

import gspmd
from gspmd import Explanation, explain
from gspmd.dialect.axes import size_of
from gspmd.dialect.notation import parse_axes
from gspmd.examples import decoder_lm, mlp
from gspmd.transforms.decide.solver import GAP
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.propagate import complete
from gspmd.transforms.propagate.derivation import AxisPosition, Derivations
from gspmd.transforms.propagate.factors import LEVELS

SMALL = decoder_lm.Config(layers=1, model=16, heads=4, head_size=4, hidden=32, vocabulary=32, sequence=8, batch=8)
MODELS = [
    *((mlp, mlp.Config(recipe=recipe)) for recipe in mlp.RECIPES),
    *((decoder_lm, dataclasses.replace(SMALL, recipe=recipe)) for recipe in decoder_lm.RECIPES),
    (decoder_lm, dataclasses.replace(SMALL, recipe="2d", layers=2, scan=True)),
]


def lowered(model: Any, config: Any) -> str:
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
    return str(model.lower(config, mesh).as_text(debug_info=True))


@pytest.fixture(scope="module", params=MODELS, ids=lambda m: f"{m[0].__name__.rpartition('.')[2]}-{m[1].recipe}")
def text(request: pytest.FixtureRequest) -> str:
    return lowered(*request.param)


# ---- chains ---------------------------------------------------------------------------------------


def check_chains(explanation: Explanation) -> int:
    """Check every derivation of every value; returns how many there are."""
    count, mesh = 0, explanation.mesh
    annotated = {(v.name, v.kind) for v in explanation.values} | {(v.name, "constraint") for v in explanation.values}
    for value in explanation.values:
        explained: dict[int, list[str]] = {}
        for derivation in value.derivations:
            explained.setdefault(derivation.dimension, []).append(derivation.axes)
            origin = derivation.origin
            assert (origin.value, origin.kind) in annotated
            assert origin.kind in ("argument", "result", "constraint", "operation")
            dims = re.findall(r"\{[^}]*\}", origin.sharding)
            names = set(re.findall(r'"\w+"', derivation.axes))
            assert names <= set(re.findall(r'"\w+"', dims[origin.dimension])), (value.name, derivation)
            at = (derivation.steps[0].value, derivation.dimension) if derivation.steps else None
            seen = set()
            for step in derivation.steps:
                assert (step.value, step.dimension) == at
                assert at not in seen, "the chain comes back to where it was"
                seen.add(at)
                at = (step.from_value, step.from_dimension)
                assert step.level in LEVELS
                assert step.operation
            if at is not None:
                assert at[1] == origin.dimension
            count += 1
        dims = re.findall(r"\{[^}]*\}", value.sharding)
        for index, dim in enumerate(dims):
            told = [axis for axes in explained.get(index, []) for axis in parse_axes("{" + axes + "}", mesh)]
            have = parse_axes(dim, mesh)
            assert {axis.name for axis in told} == {axis.name for axis in have}
            assert size_of(told) == size_of(have), (value.name, index)
    return count


def test_every_split_dimension_leads_back_to_an_annotation(text: str) -> None:
    assert check_chains(explain(text)) > 20


def test_every_link_goes_along_a_factor_and_back_in_time(text: str) -> None:
    context = new_context()
    module = parse_module(text, context)
    with context, ir.Location.unknown(context):
        top = model_of(module)
        Ingest().run(top)
        solver = complete(top).solver
    derivations = Derivations(solver)
    when = {id(change): index for index, change in enumerate(solver.history)}
    checked = 0
    for slot, number in enumerate(solver.state):
        for dim, axes in enumerate(solver.interner.values[number].dim_axes()):
            for axis in axes:
                for chain in derivations.chains(AxisPosition(slot, dim, axis)):
                    last = len(solver.history)
                    for link in chain.links:
                        node = solver.nodes[link.change.node]
                        tensors = solver.rules[node.rule].tensors
                        assert (node.slots[link.target], node.slots[link.source]) == (link.place.slot, link.given.slot)
                        shared = set(tensors[link.target][link.place.dim]) & set(tensors[link.source][link.given.dim])
                        assert shared
                        assert when[id(link.change)] < last
                        last = when[id(link.change)]
                        checked += 1
                    annotated = solver.annotated[chain.origin.slot].dims[chain.origin.dim].axes
                    assert any(a.overlaps(chain.origin.axis) for a in annotated)
    assert checked > 20


def test_parts_of_an_axis_that_came_apart_have_a_chain_each() -> None:
    program = """
    sdy.mesh @mesh = <["x"=4, "y"=2]>
    func.func @main(%a: tensor<2x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)2}]>})
        -> tensor<16xf32> {
      %r = stablehlo.reshape %a : (tensor<2x8xf32>) -> tensor<16xf32>
      return %r : tensor<16xf32>
    }"""
    explanation = explain(program)
    check_chains(explanation)
    (value,) = explanation.find("%r")
    assert value.sharding == '[{"x"}]'
    found = {(d.axes, d.steps[0].from_dimension, d.origin.dimension) for d in value.derivations}
    assert found == {('"x":(1)2', 0, 0), ('"x":(2)2', 1, 1)}


def test_priorities_and_levels_are_told() -> None:
    program = """
    sdy.mesh @mesh = <["x"=4, "y"=2]>
    func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>},
                    %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}p1]>}) -> tensor<8x8xf32> {
      %r = stablehlo.add %a, %b : tensor<8x8xf32>
      return %r : tensor<8x8xf32>
    }"""
    (value,) = explain(program).find("%r")
    by_x, by_y = value.derivations
    assert (by_x.origin.value, by_x.steps[0].priority) == ("%a", 0)
    assert (by_y.origin.value, by_y.steps[0].priority) == ("%b", 1)
    assert by_y.steps[0].source == "operand 1"
    assert by_y.steps[0].target == "result 0"
    assert by_y.steps[0].level == LEVELS[0]


# ---- names ----------------------------------------------------------------------------------------

CALLS = """
sdy.mesh @mesh = <["x"=4]>
func.func private @square(%in: tensor<8xf32>) -> tensor<8xf32> {
  %out = stablehlo.multiply %in, %in : tensor<8xf32>
  return %out : tensor<8xf32>
}
func.func @main(%weights: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %first = func.call @square(%weights) : (tensor<8xf32>) -> tensor<8xf32>
  %second = func.call @square(%first) : (tensor<8xf32>) -> tensor<8xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %loop:2 = stablehlo.while(%i = %zero, %carry = %second) : tensor<i32>, tensor<8xf32>
    cond {
      %end = stablehlo.constant dense<3> : tensor<i32>
      %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %negated = stablehlo.negate %carry : tensor<8xf32>
      stablehlo.return %next, %negated : tensor<i32>, tensor<8xf32>
    }
  return %loop#1 : tensor<8xf32>
}
"""


def test_values_go_by_the_names_of_the_given_text(tmp_path: Path) -> None:
    path = tmp_path / "named.mlir"
    path.write_text(CALLS)
    for program in (CALLS, str(path), CALLS.encode()):
        explanation = explain(program)
        names = [value.name for value in explanation.values]
        assert {"%weights", "@square:%out", "%loop#0", "%loop#1", "%carry", "%negated", "result 0"} <= set(names)
        assert not [name for name in names if "/" in name]


def test_what_was_inlined_is_found_by_the_name_of_the_call_and_of_the_argument() -> None:
    explanation = explain(CALLS)
    (second,) = explanation.find("%second")
    assert (second.name, second.called_for) == ("@square:%out", "%second")
    assert second.derivations[0].steps[0].operation_value == "@square:%out"
    assert [value.called_for for value in explanation.find("@square:%out")] == ["%first", "%second"]
    assert {value.name for value in explanation.find("@square:%in")} == {"%weights", "@square:%out"}
    assert [value.name for value in explanation.find("loop")] == ["%loop#0", "%loop#1"]


def test_the_carry_of_a_loop_tells_which_way_it_got_its_axes() -> None:
    (negated,) = explain(CALLS).find("%negated")
    steps = [(s.operation, s.source, s.target) for s in negated.derivations[0].steps]
    assert steps == [
        ("stablehlo.while", "result 1", "returned value 1"),
        ("stablehlo.while", "initial value 1", "result 1"),
        ("stablehlo.multiply", "operand 0", "result 0"),
        ("stablehlo.multiply", "operand 0", "result 0"),
    ]


def test_a_carry_that_lies_as_a_constraint_inside_says_is_told_from_that_constraint() -> None:
    program = CALLS.replace('[{"x"}]', "[{?}]").replace(
        "stablehlo.return %next, %negated",
        """%placed = sdy.sharding_constraint %negated <@mesh, [{"x"}]> : tensor<8xf32>
           stablehlo.return %next, %placed""",
    )
    (loop,) = explain(program).find("%loop#1")
    assert [derivation.axes for derivation in loop.derivations] == ['"x"']
    origin = loop.derivations[0].origin
    assert (origin.kind, origin.value) == ("constraint", "%placed")


def test_other_programs_go_by_the_names_that_mlir_prints() -> None:
    module = parse_module(CALLS, new_context())
    explanation = explain(module)
    names = {value.name for value in explanation.values}
    assert {"%arg0", "@square:%0", "%2#1", "%iterArg"} <= names
    for name in names:
        if re.fullmatch(r"(@square:)?%[\w]+", name):
            assert re.search(rf"{re.escape(name.rpartition(':')[2])}\b", explanation.given_text)


def test_functions_that_jax_calls_keep_their_names() -> None:
    """JAX names the scope of every operation, and its inliner joins these names."""
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))

    def sample(scale: Any) -> Any:
        return scale * jax.random.normal(jax.random.key(0), scale.shape)

    split = NamedSharding(mesh, PartitionSpec("x"))
    program = jax.jit(sample, in_shardings=split, out_shardings=split).lower(np.ones((8, 4), np.float32))
    for given in (program, program.as_text(), program.as_text(debug_info=True), program.as_text(dialect="hlo")):
        explanation = explain(given, 4)
        check_chains(explanation)
        assert not [value.name for value in explanation.values if "/" in value.name]
        inlined = [value for value in explanation.values if value.name.startswith("@_normal")]
        assert inlined
        assert all(value.called_for.startswith("%") for value in inlined)


def test_values_that_ingest_makes_on_the_way_are_numbered() -> None:
    program = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
      %r = chlo.tan %a : tensor<8xf32> -> tensor<8xf32>
      %s = stablehlo.negate %r : tensor<8xf32>
      return %s : tensor<8xf32>
    }"""
    explanation = explain(program)
    check_chains(explanation)
    assert len(explanation.find("%r")) == 1
    assert explanation.find("%s")[0].derivations[0].steps[0].from_value == "%r"


def test_a_program_is_refused_as_partitioning_refuses_it() -> None:
    program = CALLS.replace("stablehlo.negate", "stablehlo.not_there").replace("%carry :", "(%carry) :")
    for wrong in (program, CALLS.replace('[{"x"}]', '[{"z"}]'), CALLS.replace("@main", "@other")):
        with pytest.raises(gspmd.Error) as partitioning:
            gspmd.partition(wrong.replace("func.func @other", "func.func private @other"))
        with pytest.raises(gspmd.Error) as explaining:
            explain(wrong.replace("func.func @other", "func.func private @other"))
        assert str(explaining.value) == str(partitioning.value)


def test_an_unknown_value_names_near_misses() -> None:
    with pytest.raises(gspmd.UsageError, match=r"no value '%secnd'; did you mean '%second'"):
        explain(CALLS).find("%secnd")
    with pytest.raises(gspmd.UsageError, match=r"no value 'nothing-like-it'; list all values with gspmd explain --all"):
        explain(CALLS).find("nothing-like-it")


def test_frameworks_names_and_source_lines_lead_to_values() -> None:
    explanation = explain(lowered(mlp, mlp.Config()))
    (argument,) = explanation.find("state['params']['w1']")
    assert (argument.kind, argument.sharding) == ("argument", '[{"x", "y"}, {}]')
    assert explanation.find("['moments']['w1']")[0].label.endswith("['moments']['w1']")
    source, start = inspect.getsourcelines(mlp.loss)
    line = start + next(i for i, text in enumerate(source) if "jax.nn.gelu" in text)
    found = explanation.find(f"mlp.py:{line}")
    assert "stablehlo.dot_general" in {value.operation for value in found}
    assert all(value.location is not None and value.location.line == line for value in found)
    dots = [value for value in found if value.operation == "stablehlo.dot_general"]
    assert dots[0].derivations[0].origin.location is not None


# ---- conflicts ------------------------------------------------------------------------------------


def test_conflicts_account_for_every_collective(text: str) -> None:
    explanation = explain(text)
    partitioned = gspmd.partition(text)
    assert str(explanation.partitioned.module) == str(partitioned.module)
    assert sum(c.bytes for c in explanation.conflicts) == sum(c.bytes * (c.count or 1) for c in partitioned.collectives)
    told = [str(c) for conflict in explanation.conflicts for c in conflict.collectives]
    assert sorted(told) == sorted(map(str, partitioned.collectives))
    for conflict in explanation.conflicts:
        assert conflict.reasons
        assert conflict.operation
        times = [alternative.time_s for alternative in conflict.alternatives]
        assert times == sorted(times)
        chosen = [a for a in conflict.alternatives if a.chosen]
        assert len(chosen) == bool(times)
        unseen = max(GAP, explanation.gap) * sum(explanation.terms.named.values())
        assert not chosen or chosen[0].time_s <= times[0] + unseen


def test_options_of_decisions_count_as_in_partitioning() -> None:
    text = lowered(mlp, mlp.Config())
    for options in ({"constraints": "bind"}, {"effort": "fast"}):
        partitioned = gspmd.partition(text, options=options)
        assert str(explain(text, options=options).partitioned.module) == str(partitioned.module)
        assert str(partitioned.module) != str(gspmd.partition(text).module)


def test_a_conflict_says_what_each_tensor_wanted_and_why() -> None:
    program = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                    %b: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<64x64xf32> {
      %r = stablehlo.add %a, %b : tensor<64x64xf32>
      return %r : tensor<64x64xf32>
    }"""
    (conflict,) = explain(program).conflicts
    assert (conflict.operation, conflict.value) == ("stablehlo.add", "%r")
    assert any("both want" in reason for reason in conflict.reasons)
    wanted = {tensor.value: (tensor.has, tensor.derivations[0].origin.value) for tensor in conflict.tensors}
    assert wanted["%a"] == ('[{"x"}, {}]', "%a")
    assert wanted["%b"] == ('[{}, {"x"}]', "%b")
    (moved,) = [tensor for tensor in conflict.tensors if tensor.has != tensor.runs_as]
    (collective,) = conflict.collectives
    assert collective.kind == "all_to_all"
    assert conflict.bytes == collective.bytes == 64 * 64 * 4 // 4 * 3 // 4
    assert moved.place.startswith("operand")


def test_a_move_that_serves_two_operations_is_paid_once() -> None:
    program = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
        -> (tensor<64xf32>, tensor<64xf32>) {
      %r = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<64xf32>
      %s = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<64xf32>
      return %r, %s : tensor<64xf32>, tensor<64xf32>
    }"""
    paid, free = explain(program).conflicts
    assert (paid.value, paid.bytes) == ("%r", 192)
    assert (free.value, free.bytes, free.collectives) == ("%s", 0, ())
    assert free.reasons[-1] == "operand 0 was already resharded for an earlier operation"


def test_communication_of_an_operation_whose_tensors_agree_is_told_too() -> None:
    program = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
        -> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
      %r = stablehlo.reverse %a, dims = [0] : tensor<64xf32>
      return %r : tensor<64xf32>
    }"""
    explanation = explain(program)
    assert sum(c.bytes for c in explanation.conflicts) == sum(c.bytes for c in explanation.partitioned.collectives) > 0


# ---- JSON -----------------------------------------------------------------------------------------

PLACE = {"location"}
STEP = {"value", "dimension", "from_value", "from_dimension", "operation", "operation_value", "target", "source"}
ORIGIN = {"kind", "value", "label", "dimension", "sharding"} | PLACE


def test_json_has_the_documented_keys() -> None:
    tree = json.loads(json.dumps(explain(lowered(mlp, mlp.Config())).to_dict()))
    assert set(tree) == {"mesh", "values", "conflicts", "decision"}
    assert tree["decision"]["gap"] == pytest.approx(0, abs=1e-3)
    assert tree["decision"]["terms_s"]["communication"] > 0
    assert tree["mesh"] == {"x": 4, "y": 2}
    fields = {"name", "kind", "label", "operation", "type", "called_for", "used_by", "sharding", "local_shape"}
    for value in tree["values"]:
        assert set(value) == fields | PLACE | {"derivations"}
        check_derivations(value["derivations"])
    fields = {"operation", "value", "reasons", "tensors", "collectives", "bytes", "time_s", "alternatives"} | PLACE
    for conflict in tree["conflicts"]:
        assert set(conflict) == fields
        for tensor in conflict["tensors"]:
            assert set(tensor) == {"place", "value", "has", "runs_as", "derivations"}
            check_derivations(tensor["derivations"])
        for collective in conflict["collectives"]:
            assert set(collective) == {"kind", "axes", "bytes", "at_most", "count", "cause"} | PLACE
        for alternative in conflict["alternatives"]:
            assert set(alternative) == {"operands", "results", "bytes", "time_s", "chosen"}


def check_derivations(derivations: list[dict[str, Any]]) -> None:
    for derivation in derivations:
        assert set(derivation) == {"dimension", "axes", "steps", "left_out", "origin"}
        assert set(derivation["origin"]) == ORIGIN
        for step in derivation["steps"]:
            assert set(step) == STEP | PLACE | {"level", "priority"}


# ---- what is not known ----


def test_a_sharding_that_a_later_stage_gave_is_not_explained_and_nothing_fails() -> None:
    text = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.slice %a [1:64, 0:32] : (tensor<64x32xf32>) -> tensor<63x32xf32>
  %1 = stablehlo.slice %a [0:1, 0:32] : (tensor<64x32xf32>) -> tensor<1x32xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<63x32xf32>, tensor<1x32xf32>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}
"""
    explanation = explain(text)
    assert explanation.conflicts
    assert "<html" in gspmd.report(text).html()
