"""The benchmark counts what programs send correctly, and runs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gspmd

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
WIDTH = 1024


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("traffic")


@pytest.mark.parametrize(
    ("line", "kind", "sent"),
    [
        ("f32[16,128]{1,0} all-gather(%a), replica_groups=[4,2]<=[8], dimensions={0}", "all_gather", 4096),
        ("f32[16]{0} all-reduce(%a), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add", "all_reduce", 96),
        ("f32[4]{0} reduce-scatter(%a), replica_groups=[2,4]<=[8], dimensions={0}", "reduce_scatter", 48),
        ("pred[7]{0} collective-permute(%a), source_target_pairs={{0,1},{1,0}}", "collective_permute", 7),
        (
            (
                "bf16[8,2]{1,0} all-to-all(%a), channel_id=1, replica_groups=mesh['i'=4,'j'=1,'k'=2], "
                "device_ids=([2,2,2]T(2,1,0)) {'i':(2)2,'k'}, dimensions={0}"
            ),
            "all_to_all",
            24,
        ),
        ("(f32[2]{0}, u8[4]{0}) all-reduce(%a, %b), replica_groups=[1,2]<=[2], to_apply=%add", "all_reduce", 12),
    ],
)
def test_bytes_of_a_collective_in_hlo(traffic: Any, line: str, kind: str, sent: float) -> None:
    (found,) = traffic.of_hlo(f"ENTRY %main (a: f32[]) -> f32[] {{\n  ROOT %collective.1 = {line}\n")
    assert (found.kind, found.bytes, found.sliced_bytes) == (kind, sent, sent)


def test_hlo_all_reduce_that_is_only_sliced_counts_as_reduce_scatter(traffic: Any) -> None:
    head = "ENTRY %main (a: f32[8], i: s32[]) -> f32[8] {\n"
    reduce = head + "  %sum = f32[8]{0} all-reduce(%a), replica_groups=[1,4]<=[4], to_apply=%add\n"
    first = "  %first = f32[2]{0} dynamic-slice(%sum, %i), dynamic_slice_sizes={2}\n"
    other = "  %other = f32[8]{0} negate(%sum)\n"
    (sliced,) = traffic.of_hlo(reduce + first)
    (used,) = traffic.of_hlo(reduce + first + other)
    assert (sliced.bytes, sliced.sliced_bytes) == (48, 24)
    assert (used.bytes, used.sliced_bytes) == (48, 48)


@pytest.mark.parametrize("devices", [4, 4096])
def test_bytes_in_stablehlo_are_those_that_the_compiler_reports(traffic: Any, devices: int) -> None:
    """Replica groups are listed on small meshes and named by axes on large ones."""
    text = f"""
    sdy.mesh @mesh = <["x"={devices // 2}, "y"=2]>
    func.func @main(%a: tensor<{WIDTH}x{4 * devices}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x", "y"}}]>}},
                    %b: tensor<{4 * devices}x{WIDTH}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x", "y"}}, {{}}]>}})
        -> (tensor<{WIDTH}x{WIDTH}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) {{
      %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<{WIDTH}x{4 * devices}xf32>, tensor<{4 * devices}x{WIDTH}xf32>) -> tensor<{WIDTH}x{WIDTH}xf32>
      return %c : tensor<{WIDTH}x{WIDTH}xf32>
    }}
    """
    partitioned = gspmd.partition(text)
    found = traffic.of_stablehlo(partitioned.module)
    assert found
    assert [(each.kind, round(each.bytes)) for each in found] == [
        (each.kind, each.bytes) for each in partitioned.collectives
    ]


def test_quick_run_measures_every_partitioner(tmp_path: Path) -> None:
    path, page = tmp_path / "result.json", tmp_path / "page.md"
    files = ["--json", str(path), "--markdown", str(page)]
    command = [sys.executable, str(BENCHMARKS / "partitioner.py"), "--quick", *files]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert finished.returncode == 0, finished.stderr
    assert "ratio to the fastest peer" in finished.stdout
    (case,) = json.loads(path.read_text())["cases"]
    assert case["mesh"] == {"x": 4, "y": 2}
    assert list(case["partitioners"]) == ["gspmd", "gspmd fast", "shardy", "XLA GSPMD", "XLA Shardy"]
    assert page.read_text().count("| 4 x 2 |") == 2, "times and bytes"
    for name, measured in case["partitioners"].items():
        assert {stage["phase"] for stage in measured["stages"]} >= {"propagate", "partition"}, name
        assert all(seconds > 0 for stage in measured["stages"] for seconds in stage["seconds"]), name
        assert measured["collectives"]["all_gather"]["bytes"] > 0, name


def test_device_counts_that_have_no_mesh_are_refused() -> None:
    command = [sys.executable, str(BENCHMARKS / "partitioner.py"), "--devices", "12"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert "expected powers of two from 2 to 4096, got 12" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_operations_are_compared_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    command = [
        sys.executable,
        str(BENCHMARKS / "operations.py"),
        "--only",
        "rows of the weights",
        "--output",
        str(path),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    (line,) = [line for line in path.read_text().splitlines() if line.startswith("| contraction")]
    assert line.endswith("| 3.67 MB | 3.67 MB | 3.67 MB | 3.67 MB |")
