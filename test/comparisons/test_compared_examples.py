"""Every example beside what XLA's partitioners make of it, in its default recipe."""

from __future__ import annotations

import pytest

import gspmd
from gspmd.comparisons.opinions import opinion_lines
from gspmd.examples.common.running import lowered
from gspmd.tools import demo


@pytest.mark.parametrize("name", demo._names())
def test_an_example_is_compared(name: str) -> None:
    example = demo._example(name)
    config = example.Config()
    recipe = example.RECIPES[config.recipe]
    text = lowered(example.program(config, recipe), dict(recipe.mesh)).as_text(debug_info=True)
    found = gspmd.compare(text, run=name == "mlp")
    assert found
    for opinion in found.opinions:
        assert opinion.failure == ""
        assert opinion.figures is not None
        assert opinion.figures.held_bytes > 0
        if name == "mlp":
            assert opinion.results
    lines = opinion_lines(found)
    assert max(map(len, lines)) <= 80
    assert not any("of unknown lines" in line for line in lines)
