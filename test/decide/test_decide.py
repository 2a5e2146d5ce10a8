"""Decisions on programs: what is predicted is what is moved, and what users said stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import gspmd
from gspmd.dialect.errors import UsageError
from gspmd.dialect.own_attributes import CAUSE, RUNS, THROUGH
from gspmd.pass_manager import PassManager
from gspmd.transforms.decide import decide
from gspmd.transforms.decide.objective import BYTES_ALONE
from gspmd.transforms.decide.terms import terms_of
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.traffic import sent_bytes
from gspmd.transforms.reshard import reshard
from gspmd.transforms.reshard.rewrite import Resharder

CORPUS = Path(__file__).resolve().parents[2] / "benchmarks" / "corpus" / "losses"
MESH = 'sdy.mesh @mesh = <["x"=2, "y"=2]>\n'


def completed(text: str) -> Operation:
    """The program behind propagation."""
    module = parse_module(text, new_context())
    PassManager(["gspmd-ingest", "gspmd-propagate"]).run(module)
    return model_of(module)


def predicted_and_moved(text: str) -> tuple[float, float]:
    """What a device is said to send in all moves of a program, and sends in those that are made."""
    module = completed(text)
    decided = decide(module)
    annotated = AnnotatedProgram(module)
    resharder = Resharder(annotated, RuleBook(every_row(), False), Planner(annotated.mesh))
    resharder.run()
    moved = sum(sent_bytes(move.type_, move.source, move.steps) for move in resharder.moves)
    return decided.problem.cost_by(BYTES_ALONE, decided.solution.states), moved


def looped(path: Path) -> bool:
    """Whether a program has loops, in which moves are made several times, or operations that communicate inside."""
    text = path.read_text(encoding="utf-8")
    inside = ("while", "pad", "slice", "convolution", "reverse", "concatenate", "window", "sort", "gather", "scatter")
    return any(f"stablehlo.{name}" in text for name in inside)


@pytest.mark.parametrize(
    "path", [path for path in sorted(CORPUS.glob("*.mlir")) if not looped(path)], ids=lambda path: path.stem
)
def test_what_is_predicted_is_moved_to_the_byte(path: Path) -> None:
    predicted, moved = predicted_and_moved(path.read_text(encoding="utf-8"))
    assert predicted == pytest.approx(moved)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.mlir")), ids=lambda path: path.stem)
def test_terms_add_up_to_the_cost(path: Path) -> None:
    decided = decide(completed(path.read_text(encoding="utf-8")))
    terms = terms_of(decided.problem, decided.solution.states)
    assert sum(terms.named.values()) == pytest.approx(decided.solution.cost, rel=1e-6)
    assert decided.problem.cost_by(decided.problem.objective, decided.solution.states) == pytest.approx(
        decided.solution.cost, rel=1e-9
    )


def test_results_that_cannot_stay_uneven_are_returned_as_decided() -> None:
    """No value changes, but the result does: split along columns, an exchange brings it there instead of a gather."""
    text = f"""{MESH}
    func.func @main(%a: tensor<7x128xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
        -> (tensor<7x128xf32>, tensor<7x128xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
      %0 = stablehlo.tanh %a : tensor<7x128xf32>
      return %0, %0 : tensor<7x128xf32>, tensor<7x128xf32>
    }}"""
    predicted, moved = predicted_and_moved(text)
    assert moved == pytest.approx(predicted)
    (gathered, _) = gspmd.partition(text).signature.outputs
    assert gathered.sharding.dim_axes()[0] == ()
    assert gathered.sharding.dim_axes()[1] != ()


def test_an_operation_runs_as_was_decided() -> None:
    text = f"""{MESH}
    func.func @main(%a: tensor<8x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
                    %b: tensor<64x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}})
        -> (tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }}"""
    module = completed(text)
    decided = decide(module)
    assert decided.solution.gap == pytest.approx(0.0, abs=1e-6)
    (product,) = [op for op in module.walk() if op.name == "stablehlo.dot_general"]
    assert RUNS in product.attributes
    annotated = AnnotatedProgram(module)
    resharder = Resharder(annotated, RuleBook(every_row(), False), Planner(annotated.mesh))
    resharder.run()
    assert [move.steps[-1].kind for move in resharder.moves] == ["all_slice", "all_reduce"]
    assert RUNS not in product.attributes


def test_what_several_operations_take_is_moved_once_though_none_needs_it_exactly() -> None:
    """A product needs `%b` whole. The sum, which comes first, takes its part from that."""
    text = f"""{MESH}
    func.func @main(%a: tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
                    %b: tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}})
        -> (tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
            tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
      %0 = stablehlo.add %a, %b : tensor<16x16xf32>
      %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      return %0, %1 : tensor<16x16xf32>, tensor<16x16xf32>
    }}"""
    module = completed(text)
    decide(module)
    (total,) = [op for op in module.walk() if op.name == "stablehlo.add"]
    assert THROUGH in total.attributes
    annotated = AnnotatedProgram(module)
    resharder = Resharder(annotated, RuleBook(every_row(), False), Planner(annotated.mesh))
    resharder.run()
    assert [[step.kind for step in move.steps] for move in resharder.moves] == [["all_gather"], ["all_slice"]]
    assert THROUGH not in total.attributes


def test_what_is_annotated_stays() -> None:
    text = f"""{MESH}
    func.func @main(%a: tensor<8x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
        -> tensor<8x64xf32> {{
      %0 = stablehlo.tanh %a {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{"y"}}]>]>}} : tensor<8x64xf32>
      %1 = stablehlo.negate %0 : tensor<8x64xf32>
      return %1 : tensor<8x64xf32>
    }}"""
    module = completed(text)
    decide(module)
    (tanh,) = [op for op in module.walk() if op.name == "stablehlo.tanh"]
    assert '[{}, {"y"}]' in str(tanh.attributes["sdy.sharding"])


LAZY = f"""{MESH}
func.func @main(%a: tensor<64x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
                %w: tensor<64x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}})
    -> tensor<64x64xf32> {{
  %0 = stablehlo.tanh %a : tensor<64x64xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{{}}, {{}}]> : tensor<64x64xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %RETURNED : tensor<64x64xf32>
}}"""


def gathered(text: str, constraints: str) -> list[str]:
    """The causes of the collectives that are made for a program."""
    module = completed(text)
    reshard(module, constraints=constraints)
    return [str(op.attributes[CAUSE]) for op in module.walk() if op.name == "sdy.all_gather"]


def test_a_constraint_on_which_nothing_hangs_is_moved_to_where_that_pays() -> None:
    split = """(tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})"""
    text = LAZY.replace("-> tensor<64x64xf32> {", f"-> {split} {{")
    assert gathered(text.replace("%RETURNED", "%2"), "where-taken") == []


def test_all_constraints_bind_where_that_is_asked_for() -> None:
    (cause,) = gathered(LAZY.replace("%RETURNED", "%2"), "bind")
    assert "a sharding constraint asks for [{}, {}]" in cause


def test_what_is_returned_lies_as_its_constraint_says() -> None:
    (cause,) = gathered(LAZY.replace("%RETURNED", "%1"), "where-taken")
    assert "a sharding constraint asks for [{}, {}]" in cause


def test_what_several_operations_take_as_a_constraint_says_is_moved_once() -> None:
    """Each of them alone would rather reduce its sums than gather what it takes."""
    products = "\n".join(
        f"""%{name} = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0], precision = [{precision}, DEFAULT]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>"""
        for name, precision in (("3", "HIGH"), ("4", "HIGHEST"))
    )
    text = LAZY.replace('[{"x"}, {}]', '[{}, {"x"}]').replace("  return %RETURNED", f"{products}\n  return %RETURNED")
    text = text.replace(
        "%RETURNED : tensor<64x64xf32>", "%2, %3, %4 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>"
    )
    text = text.replace(
        "-> tensor<64x64xf32> {\n  %0", "-> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {\n  %0"
    )
    assert len(gathered(text, "where-taken")) == 1


@pytest.mark.parametrize("option", ["effort", "constraints"])
def test_what_an_option_cannot_be_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"'{option}' cannot be 'slow'"):
        decide(completed(LAZY.replace("%RETURNED", "%2")), **{option: "slow"})
