"""Plans that are found for the benchmark's models, small enough for 8 CPU devices, compute what one device does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import gspmd
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.running import lowered

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MESH, TARGET = {"x": 4, "y": 2}, "tpu:v5e:2x4"
LLAMA = {"layers": 2, "model": 64, "heads": 8, "groups": 2, "hidden": 128, "head_size": 8, "vocabulary": 256}
VISION = {"layers": 2, "model": 64, "heads": 8, "hidden": 128, "head_size": 8, "tokens": 16}
# A class of search_models.py and its sizes.
MODELS = {
    "Llama": ("Llama", {**LLAMA, "batch": 8, "length": 32}),
    "Llama, decoding": ("Llama", {**LLAMA, "batch": 8, "length": 32, "is_decoding": True}),
    "vision Transformer": ("Vision", {**VISION, "batch": 8, "inputs": 12, "classes": 32}),
    "graph network": ("Graph", {"layers": 2, "nodes": 64, "edges": 256, "model": 32, "hidden": 64}),
    "diffusion U-Net": ("Diffusion", {"batch": 8, "image": 16, "channels": 16, "levels": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_computes_what_one_device_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    of, sizes = MODELS[name]
    model: Any = getattr(importlib.import_module("search_models"), of)(**sizes, dtype="float32")
    program = lowered(model.program(Recipe("nothing", {}, {}).on(MESH)), MESH).program
    plan = gspmd.search(program, mesh=MESH, target=TARGET, time_limit_s=10)
    assert any(decision.dims is not None for decision in plan.decisions)
    report = gspmd.check(plan.module)
    assert report.passed, report
