"""No plan that is priced takes less than the bound says, also where splitting takes work away."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.bound import work_bound_s
from gspmd.plan_search.pricing import PlanPrices
from gspmd.reading import read_program
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.machine.target_file import read_hardware

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
TARGETS = ("tpu-v5p", "a100", "")
SQUARE = jax.ShapeDtypeStruct((4096, 4096), jnp.float32)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> list[PlanPrices]:
    """The prices of all states of the searches of a test."""
    found: list[PlanPrices] = []
    before = PlanPrices.__init__

    def kept(self: PlanPrices, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        found.append(self)

    monkeypatch.setattr(PlanPrices, "__init__", kept)
    return found


def least_s(priced: list[PlanPrices]) -> float:
    return min(outcome.step_s for each in priced for outcome in each.found.values() if outcome is not None)


def work_bound_of(program: Any, devices: int) -> tuple[float, Hardware]:
    explained, hardware = gspmd.explain(program, devices), read_hardware("tpu-v5p", Mesh((("x", devices),)))
    arguments = {"target": "tpu-v5p"}
    annotated = explained.explainer.completion.annotated
    return work_bound_s(read_program(program), annotated, hardware, arguments), hardware


def test_what_may_be_done_elsewhere_is_not_counted() -> None:
    bound_s, _ = work_bound_of(jax.jit(lambda x: x.T).lower(SQUARE), 8)
    assert bound_s == 0


def test_what_several_use_is_written_and_read() -> None:
    bound_s, hardware = work_bound_of(jax.jit(lambda x: (jnp.abs(x), jnp.abs(x).sum())).lower(SQUARE), 8)
    assert bound_s == pytest.approx(2 * 4 * 4096**2 / hardware.memory_bytes_per_s / 8, rel=1e-3)


@pytest.mark.parametrize("number", range(12))
def test_programs_without_annotations(number: int, priced: list[PlanPrices], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    drafts = importlib.import_module("made_up.drafts")
    made = drafts.made(5151, number, (4, 8, 64))
    steps = tuple(dataclasses.replace(step, dims=None) for step in made.steps)
    bare = dataclasses.replace(made, steps=steps, results=tuple((at, None) for at, _ in made.results))
    target = TARGETS[number % len(TARGETS)]
    found = gspmd.search(bare.lowered(), mesh=dict(made.mesh), target=target, time_limit_s=3)
    assert found.bound.seconds <= least_s(priced)
