"""Layers that repeat are partitioned once; the program is the same as if each had been partitioned, or sends less."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from support import layered, samples

import gspmd
from gspmd.dialect.errors import Unsupported
from gspmd.pass_manager import manager
from gspmd.transforms import decide, reroll
from gspmd.transforms.decide import solver
from gspmd.transforms.decide.solver import GAP, Problem, Solution
from gspmd.transforms.parsing import diagnostics

LEAST = 20
folding = importlib.import_module("gspmd.transforms.reroll.fold")


class Watch:
    """What happened to the layers of the last program that was partitioned."""

    def __init__(self) -> None:
        self.least = LEAST
        self.fold: reroll.Fold | None = None
        self.unlike = ""
        self.cost_s = self.gap = 0.0  # of what was decided last
        self.stages: list[str] = []


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()

    def fold(function: Any, kept: tuple[int, ...]) -> reroll.Fold | None:
        found.fold, found.unlike = folding.fold(function, kept, found.least), ""
        return found.fold

    def unfold(function: Any, what: reroll.Fold) -> None:
        try:
            unfolded(function, what)
        except reroll.LayersDiffer as unlike:
            found.unlike = str(unlike)
            raise

    def solve(problem: Problem, passes: int, patience: int) -> Solution:
        solution = solver.solve(problem, passes, patience)
        found.cost_s, found.gap = solution.cost, solution.gap
        return solution

    unfolded = reroll.unfold
    monkeypatch.setattr(decide, "solve", solve)
    monkeypatch.setattr(manager.reroll, "fold", fold)
    monkeypatch.setattr(manager.reroll, "unfold", unfold)
    return found


def partitioned(text: str, watch: Watch, least: int, **given: Any) -> gspmd.Partitioned:
    """What becomes of a program."""
    watch.least = least
    watch.stages.clear()
    return gspmd.partition(text, on_stage=lambda stage, _: watch.stages.append(stage), **given)


def printed(result: gspmd.Partitioned) -> str:
    """The program; channels, which are numbered in another order, have no numbers."""
    return re.sub(r"handle = \d+", "handle", str(result.module))


def without_causes(program: str) -> str:
    """The program without the reasons of its collectives, which differ between equal ways to move something."""
    return re.sub(r'gspmd.cause = "[^"]*"', "", program)


def check_same(text: str, watch: Watch) -> bool:
    """Whether layers were found; the program has to be the same, whatever was done.

    Or one that is right and costs no more by what decisions are made for: there are equal ones, and a gap is left.
    """
    whole = partitioned(text, watch, 1 << 40)
    assert watch.fold is None
    whole_s = watch.cost_s
    once = partitioned(text, watch, LEAST)
    is_folded = watch.fold is not None and not watch.unlike
    if without_causes(printed(once)) != without_causes(printed(whole)):
        assert watch.cost_s <= whole_s * (1 + GAP + watch.gap)
        assert gspmd.check(text)
    return is_folded


@pytest.mark.parametrize("seed", range(8))
def test_a_program_of_layers_stays_the_same(seed: int, watch: Watch) -> None:
    check_same(layered.program(seed), watch)


@pytest.mark.parametrize("start", range(100, 100 + 30 * samples.TIMES, 10))
def test_most_programs_have_layers(start: int, watch: Watch) -> None:
    found, unlike = 0, list[str]()
    for seed in range(start, start + 10):
        check_same(layered.program(seed), watch)
        found += watch.fold is not None
        unlike += [watch.unlike] if watch.unlike else []
    assert found >= 6
    assert 4 * len(unlike) <= found, unlike


def test_numbers_are_those_of_the_whole_program_on_one_device(watch: Watch) -> None:
    assert gspmd.check(layered.program(500))
    assert watch.fold is not None
    assert not watch.unlike


def layers(count: int, body: str, results: str = "%x{last} : tensor<8x8xf32>", types: str = "tensor<8x8xf32>") -> str:
    """A program of layers; `body` says `{i}` of the layer that it is, and `{before}` of the one before."""
    lines = [body.format(i=i, before=i - 1) for i in range(1, count + 1)]
    arguments = ", ".join(
        f'%w{i}: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}' for i in range(1, count + 1)
    )
    return f"""
      sdy.mesh @mesh = <["x"=4]>
      func.func public @main(%x0: tensor<8x8xf32>, {arguments}) -> ({types}) {{
        {"".join(lines)}
        return {results.format(last=count)}
      }}"""


ROWS = '#sdy.sharding<@mesh, [{"x"}, {}]>'

LAYER = """
  %a{i} = stablehlo.dot_general %x{before}, %w{i}, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b{i} = stablehlo.tanh %a{i} : tensor<8x8xf32>
  %c{i} = stablehlo.add %b{i}, %a{i} : tensor<8x8xf32>
  %x{i} = stablehlo.multiply %c{i}, %b{i} : tensor<8x8xf32>
"""


def test_what_is_left_out_and_put_back(watch: Watch) -> None:
    # With an argument that is split as what layers make, the first layer is like the others.
    text = layers(12, LAYER).replace("%x0: tensor<8x8xf32>", f"%x0: tensor<8x8xf32> {{sdy.sharding = {ROWS}}}")
    assert check_same(text, watch)
    assert watch.fold is not None
    assert len(watch.fold.missing) == 8
    assert watch.stages == [
        *("gspmd-ingest", "fold", "gspmd-propagate", "gspmd-decide", "gspmd-reshard", "gspmd-localize"),
        "gspmd-optimize",
        *("gspmd-order", "gspmd-regather", "unfold", "write"),
    ]


def test_a_layer_of_one_operation(watch: Watch) -> None:
    body = "%x{i} = stablehlo.dot_general %x{before}, %w{i}, contracting_dims = [1] x [0]\n"
    body += "      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    assert check_same(layers(28, body), watch)


def test_constants_that_layers_share_belong_to_none(watch: Watch) -> None:
    half = "%k{i} = stablehlo.constant dense<0.5> : tensor<8x8xf32>\n"
    body = half + LAYER.replace("stablehlo.add %b{i}, %a{i}", "stablehlo.add %b{i}, %k{i}")
    assert check_same(layers(12, body), watch)


def test_runs_are_tied_by_what_says_most(watch: Watch) -> None:
    """The update of weights is tied to the layers by moments of all weights, and by the weights that layers begin with.

    Moments say more, but only once they are tied to the gradients.
    """
    assert check_same(layered.program(103), watch)


def test_few_layers_are_left_alone(watch: Watch) -> None:
    assert not check_same(layers(5, LAYER), watch)


def test_a_value_of_all_layers_ties_them(watch: Watch) -> None:
    """What is computed of every layer's value, at the end, is no part of any."""
    ends = "%s = stablehlo.concatenate " + ", ".join(f"%x{i}" for i in range(1, 13)) + ", dim = 0 : ("
    ends += ", ".join(["tensor<8x8xf32>"] * 12) + ") -> tensor<96x8xf32>\n"
    text = layers(12, LAYER, "%s : tensor<96x8xf32>", "tensor<96x8xf32>").replace("return", f"{ends}        return")
    assert not check_same(text, watch)


def test_one_layer_that_differs(watch: Watch) -> None:
    text = layers(20, LAYER).replace("%b7 = stablehlo.tanh", "%b7 = stablehlo.cosine")
    assert check_same(text, watch)
    assert watch.fold is not None
    assert watch.fold.behind <= 13  # the 13 layers behind it


def test_one_layer_with_another_annotation(watch: Watch) -> None:
    text = layers(12, LAYER).replace(
        '%w6: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}',
        '%w6: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}',
    )
    assert not check_same(text, watch)


def test_layers_that_use_what_is_further_away(watch: Watch) -> None:
    """Layers that use the last but one are found by two: as they are, each depends on more than its neighbours."""
    body = LAYER.replace("stablehlo.add %b{i}, %a{i}", "stablehlo.add %b{i}, %x{two}")
    text = layers(3, LAYER)
    lines = "".join(body.format(i=i, before=i - 1, two=i - 2) for i in range(4, 25))
    arguments = "".join(f", %w{i}: tensor<8x8xf32>" for i in range(4, 25))
    text = text.replace(") -> (", arguments + ") -> (", 1).replace("return %x3", f"{lines}        return %x24")
    check_same(text, watch)


def test_results_of_every_layer(watch: Watch) -> None:
    body = LAYER + '%d{i} = sdy.sharding_constraint %c{i} <@mesh, [{{"x"}}, {{}}]> : tensor<8x8xf32>\n'
    results = ", ".join(f"%d{i}" for i in range(1, 13)) + " : " + ", ".join(["tensor<8x8xf32>"] * 12)
    types = ", ".join(["tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}"] * 12)
    text = layers(12, body, results, types)
    assert check_same(text, watch)
    assert len(partitioned(text, watch, LEAST).out_shardings) == 12


@pytest.mark.parametrize("gives", range(2))
def test_memory_that_results_take(gives: int, watch: Watch) -> None:
    """Arguments that give their memory to a result of their layer; to one of the next layer, they are left alone."""
    results = ", ".join(f"%x{i}" for i in range(1, 13)) + " : " + ", ".join(["tensor<8x8xf32>"] * 12)
    text = layers(12, LAYER, results, ", ".join(["tensor<8x8xf32>"] * 12))
    for i in range(1, 13):
        alias = f"tf.aliasing_output = {(i - 1 + gives) % 12} : i32"
        text = text.replace(f"%w{i}: tensor<8x8xf32> {{", f"%w{i}: tensor<8x8xf32> {{{alias}, ")
    assert check_same(text, watch) == (gives == 0)


def test_locations_are_those_of_the_layer(watch: Watch) -> None:
    body = "\n".join(
        f'{line} loc("layer{{i}}")' if line.strip() and (line.endswith("xf32>")) else line for line in LAYER.split("\n")
    )
    text = layers(12, body)
    watch.least = LEAST
    made = gspmd.partition(text).module.operation.get_asm(enable_debug_info=True)
    assert watch.fold is not None
    assert all(f'loc("layer{i}")' in made for i in range(1, 13))


def test_what_passes_made_differently_is_partitioned_whole(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    text = layers(12, LAYER)
    whole = partitioned(text, watch, 1 << 40)

    def unlike(_function: Any, _fold: reroll.Fold) -> None:
        raise reroll.LayersDiffer("as it happens")

    monkeypatch.setattr(manager.reroll, "unfold", unlike)
    assert printed(partitioned(text, watch, LEAST)) == printed(whole)
    assert watch.stages.count("gspmd-propagate") == len(reroll.KEPT) + 1


def test_a_refusal_is_that_of_the_whole_program(watch: Watch) -> None:
    body = LAYER.replace(
        "%b{i} = stablehlo.tanh %a{i} : tensor<8x8xf32>",
        "%b{i} = stablehlo.custom_call @mine(%a{i}) : (tensor<8x8xf32>) -> tensor<8x8xf32>",
    )
    text = layers(12, body)
    watch.least = LEAST
    with pytest.raises(Unsupported, match="custom_call") as error:
        gspmd.partition(text)
    assert watch.fold is not None
    assert error.value.location is not None
    assert error.value.location.line == text[: text.index("stablehlo.custom_call")].count("\n") + 1


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({"strict": True}, "gspmd-reshard"),
        ({"options": {"combine_bytes": 1 << 20}}, "gspmd-optimize"),
        ({"options": {"keep_gathered_bytes": 300}}, "gspmd-regather"),
        ({"target": "tpu-v5p"}, "gspmd-regather"),
    ],
    ids=lambda given: given if isinstance(given, str) else next(iter(given.get("options", given))),
)
def test_what_counts_layers_sees_all(given: dict[str, Any], counts: str, watch: Watch) -> None:
    """Limits on the bytes of all gathers, and lists of all reshards, are those of the whole program."""
    text = layers(12, LAYER.replace("%w{i}", "%x{before}") if "strict" in given else LAYER)  # strict: nothing is sent
    whole, once = (partitioned(text, watch, least, **given) for least in (1 << 40, LEAST))
    assert watch.fold is not None
    assert watch.stages.index("unfold") < watch.stages.index(counts)
    assert without_causes(printed(once)) == without_causes(printed(whole))


def test_remarks_are_those_of_the_whole_program(watch: Watch) -> None:
    body = LAYER.replace(
        "%b{i} = stablehlo.tanh %a{i} : tensor<8x8xf32>",
        "%b{i} = stablehlo.custom_call @mine(%a{i}) : (tensor<8x8xf32>) -> tensor<8x8xf32>",
    )
    watch.least = LEAST
    heard: list[Any] = []
    with diagnostics.telling(heard.append):
        gspmd.partition(layers(12, body), replicate_unsupported=True)
    assert watch.fold is not None
    assert len(heard) == 12
