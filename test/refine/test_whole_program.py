"""What refinement knows of the whole program: it is right, and no choice makes it worse."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from pathlib import Path

import pytest

from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.pass_manager import PassManager
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.refine.chains import Chains
from gspmd.transforms.reshard import chooser_for

CORPUS = Path(__file__).resolve().parents[2] / "benchmarks" / "corpus" / "losses"


class _Told(Chains):
    """Refinement that keeps the seconds of the whole program, priced anew, from the beginning and after each choice."""

    def __init__(self, annotated: AnnotatedProgram) -> None:
        chooser = chooser_for(annotated, "", 0, MAX_RESHARD_MOVES)
        super().__init__(annotated, RuleBook(chooser.table, False), chooser)
        self.searches: list[list[float]] = []

    def anew(self) -> float:
        found = self.costs.of(self.places.all(), {})
        assert found is not None
        return found.time_s

    def _sweep_on(self, is_backward: bool, kept: Collection[int] = ()) -> bool:
        self.searches.append([self.anew()])
        return super()._sweep_on(is_backward, kept)

    def _improve(self, value: int) -> bool:
        has_changed = super()._improve(value)
        if has_changed:
            self.searches[-1].append(self.anew())
            assert self.costs.of_program().time_s == pytest.approx(self.searches[-1][-1], rel=1e-6)
        return has_changed


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.mlir")), ids=lambda path: path.stem)
def test_every_choice_makes_the_whole_program_faster(path: Path) -> None:
    module = parse_module(path.read_text(encoding="utf-8"), new_context())
    PassManager(["gspmd-ingest", "gspmd-propagate"]).run(module)
    told = _Told(AnnotatedProgram(model_of(module)))
    told.run()
    for times in told.searches:
        assert all(after < before for before, after in itertools.pairwise(times)), times


@pytest.mark.parametrize("count", [5, 6])
def test_layers_that_repeat_are_not_perturbed(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six equal layers may stand for more, or be some of those that were folded, and have to stay alike."""
    lines = [
        f"%d{i} = stablehlo.dot_general %t{i}, %w, contracting_dims = [1] x [0] : "
        f"(tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>\n"
        f"%t{i + 1} = stablehlo.tanh %d{i} : tensor<16x16xf32>"
        for i in range(count)
    ]
    text = f"""
      sdy.mesh @mesh = <["x"=4]>
      func.func @main(%t0: tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}},
                      %w: tensor<16x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}})
          -> tensor<16x16xf32> {{
        {chr(10).join(lines)}
        return %t{count} : tensor<16x16xf32>
      }}"""
    module = parse_module(text, new_context())
    PassManager(["gspmd-ingest", "gspmd-propagate"]).run(module)
    told, perturbed = _Told(AnnotatedProgram(model_of(module))), list[bool]()
    monkeypatch.setattr(told, "_search", lambda _start, is_backward: not is_backward)
    monkeypatch.setattr(told, "_perturb", lambda: perturbed.append(True))
    told.run()
    assert bool(perturbed) == (count == 5)
