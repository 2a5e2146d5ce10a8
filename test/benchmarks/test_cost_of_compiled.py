"""What `gspmd cost` says is sent is what XLA's program for CPUs sends, counted in its text, loops as they run.

XLA puts small collectives together, so that there may be fewer.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import gspmd

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CHOSEN = (
    "mlp-fsdp",
    "mixture-of-experts",
    "pipelined",
    "accumulated",
    "decode-positions",
    "convolutional",
    "sequence-parallel",
)


@pytest.mark.parametrize("name", CHOSEN)
def test_bytes_are_those_of_the_compiled_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    models, hlo_counts = (importlib.import_module(module) for module in ("models", "hlo_counts"))
    partitioned = gspmd.partition(models.MODELS[name].lower())
    said = gspmd.cost(partitioned)
    compiled = hlo_counts.count(gspmd.compile(partitioned).loaded.hlo_modules()[0].to_string())
    assert compiled.unknown_loops == 0
    assert sum(compiled.number.values()) <= said.runs
    assert said.bytes_by_kind == pytest.approx(compiled.sent, abs=0.5 * said.runs)  # each is rounded to whole bytes
