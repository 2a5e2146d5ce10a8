"""`gspmd cost`, and the budgets it reads and writes."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gspmd
from gspmd.text_report import time_text
from gspmd.tools import cli

PROGRAM = """module @product {
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                       %b: tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %0 : tensor<1024x1024xf32>
}
}"""
GATHERED = 3 * 256 * 512 * 4
PEAK = (256 * 1024 + 256 * 512 + 1024 * 512 + 256 * 512) * 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PROGRAM)
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(["cost", *arguments])


@pytest.mark.usefixtures("folder")
def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir", "--target", "tpu-v5p", "--top", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "product on x=4, y=2 (8 devices), target tpu-v5p"
    assert lines[2].startswith("step time: ")
    assert lines[2].endswith("bound by communication")
    text = "\n".join(lines)
    assert "  sent / lower bound: 1.5 MiB / 512.0 KiB = 3.00; the bound allows recomputation" in lines
    assert "all devices together compute 1.00 times as much" in text
    assert "     1  1.5 MiB  10.7 us  p.mlir:6  all_gather  x     operand 1 of 'dot_general' is needed as" in text
    assert "peak memory per device: 4.0 MiB of 95.0 GiB (0.0%)" in text
    assert "  2.0 MiB  temporary  f32[1024,512]  all_gather  p.mlir:6  replicated over x" in text
    assert lines[-1] == "  ... and 2 more of 1.0 MiB"
    assert max(map(len, lines)) < 120


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("folder")
def test_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = read_json(capsys, "p.mlir", "--target", "tpu-v5p")
    assert found["mesh"] == {"x": 4, "y": 2}
    assert found["flops"] == {"per_device": 2**28, "by_kind": {"dot": 2**28}, "model": 2**31, "ratio": 1.0}
    assert found["communication"]["bytes_by_kind"] == {"all_gather": GATHERED}
    (gather,) = found["communication"]["collectives"]
    assert gather["time_s"] == pytest.approx(2 * 1e-6 + GATHERED / 180e9)
    assert gather["location"].endswith("p.mlir:6:8")
    assert found["time"]["compute_s"] == pytest.approx(2**28 / 459e12)
    parts = [found["time"][part] for part in ("compute_s", "memory_traffic_s", "communication_s")]
    assert (found["time"]["lower_bound_s"], found["time"]["upper_bound_s"]) == (max(parts), sum(parts))
    assert found["memory"]["peak"] == PEAK
    assert {held["type"] for held in found["memory"]["at_peak"]} == {"f32[1024,512]", "f32[256,1024]", "f32[256,512]"}
    # The product reads both sides whole and writes its result; the gather reads and writes what it gathers.
    assert found["traffic_bytes"] == PEAK - 256 * 512 * 4 + (256 * 512 + 1024 * 512) * 4


@pytest.mark.usefixtures("folder")
def test_a_partitioned_module_costs_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["partition", "p.mlir", "-o", "q.mlir"]) == 0
    whole = read_json(capsys, "p.mlir")
    part = read_json(capsys, "q.mlir", "--original", "p.mlir")
    alone = read_json(capsys, "q.mlir")
    for found in (whole, part, alone):
        for each in (*found["communication"]["collectives"], *found["memory"]["at_peak"]):
            del each["location"]
    assert part == whole
    assert alone["flops"]["model"] is None
    assert alone["communication"].pop("least_bytes") is None
    assert whole["communication"].pop("least_bytes") == GATHERED // 3
    assert {**alone, "flops": whole["flops"]} == whole


def test_from_python() -> None:
    partitioned = gspmd.partition(PROGRAM)
    report = gspmd.cost(partitioned, target="h100")
    assert (report.target, report.model_flops, report.sent_bytes) == ("h100", None, GATHERED)
    assert report.bound_by == "communication"
    assert gspmd.cost(PROGRAM).model_flops == 2**31
    assert gspmd.cost(partitioned, original=PROGRAM).flops_ratio == 1


def test_what_does_not_fit_is_noted(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text('like = "tpu-v5e"\nmemory.bytes = 1e6\n')
    report = gspmd.cost(PROGRAM, target=str(tmp_path / "small.toml"))
    (note,) = report.notes
    assert note.startswith("a device of the target has only 1000000 bytes; the program needs more: gspmd suggest")


def test_times_are_told_in_units() -> None:
    assert [time_text(s) for s in (0, 2e-9, 1.5e-6, 2e-3, 3.0)] == ["0", "2.0 ns", "1.5 us", "2.0 ms", "3.0 s"]


# ---- budgets ----


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["budget.json", "budget.toml"])
def test_a_budget_that_was_written_is_kept(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir", "--write-budget", name) == 0
    text = Path(name).read_text()
    assert (json.loads(text) if name.endswith("json") else tomllib.loads(text)) == {
        "program": "product",
        "mesh": {"x": 4, "y": 2},
        "collectives": 1,
        "sent_bytes": GATHERED,
        "bytes_by_kind": {"all_gather": GATHERED},
        "peak_memory_bytes": PEAK,
        "tolerance": 0.0,
    }
    capsys.readouterr()
    assert run("p.mlir", "--budget", name) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("folder")
def test_what_exceeds_a_budget_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    limits = {
        "collectives": 0,
        "sent_bytes": GATHERED // 2,
        "bytes_by_kind": {"all_reduce": 5},
        "peak_memory_bytes": PEAK,
    }
    Path("budget.json").write_text(json.dumps(limits))
    sent = "gspmd: over budget: bytes sent: 1.5 MiB (1572864 bytes)"
    assert run("p.mlir", "--budget", "budget.json") == 3
    assert capsys.readouterr().err.splitlines() == [
        "gspmd: over budget: collectives: 1, the budget has none",
        f"{sent}, 100.0% above the budget of 768.0 KiB (786432 bytes)",
        "gspmd: over budget: bytes sent by all_gather: 1.5 MiB (1572864 bytes), the budget has none",
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("tolerance", "status"), [("0.24", 3), ("0.26", 0)])
def test_tolerance_is_a_part_of_the_limit(tolerance: str, status: int) -> None:
    Path("budget.toml").write_text(f"sent_bytes = {GATHERED * 4 // 5}\ntolerance = {tolerance}\n")
    assert run("p.mlir", "--budget", "budget.toml") == status
    assert run("p.mlir", "--budget", "budget.toml", "--tolerance", "0.3") == 0
    assert run("p.mlir", "--budget", "budget.toml", "--tolerance", "0") == 3


# ---- refusals ----


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"program": "other"}', "the budget in 'b.json' is for program 'other', not 'product'; name that program's"),
        ('{"mesh": {"x": 8}}', "the budget in 'b.json' is for mesh x=8, not x=4, y=2"),
        ("{", "'b.json' is not a budget: expecting property name"),
        ("[]", "'b.json' is not a budget: expected an object with limits"),
        ('{"bytes": 3}', "budget 'b.json' has an unknown key 'bytes'; known are program, mesh, collectives"),
        ('{"sent_bytes": -3}', "budget 'b.json' has 'sent_bytes' = -3; expected a number of at least 0"),
        ('{"bytes_by_kind": 3}', "budget 'b.json' has 'bytes_by_kind' = 3; expected numbers by kind of collective"),
        ('{"tolerance": "much"}', "budget 'b.json' has 'tolerance' = \"much\"; expected a fraction such as 0.05"),
        ("\x00\xff", "'b.json' is not a budget"),
    ],
)
def test_a_budget_that_is_none_for_this_program(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.json").write_bytes(text.encode("latin-1"))
    assert run("p.mlir", "--budget", "b.json") == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["none.mlir"], 1, "cannot read 'none.mlir': no such file or directory"),
        (["p.mlir", "--budget", "none.json"], 1, "cannot read 'none.json': no such file or directory; write it with"),
        (["p.mlir", "--budget", "."], 1, "cannot read '.': is a directory"),
        (["p.mlir", "--write-budget", "no/where.json"], 1, "cannot write 'no/where.json'"),
        (["p.mlir", "--target", "tpu"], 2, "unknown target 'tpu'; did you mean 'tpu7x'? known are neutral, tpu-v3"),
        (["p.mlir", "--target", "none.toml"], 1, "cannot read 'none.toml'"),
        (["p.mlir", "--top", "0"], 2, "0 is not a positive number"),
        (["p.mlir", "--tolerance", "0.1"], 2, "--tolerance without a budget; give --budget or --write-budget"),
        (["p.mlir", "--original", "p.mlir"], 2, "'p.mlir' is not partitioned; leave --original out"),
        (["p.mlir", "--strict=lots"], 2, "'lots' is not a number of bytes such as 4096 or 64KiB"),
        (["p.mlir", "--num-partitions", "3"], 1, "error: "),
        (["--strict", "p.mlir"], 1, "strict mode allows no reshard, the program has 1"),
        (["--strict=1MiB", "p.mlir"], 1, "strict mode allows no reshard that sends more than 1048576 bytes"),
        (["--strict=1.5MiB", "p.mlir"], 0, ""),
    ],
)
def test_refusals(arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == status
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not os.path.exists("no")


@pytest.mark.usefixtures("folder")
def test_strict_has_nothing_to_say_of_what_is_partitioned(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["partition", "p.mlir", "-o", "q.mlir"]) == 0
    for command in ("cost", "run"):
        assert cli.main([command, "q.mlir", "--strict"]) == 2
        assert "--strict with a module that is already partitioned" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_topology_has_the_axes_where_the_program_talks_least(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir", "--target", "tpu:v5p:2x1x4") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == [
        "axes on the machine:",
        "  x  4  Z (4 of 4 chips)  ring",
        "  y  2  X (2 of 2 chips)",
    ]
    found = read_json(capsys, "p.mlir", "--target", "tpu:v5p:2x1x4")
    assert found["axes"] == {"x": "Z (4 of 4 chips)", "y": "X (2 of 2 chips)"}
    (gather,) = found["communication"]["collectives"]
    assert gather["time_s"] == pytest.approx(2 * 1e-6 + GATHERED / 180e9)
    assert read_json(capsys, "p.mlir", "--target", "tpu-v5p")["axes"] is None


@pytest.mark.usefixtures("folder")
def test_topologies_that_the_mesh_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir", "--target", "tpu:v5e:2x2") == 2
    assert "a mesh of 8 devices does not fit a topology of 2x2 with 4 devices" in capsys.readouterr().err
