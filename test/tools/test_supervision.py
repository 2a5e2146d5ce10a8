"""A command ends as it should, whatever the process that works for it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gspmd import reproducer
from gspmd.dialect.errors import ExecutionError, InternalError
from gspmd.tools import cli, opt, supervision
from gspmd.transforms.propagate import Propagate

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")

LOCK = "ctypes.PyDLL(None).pthread_mutex_lock(mutex)"
STUCK = f"mutex = ctypes.create_string_buffer(256); {LOCK}; {LOCK}"  # in C, for ever: no handler of Python runs
SCRIPT = """
import ctypes, os, signal, sys, time
from gspmd.tools import supervision
def main():
    supervision.doing("working")
    print("began", flush=True)
    {work}
    return 7
code = supervision.supervised("prog", main)
print("ended", flush=True)
sys.exit(code)
"""
PROGRAM = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.negate %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def started(work: str, *arguments: str) -> subprocess.Popen[str]:
    """The script, once its work began."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(work=work), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "began\n"
    return process


def test_the_exit_code_is_that_of_the_command() -> None:
    process = started("time.sleep(0.5)")
    assert process.communicate(timeout=60) == ("ended\nended\n", "")  # the child, and then its parent
    assert process.returncode == 7


@pytest.mark.parametrize("work", ["time.sleep(60)", STUCK])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to_all", [True, False], ids=["terminal", "process"])
def test_signals_end_it_within_a_second(work: str, number: int, to_all: bool) -> None:
    process = started(work)
    (os.killpg if to_all and number == signal.SIGINT else os.kill)(process.pid, number)
    since_s = time.monotonic()
    process.wait(timeout=60)
    assert process.returncode == 128 + number
    assert time.monotonic() - since_s < 5  # one second, on a machine that does nothing else
    assert not alive(process.pid)


def test_an_interrupt_while_python_ends_changes_no_exit_code() -> None:
    ending = 'atexit.register(lambda: (print("ends", flush=True), time.sleep(0.5)))'
    script = f"import atexit, time; from gspmd.tools import entry; {ending}; entry._end(7)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ends\n"
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    assert process.returncode == 7


@pytest.mark.parametrize("who", ["child", "parent"])
def test_an_interrupt_before_and_after_the_wait(who: str) -> None:
    """Whichever process is interrupted when it does not wait for the other, nobody sees a traceback."""
    after = f"os.getpid() {'==' if who == 'parent' else '!='} parent and os.kill(os.getpid(), signal.SIGINT)"
    script = f"import os\nparent = os.getpid()\n{SCRIPT.format(work='pass')}".replace("sys.exit", f"{after}\nsys.exit")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def alive(session: int) -> bool:
    """Whether a process of the session is left."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def test_nothing_partial_is_left(tmp_path: Path) -> None:
    """An interrupt while a file is being written."""
    process = started(f"""
    from gspmd import output
    os.replace = lambda *_: (print("replacing", flush=True), time.sleep(60))
    output.write({str(tmp_path / "out")!r}, b"1")""")
    assert process.stdout
    assert process.stdout.readline() == "replacing\n"
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=60)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_nothing_works_on_when_the_parent_is_killed() -> None:
    process = started(STUCK)
    process.kill()
    process.wait(timeout=60)
    until = time.monotonic() + 20
    while sys.platform.startswith("linux") and alive(process.pid):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE])
def test_a_crash_is_an_internal_error(number: int) -> None:
    process = started(f"os.kill(os.getpid(), {int(number)})")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 70
    name = signal.Signals(number).name
    assert said == f"prog: internal error: jaxlib crashed with {name} while working\n"


def test_a_process_that_somebody_kills() -> None:
    process = started("os.kill(os.getpid(), signal.SIGKILL)")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 137
    assert (
        said == "prog: error: the process was killed by SIGKILL while working; the machine may have run out of memory\n"
    )


@pytest.mark.parametrize("work", ["time.sleep(60)", STUCK])
def test_a_limit_on_time(work: str) -> None:
    process = started(f"supervision.limit(0.2); {work}")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 124
    assert said == "prog: error: not finished after 0.2 s while working; use a longer --timeout or a smaller program\n"


def test_ends_are_told_in_the_form_that_was_asked_for() -> None:
    json_wanted = "supervision.shows(supervision.presentation.Form.JSON)"
    process = started(f"{json_wanted}; supervision.limit(0.2); time.sleep(60)")
    told = json.loads(process.communicate(timeout=60)[1])
    assert told["code"] == "G0607"
    assert told["message"] == "not finished after 0.2 s while working"
    process = started(f"{json_wanted}; os.kill(os.getpid(), signal.SIGSEGV)")
    told = json.loads(process.communicate(timeout=60)[1])
    assert told["code"] == "G0900"
    assert told["message"] == "jaxlib crashed with SIGSEGV while working"


def test_a_limit_on_time_in_one_process() -> None:
    before = signal.getsignal(signal.SIGALRM)
    try:
        supervision.limit(0.1)
        with pytest.raises(ExecutionError, match=r"not finished after 0\.1 s"):
            time.sleep(60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300", "", "1s"])
def test_limits_that_are_none(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "p.mlir", f"--timeout={seconds}"]) == 2
    assert opt.main([f"--timeout={seconds}", "p.mlir"]) == 2
    assert capsys.readouterr().err.count("--timeout") == 2


def many_layers(path: Path) -> None:
    """A program that XLA compiles for a long time."""
    rows = "tensor<8x64xf32>"
    split = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
    lines = ['sdy.mesh @mesh = <["x"=4]>', f"func.func public @main(%v0: {rows} {split}) -> {rows} {{"]
    for i in range(400):
        less = "%l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %l"
        lines.append(
            f'%s{i} = "stablehlo.sort"(%v{i}) ({{^bb0(%a: tensor<f32>, %b: tensor<f32>): {less} : tensor<i1>}}) '
            f"{{dimension = 1 : i64}} : ({rows}) -> {rows}\n%v{i + 1} = stablehlo.tanh %s{i} : {rows}"
        )
    path.write_text("\n".join([*lines, f"return %v400 : {rows}\n}}\n"]))


def test_an_interrupt_in_the_compiler_of_xla(tmp_path: Path) -> None:
    many_layers(tmp_path / "p.mlir")
    files = [str(tmp_path / "p.mlir"), "-o", str(tmp_path / "r.npz")]
    command = [sys.executable, "-m", "gspmd.tools.cli", "run", "-v", *files]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr
    assert any("compiling" in line for line in process.stderr)  # said after two seconds of it
    os.killpg(process.pid, signal.SIGINT)
    since_s = time.monotonic()
    process.wait(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - since_s < 5
    assert [path.name for path in tmp_path.iterdir()] == ["p.mlir"]


# ---- reproducers ----


@pytest.fixture
def reproducers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    for name, value in {"_begun": 0, "_last": 0, "_path": None}.items():
        monkeypatch.setattr(reproducer, name, value)
    return folder


@pytest.mark.parametrize("failure", [ValueError("broken"), InternalError("broken")], ids=["exception", "error"])
def test_a_pass_that_fails_can_be_run_again(
    failure: Exception,
    reproducers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM)

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(Propagate, "run", fail)
        assert cli.main(["partition", str(path), "-o", str(tmp_path / "out.mlir")]) == 70
    (made,) = reproducers.iterdir()
    assert str(made) in capsys.readouterr().err
    assert not (tmp_path / "out.mlir").exists()
    first, *_ = made.read_text().splitlines()
    pipeline = first.removeprefix("// RUN: gspmd-opt --pass-pipeline='").removesuffix("' %s")
    assert pipeline.startswith("builtin.module(gspmd-propagate")
    monkeypatch.setattr(reproducer, "_last", 0)
    assert opt.main([f"--pass-pipeline={pipeline}", str(made)]) == 0
    assert "stablehlo.negate" in capsys.readouterr().out


@pytest.mark.usefixtures("reproducers")
def test_refusals_have_no_reproducer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM.replace("stablehlo.negate", "stablehlo.get_dimension_size"))
    assert cli.main(["partition", str(path)]) == 1
    assert "reproducer" not in capsys.readouterr().err


CRASHING = """
import os, signal, sys, tempfile
from gspmd.tools import entry
from gspmd.transforms.propagate import Propagate
Propagate.run = lambda *_: os.kill(os.getpid(), signal.SIGSEGV)
tempfile.tempdir = sys.argv.pop(1)
entry.gspmd()
"""


@pytest.mark.parametrize("how", ["file", "redirected", "pipe"])
def test_a_pass_that_crashes_can_be_run_again(how: str, tmp_path: Path) -> None:
    path, folder = tmp_path / "p.mlir", tmp_path / "temporary"
    path.write_text(PROGRAM)
    folder.mkdir()
    command = [sys.executable, "-c", CRASHING, str(folder), "partition", str(path) if how == "file" else "-"]
    with path.open() as file:
        given = {"stdin": file} if how == "redirected" else {"input": PROGRAM} if how == "pipe" else {}
        finished = subprocess.run(command, capture_output=True, text=True, check=False, **given)  # type: ignore[call-overload]
    assert finished.returncode == 70
    assert "jaxlib crashed with SIGSEGV while partitioning" in finished.stderr
    made = list(folder.iterdir())
    assert len(made) == (how != "pipe")  # which cannot be read a second time
    for file in made:
        assert str(file) in finished.stderr
        assert "builtin.module(gspmd-propagate" in file.read_text()
        assert "stablehlo.negate" in file.read_text()
