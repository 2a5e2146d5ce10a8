"""Wrong files, options, devices and inputs: one line that says what to do, and the documented exit status."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import gspmd
from gspmd.runtime import executable as runtime
from gspmd.tools import cli, opt

GOOD = """sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""
USAGE, FAILURE = 2, 1


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.mlir"
    path.write_text(GOOD)
    return str(path)


def one_line(capfd: pytest.CaptureFixture[str]) -> str:
    text = capfd.readouterr().err
    assert text.count("\n") == 1, text
    assert text.endswith("\n")
    assert "Traceback" not in text
    return text[:-1]


# ---- files and options ----


@pytest.mark.parametrize("command", ["check", "run", "partition", "explain", "cost"])
def test_a_file_that_is_not_there(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.mlir"
    assert cli.main([command, str(path)]) == FAILURE
    assert one_line(capfd) == (
        f"gspmd: error: cannot read '{path}': no such file or directory; give a .mlir file, or - for stdin"
    )


@pytest.mark.parametrize("command", ["check", "run", "partition", "explain", "cost"])
@pytest.mark.parametrize("data", [b"\xff\xfe\x00\x01 no program", b"\x7fELF\x02\x01\x01\x00"])
def test_bytes_that_are_no_program(
    command: str, data: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bytes.mlir"
    path.write_bytes(data)
    assert cli.main([command, str(path)]) == FAILURE
    assert one_line(capfd).startswith(f"gspmd: error: '{path}' is in no format that gspmd reads; give MLIR text")


@pytest.mark.parametrize("command", ["check", "run", "partition"])
def test_bytecode_that_ends_too_early(
    command: str, good: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.mlirbc"
    assert opt.main(["--emit-bytecode", good, "-o", str(path)]) == 0
    path.write_bytes(path.read_bytes()[:40])
    assert cli.main([command, str(path)]) == FAILURE
    assert one_line(capfd).startswith(f"{path}: error: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "{good}", "--num-partitions", "0"], "argument --num-partitions: 0 is not a positive number"),
        (["run", "{good}", "--repeat", "0"], "argument --repeat: 0 is not a positive number"),
        (["run", "{good}", "--repeat", "many"], "argument --repeat: invalid positive value: 'many'"),
        (["run", "{good}", "--seed", "-1"], "--seed is -1, expected at least 0"),
        (["run", "{good}", "--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["run"], "the following arguments are required: FILE"),
        (["check", "{good}", "--rtol", "-1"], "argument --rtol: -1 is not a finite number of at least 0"),
        (["check", "{good}", "--atol", "nan"], "argument --atol: nan is not a finite number of at least 0"),
        (["check", "{good}", "--against", "{good}"], "'{good}' is not partitioned; leave --against out"),
        (["frobnicate"], "unknown command 'frobnicate'"),
    ],
)
def test_wrong_usage(arguments: list[str], expected: str, good: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([a.format(good=good) for a in arguments]) == USAGE
    assert one_line(capfd).startswith(f"gspmd: error: {expected.format(good=good)}")


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--gspmd-propgate", "unknown option or pass '--gspmd-propgate'; did you mean '--gspmd-propagate'"),
        ("--gspmd-localize=groups=3", "pass 'gspmd-localize' has no option 'groups'; "),
        (
            "--gspmd-localize=list-groups-up-to=few",
            "option 'list-groups-up-to' of pass 'gspmd-localize' has value 'few'; ",
        ),
        ("--pass-pipeline=builtin.module(gspmd-ingest", "in 'builtin.module(gspmd-ingest', column 28: expected"),
    ],
)
def test_wrong_passes(flag: str, expected: str, good: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert opt.main([flag, good]) == USAGE
    assert one_line(capfd).startswith(f"gspmd-opt: error: {expected}")


def test_another_number_of_partitions_than_the_mesh_has(good: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A number that the mesh's divides is one of devices that do the same; others are refused."""
    assert cli.main(["run", good, "--num-partitions", "6"]) == FAILURE
    line = one_line(capfd)
    assert line.startswith(f"{good}:")
    assert "error: 'func.func' op uses a mesh of 4 devices in a program of 6; use all devices, or a number of" in line
    assert cli.main(["run", good, "--num-partitions", "8"]) == 0
    capfd.readouterr()


def test_a_stage_on_what_is_not_ready_for_it(good: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = Path(good)
    path.write_text(GOOD.split("\n", 1)[1].replace('{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}', ""))
    assert opt.main(["--gspmd-propagate", good]) == FAILURE
    assert one_line(capfd) == f"{good}: error: expected one mesh but the module has 0; run gspmd-ingest first"


# ---- devices ----


def test_fewer_devices_than_partitions() -> None:
    with pytest.raises(gspmd.Error) as caught:
        runtime.compile(gspmd.partition(GOOD), jax.devices()[:2])
    assert "4" in str(caught.value)
    assert "2" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.kind is gspmd.ErrorKind.RUNTIME
    assert caught.value.hint


def test_a_platform_without_devices(good: str) -> None:
    command = [sys.executable, "-P", "-m", "gspmd.tools.cli", "run", good, "--platform", "tpu"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == FAILURE
    assert finished.stderr.startswith("gspmd: error: no tpu devices: ")
    assert finished.stderr.count("\n") == 1


# ---- inputs ----

INPUTS = {
    "a wrong shape": (
        {"0": np.zeros(7, np.float32)},
        "argument 0 has shape (7,), expected the global shape (8,); ",
        False,
    ),
    "a part": ({"0": np.zeros(2, np.float32)}, "argument 0 has shape (2,), expected the global shape (8,); ", False),
    "a wrong dtype": ({"0": np.zeros(8, np.int32)}, "argument 0 has dtype int32, expected float32; ", False),
    "none": ({}, "'{path}' has no array for argument 0: f32[8]; it has none; call it '0'", True),
    "another name": ({"b": np.zeros(8)}, "'{path}' has no array for argument 0: f32[8]; it has b; call it '0'", True),
    "too many": (
        {"0": np.zeros(8, np.float32), "1": np.zeros(8)},
        "'{path}' has arrays that are not arguments: 1; the program has 1 arguments, called 0, 1, ...",
        True,
    ),
}


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_do_not_fit(
    command: str, name: str, good: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arrays, expected, is_usage = INPUTS[name]
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)
    assert cli.main([command, good, "--inputs", str(path)]) == (USAGE if is_usage else FAILURE)
    assert one_line(capfd).startswith(f"gspmd: error: {expected.format(path=path)}")


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("content", [b"", b"hi", None])
def test_inputs_that_are_no_archive(
    command: str, content: bytes | None, good: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "inputs.npz"
    if content is not None:
        path.write_bytes(content)
    assert cli.main([command, good, "--inputs", str(path)]) == FAILURE
    expected = f"cannot read '{path}': no such file" if content is None else f"'{path}' is not an .npz archive: "
    assert one_line(capfd).startswith(f"gspmd: error: {expected}")


def test_results_that_cannot_be_written(good: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none" / "results.npz"
    assert cli.main(["run", good, "-o", str(path)]) == FAILURE
    assert one_line(capfd) == f"gspmd: error: cannot write '{path}': no such file or directory"


# ---- what happens to a process ----


def unread_bytes(pipe: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize("command", [["gspmd.tools.opt"], ["gspmd.tools.cli", "partition", "-"]])
def test_an_interrupt_ends_quietly(command: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    out.write_text("before")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", *command, "-o", str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(b"module")
    process.stdin.flush()
    while unread_bytes(process.stdin.fileno()):  # until it has started and waits for more
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, printed, errors) == (130, b"", b"")
    assert out.read_text() == "before"


@pytest.mark.parametrize("command", [["gspmd.tools.opt"], ["gspmd.tools.cli", "partition"], ["gspmd.tools.cli", "run"]])
def test_a_closed_stdout_is_no_defect(command: list[str], good: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", *command, good], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (finished.returncode, finished.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["gspmd.tools.opt", "gspmd.tools.cli partition", "gspmd.tools.cli explain"])
def test_a_stdout_that_never_was_is_no_failure(command: str, good: str) -> None:
    shell = f"'{sys.executable}' -P -m {command} '{good}' >&-"
    finished = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, check=False)
    assert (finished.returncode, finished.stderr) == (0, b"")


def test_a_file_written_without_stdout_has_nothing_else_in_it(good: str, tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    shell = f"'{sys.executable}' -P -m gspmd.tools.cli partition '{good}' -o '{out}' <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], check=False).returncode == 0
    assert out.read_text().startswith("module")


@pytest.mark.parametrize("command", [["gspmd.tools.opt"], ["gspmd.tools.cli", "partition"], ["gspmd.tools.cli", "run"]])
def test_a_full_disk_is_said_in_one_line(command: list[str], good: str) -> None:
    with open("/dev/full", "wb") as full:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", *command, good], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert finished.returncode == FAILURE
    assert finished.stderr.endswith(b": error: cannot write to stdout: no space left on device\n")
    assert finished.stderr.count(b"\n") == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("command", ["partition", "explain", "cost", "check", "run"])
def test_a_program_from_a_fifo(command: str, tmp_path: Path) -> None:
    """As the shell's `<(...)` gives one: what is read from it is gone."""
    fifo = tmp_path / "p.mlir"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=[GOOD], daemon=True)
    writer.start()
    assert cli.main([command, str(fifo), *(["-o", str(tmp_path / "r.npz")] if command == "run" else [])]) == 0
    writer.join(timeout=60)
    assert not writer.is_alive()
