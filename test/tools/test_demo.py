"""gspmd demo: what it prints, what it returns, and how it refuses."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.simple_code import users_environment

import gspmd


def demo(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gspmd.tools.cli", "demo", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=users_environment(),
    )


def test_a_model_trains_as_on_one_device(tmp_path: Path) -> None:
    done = demo("mlp", "--steps", "3", "--recipe", "tp", "--set", "batch=256", "-o", str(tmp_path / "step.mlir"))
    assert done.returncode == 0, done.stderr
    assert "tensor parallelism" in done.stdout
    assert "all_reduce" in done.stdout
    assert "loss  on one device" in done.stdout
    assert "PASS: 3 steps agree with one device" in done.stdout
    assert "gspmd.mesh" in (tmp_path / "step.mlir").read_text()


def test_the_program_is_saved_as_the_other_commands_read_it(tmp_path: Path) -> None:
    program = tmp_path / "step.mlir"
    done = demo("mlp", "--steps", "1", "--save-program", str(program))
    assert done.returncode == 0, done.stderr
    assert gspmd.partition(program).signature.mesh.size == 8
    assert "mlp.py" in program.read_text()


def test_lines_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = demo("mlp", "--steps", "1")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_the_first_impression(tmp_path: Path) -> None:
    """Lines and tables fit 80 columns as they are, paths are short, and what comes next is said."""
    done = demo("--steps", "1", "--save-program", "step.mlir", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"at {os.path.join('gspmd', 'examples', 'decoder_lm.py')}:" in done.stdout
    assert "  and 16 rows like those of the arguments" in lines
    gathers = [line for line in lines if "  all_gather over " in line]
    assert len(set(gathers)) == len(gathers) > 1
    assert lines[-4] == "next:"
    assert [line.split("#")[0].split() for line in lines[-3:]] == [
        ["gspmd", "explain", "step.mlir", "--conflicts"],
        ["gspmd", "cost", "step.mlir", "--target", "tpu-v5p"],
        ["gspmd", "report", "step.mlir", "-o", "report.html"],
    ]


def test_what_comes_next_begins_with_saving_the_program() -> None:
    done = demo("mlp", "--steps", "1", "--color", "always")
    assert "\x1b[1;32mPASS: 1 steps agree with one device" in done.stdout
    assert "  gspmd demo mlp --save-program step.mlir " in done.stdout


def test_the_mesh_may_have_other_sizes() -> None:
    done = demo("mlp", "--steps", "1", "--mesh", "x=2,y=3")
    assert done.returncode == 0, done.stderr
    assert "x=2, y=3 (6 devices)" in done.stdout


def test_all_recipes_of_a_model_in_turn() -> None:
    done = demo("mlp", "--steps", "1", "--recipe", "all")
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        f"PASS: mlp ({recipe})" for recipe in ("dp", "tp", "fsdp")
    ]


def test_examples_and_recipes_are_listed() -> None:
    done = demo("--list")
    assert done.returncode == 0, done.stderr
    assert "mlp: A two-layer perceptron" in done.stdout
    assert "  * 2d " in done.stdout
    assert "common" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "there is no example 'nothing'; choose one of"),
        (["mlp", "--recipe", "x"], "the example has no recipe 'x'; it has dp, tp, fsdp"),
        (["mlp", "--set", "layers=2"], "the example has no setting 'layers'; it has"),
        (["mlp", "--set", "batch=many"], "'many' is not a value for 'batch'; expected: a number of at least 1"),
        (["mlp", "--mesh", "x=8"], "--mesh has axes x, recipe 'fsdp' has x, y; give each of these a size"),
        (["mlp", "--mesh", "x"], "--mesh is 'x'; write it as x=4,y=2"),
        (["mlp", "--steps", "0"], "--steps is 0"),
        (["mlp", "--set", "recipe=q"], "the example has no recipe 'q'"),
    ],
)
def test_refusals(words: list[str], message: str) -> None:
    done = demo(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_curves_are_drawn(tmp_path: Path) -> None:
    done = demo("mlp", "--steps", "2", "--plot", str(tmp_path / "loss.svg"))
    assert done.returncode == 0, done.stderr
    assert "partitioned" in (tmp_path / "loss.svg").read_text()
    refused = demo("mlp", "--plot", str(tmp_path / "loss.xyz"))
    assert refused.returncode == 2
    assert "cannot draw into" in refused.stderr


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is installed")
def test_without_matplotlib_the_error_says_what_to_install() -> None:
    done = demo("mlp", "--plot", "loss.svg")
    assert done.returncode == 2
    assert "--plot needs matplotlib; pip install 'gspmd[plot]'" in done.stderr
