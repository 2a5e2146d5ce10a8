"""Cases in a process of their own, as a user starts them: signals, closed and broken streams, terminals."""

from __future__ import annotations

import dataclasses
import os
import pty
import resource
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from support.simple_code import users_environment

from hostile.case import Case

KINDS = ("a process", "closed stdout", "closed stdin", "closed stderr", "broken pipe", "a full stdout", "a terminal",
         "an interrupt",
         "a folder that is gone", "a limit on files")  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """How the process ended (minus a signal's number, None where it was killed for its time), and what it printed."""

    status: int | None
    stdout: bytes
    stderr: bytes
    seconds: float


def command_of(case: Case) -> list[str]:
    """The console script beside this Python, or the module where there is none."""
    name = "gspmd-opt" if case.command == "opt" else "gspmd"
    script = Path(sys.executable).parent / name
    module = [sys.executable, "-P", "-m", "gspmd.tools.opt" if case.command == "opt" else "gspmd.tools.cli"]
    start = [str(script)] if script.exists() else module
    return [*start, *(() if case.command == "opt" else (case.command,)), *case.words]


def run(case: Case, folder: Path, limit_s: float) -> Finished:
    """Run the case in a folder that is prepared. Files are there; stdin is the case's."""
    environment = users_environment(**dict(case.environment))
    started = time.perf_counter()
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(case.stdin)
        stdin.seek(0)
        kind = case.terminal.partition(" after ")[0]
        streams = {"stdin": stdin.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        opened = _open(kind, streams, folder)
        process = subprocess.Popen(
            command_of(case), cwd=folder, env=environment, **streams,
            preexec_fn=_before(kind),  # noqa: PLW1509 - calls the system only
            start_new_session=True,
        )  # fmt: skip
        for descriptor in opened[1:]:
            os.close(descriptor)
        if kind == "an interrupt":
            _interrupt(
                process, float(case.terminal.split()[-2]), folder / "p.mlir", dict(case.files).get("p.mlir", b"")
            )
            started = time.perf_counter()
        status = _wait(process, opened[0] if kind == "a terminal" else None, limit_s, out.fileno())
        if opened:
            os.close(opened[0])
        return Finished(status, _content(out), _content(err), time.perf_counter() - started)


def _open(kind: str, streams: dict[str, int], folder: Path) -> list[int]:
    """Point streams elsewhere; descriptors to be closed: the first at the end, others once the process has them."""
    if kind == "broken pipe":
        reader, writer = os.pipe()
        os.close(reader)
        streams["stdout"] = writer
        return [writer]
    if kind == "a full stdout":
        with tempfile.TemporaryDirectory() as apart:
            path = os.path.join(apart, "full")
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            streams["stdout"] = os.open(path, os.O_WRONLY)
        return [streams["stdout"]]
    if kind == "a terminal":
        ours, theirs = pty.openpty()
        streams["stdin"] = streams["stdout"] = streams["stderr"] = theirs
        os.write(ours, b"\x04")  # Ctrl-D, for who reads what is typed
        return [ours, theirs]
    return []


def _before(kind: str) -> Callable[[], None]:
    """What the process does to itself before it begins."""

    def prepare() -> None:
        if kind.startswith("closed "):
            os.close(("stdin", "stdout", "stderr").index(kind.removeprefix("closed ")))
        elif kind == "a folder that is gone":
            gone = tempfile.mkdtemp()
            os.chdir(gone)
            os.rmdir(gone)
        elif kind == "a limit on files":
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    return prepare


def _interrupt(process: subprocess.Popen[bytes], delay_s: float, fifo: Path, data: bytes) -> None:
    """Give the program through a FIFO, so that it is known to have begun, and interrupt the process some time after."""
    deadline = time.perf_counter() + 60
    while process.poll() is None and time.perf_counter() < deadline:
        try:
            writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.02)
            continue
        os.write(writer, data)
        os.close(writer)
        break
    time.sleep(delay_s)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)


def _wait(process: subprocess.Popen[bytes], terminal: int | None, limit_s: float, out: int) -> int | None:
    """The exit status; what appears on the terminal goes to `out`."""
    deadline = time.perf_counter() + limit_s
    while True:
        ended = process.poll()
        if terminal is not None:
            while select.select([terminal], [], [], 0)[0]:
                try:
                    os.write(out, os.read(terminal, 65536))
                except OSError:  # the last process at the other end is gone
                    break
        if ended is not None:
            return ended
        if time.perf_counter() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
        time.sleep(0.02)


def _content(file: object) -> bytes:
    file.seek(0)  # type: ignore[attr-defined]
    return bytes(file.read(1 << 20))  # type: ignore[attr-defined]
