"""The paper's models as benchmarks: their programs partition for their machines, and the page says what is known."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import gspmd

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
CELL = {
    "parameters": 5e11,
    "partition_s": 1.0,
    "compile_s": 70.0,
    "peak": 2**33,
    "limit": 2**34,
    "sent": {"all_gather": 2.0**30},
    "compute_s": 2.0,
    "communication_s": 0.5,
    "utilisation": {"no_overlap": 0.5, "scheduled": 0.55, "all_overlap": 0.6},
    "hlo_bytes": 1e6,
    "group_bytes": 1e3,
    "pair_bytes": 0,
    "module_bytes": 1e5,
}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_a_model_of_500_billion_parameters_fits(load: Any) -> None:
    families, topologies = load("paper_families"), load("topologies")
    row = families.ROWS["BERT-like encoder"]
    program = families._program(row)
    assert topologies.parameters(program) > 4.9e11
    report = gspmd.cost(topologies._lowered(program, row.mesh), target=row.target)
    assert report.memory.peak < report.memory.capacity
    assert report.placement is not None


def test_an_image_fits_only_in_parts(load: Any) -> None:
    families, topologies = load("paper_families"), load("topologies")
    reports = {}
    for name in ("3-D U-Net of 256³, one core", "3-D U-Net of 256³, 16 cores"):
        row = families.ROWS[name]
        program = topologies._lowered(families._program(row), row.mesh)
        reports[name] = gspmd.cost(program, target=row.target)
        assert (reports[name].memory.peak < reports[name].memory.capacity) == row.fits


def test_the_page_has_what_is_known(load: Any) -> None:
    families, report = load("paper_families"), load("report_paper")
    cells = {"BERT-like encoder, gspmd": CELL, "small decoder, 128 devices, gspmd": CELL}
    cells["3-D U-Net of 256³, one core, gspmd"] = {"error": "needs 78 GiB"}
    page = report.families(families.ROWS, families.GROWING, families.HOWS, cells)
    assert "## BERT-like encoder, 500.0 billion parameters" in page
    assert "| gspmd | 1.0 s | 70 s | 8.0 of 16 GiB | 1.0 GiB |" in page
    assert "| gspmd | needs 78 GiB |" in page
    assert "| v3:8x8 | 8x16 | gspmd | 1.00 s | 70 s | 100 kB | 1000 kB | 1 kB | 0 kB |" in page
