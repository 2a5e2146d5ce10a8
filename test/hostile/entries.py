"""What a worker does: one case after another, in a folder of its own, with everything that is printed kept."""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import gc
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import consoles, places
from hostile.calls import CALLS
from hostile.case import Case
from hostile.nursery import Nursery

_KEPT = 20_000  # characters of a stream
_PATIENCE_S = 120.0  # with a process of its own
_own: dict[str, Any] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended.

    `status` is the exit code, minus the number of a signal, or None where the case was given up; `ended` says why then.
    `error` is what a call raised, `is_ours` whether as a `gspmd.Error`, `frames` where. `complaint` is of the output.
    """

    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    is_ours: bool = True
    frames: str = ""
    complaint: str = ""
    ended: str = ""
    seconds: float = 0.0


def set_up() -> None:
    """Make the process ready: a stream for stdout, places of signals, and the modules that are slow to import."""
    faulthandler.enable(file=2, all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
    _own["stdout"] = os.memfd_create("stdout")
    _own["stderr"] = os.dup(2)
    os.environ["JAX_NUM_CPU_DEVICES"] = "8"  # of the worker, whatever its first case asks for
    import jax  # noqa: F401 - reads its environment once

    from gspmd.tools import cli, opt  # noqa: F401 - so that no case waits for it

    del os.environ["JAX_NUM_CPU_DEVICES"]

    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    subprocess.run = Nursery().run
    gc.freeze()


def _end_with_parent(parent: int) -> None:
    """A case that never ends should not outlive whoever watches it."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


def performed(case: Case, root: str) -> Outcome:
    """Run a case in this process, or from it in another. What is written to stderr stays in the worker's log."""
    folder = _own.get("folder") or Path(tempfile.mkdtemp(dir=root))
    _own["folder"] = folder
    place: places.Place | None = None
    before_environment = dict(os.environ)
    try:
        os.chdir(folder)
        place, release = prepared(case)
        before = places.state(folder)
        outcome = _apart(case, folder) if case.terminal else _here(case)
        release()
        os.chdir(folder)
        if "." in case.command:
            return outcome
        complaint = places.complaint(case.place, outcome.status == 0, before, places.state(folder))
        return dataclasses.replace(outcome, complaint=complaint)
    finally:
        if place:
            place.close()
        os.chdir(root)
        os.environ.clear()
        os.environ.update(before_environment)
        _empty(folder)


def _here(case: Case) -> Outcome:
    os.environ.update(case.environment)
    with _streams(case) as output:
        started = time.perf_counter()
        status, error, is_ours, frames = _entered(case)
        seconds = time.perf_counter() - started
    return Outcome(status, output[0], output[1], error, is_ours, frames, seconds=seconds)


def _apart(case: Case, folder: Path) -> Outcome:
    done = consoles.run(case, folder, _PATIENCE_S)
    texts = (stream[:_KEPT].decode(errors="backslashreplace") for stream in (done.stdout, done.stderr))
    return Outcome(done.status, *texts, seconds=done.seconds)


def _empty(folder: Path) -> None:
    """Remove all that is in a folder; the folder itself stays, as making one is slow in some file systems."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o755)
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def prepared(case: Case) -> tuple[places.Place, Callable[[], None]]:
    """Make the files of a case in the current folder, what is at its output, and what its input is instead.

    The second value ends what still waits for a reader.
    """
    release: Callable[[], None] = lambda: None  # noqa: E731
    place = places.prepare(case.place) if case.place else places.Place()
    for index, (name, data) in enumerate(case.files):
        if index == 0 and case.inlet:
            release = _inlet(case.inlet, name, data)
        else:
            Path(name).write_bytes(data)
    return place, release


def _inlet(kind: str, name: str, data: bytes) -> Callable[[], None]:
    if kind == "a directory":
        os.mkdir(name)
    elif kind == "a null device":
        os.mknod(name, 0o020666, os.makedev(1, 3))
    elif kind == "a link to itself":
        os.symlink(name, name)
    elif kind == places.HELD_FIFO:
        os.mkfifo(name)
    elif kind == "a fifo":
        os.mkfifo(name)
        path = os.path.abspath(name)
        writer = threading.Thread(target=_feed, args=(path, data), daemon=True)
        writer.start()

        def release() -> None:
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            writer.join(1)

        return release
    return lambda: None


def _feed(path: str, data: bytes) -> None:
    with contextlib.suppress(OSError), open(path, "wb") as fifo:
        fifo.write(data)


@contextlib.contextmanager
def _streams(case: Case) -> Iterator[list[str]]:
    """New standard streams; the list gets what was written to stdout and stderr."""
    os.ftruncate(_own["stdout"], 0)
    os.lseek(_own["stdout"], 0, os.SEEK_SET)
    os.dup2(_own["stdout"], 1)
    os.dup2(_own["stderr"], 2)
    log_start = os.lseek(2, 0, os.SEEK_END)
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin))
    out, err = io.FileIO(1, "wb", closefd=False), io.FileIO(2, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(out), encoding="utf-8", errors="surrogateescape")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(err), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    output = ["", ""]
    try:
        yield output
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        sys.stdin, sys.stdout, sys.stderr = before
        os.dup2(_own["stderr"], 2)
        output[0] = os.pread(_own["stdout"], _KEPT, 0).decode(errors="backslashreplace")
        with open(f"/proc/self/fd/{_own['stderr']}", "rb") as log:
            log.seek(log_start)
            output[1] = log.read(_KEPT).decode(errors="backslashreplace")


def _entered(case: Case) -> tuple[int, str, bool, str]:
    """The exit code, and what came out of the call as an exception."""
    from gspmd.dialect.errors import Error, ErrorKind

    try:
        if "." in case.command:
            CALLS[case.command](case)
            return 0, "", True, ""
        return _command(case), "", True, ""
    except Error as error:
        text = f"{type(error).__name__}: {error}"
        if "." not in case.command or error.kind is ErrorKind.INTERNAL:
            return 70, text, False, _frames(error)
        return {ErrorKind.USAGE: 2}.get(error.kind, 1), text, True, ""
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        if isinstance(error, SystemExit) and "." not in case.command and isinstance(error.code, int | None):
            return error.code or 0, "", True, ""
        return 70, f"{type(error).__name__}: {error}", False, _frames(error)


def _frames(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-6000:]


def _command(case: Case) -> int:
    from gspmd.tools import cli, opt

    if case.command == "opt":
        return opt.main(list(case.words))
    return cli.main([case.command, *case.words])
