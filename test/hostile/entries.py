"""What a worker does: one case after another, in a folder of its own, with everything that is printed kept."""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import io
import json
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

import places
from case import Case
from nursery import Nursery

_KEPT = 20_000  # characters of a stream
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
    from gspmd.tools import cli, opt  # noqa: F401 - so that no case waits for it

    subprocess.run = Nursery().run


def performed(case: Case, root: str) -> Outcome:
    """Run a case in this process. What it writes to file descriptor 2 goes to the log of the worker, and stays there."""
    folder = Path(_own.setdefault("folder", tempfile.mkdtemp(dir=root)))
    place: places.Place | None = None
    before_environment = dict(os.environ)
    try:
        os.chdir(folder)
        place, release = prepared(case)
        before = places.state(folder)
        os.environ.update(case.environment)
        with _streams(case) as output:
            started = time.perf_counter()
            status, error, is_ours, frames = _entered(case)
            seconds = time.perf_counter() - started
        release()
        os.chdir(folder)
        after = places.state(folder)
        complaint = "" if "." in case.command else places.complaint(case.place, status == 0, before, after)
        return Outcome(status, output[0], output[1], error, is_ours, frames, complaint, "", seconds)
    finally:
        if place:
            place.close()
        os.chdir(root)
        os.environ.clear()
        os.environ.update(before_environment)
        _empty(folder)


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
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", 0, closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True)  # noqa: SIM115
    output = ["", ""]
    try:
        yield output
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
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


# ---- calls of the API ----


def _source(case: Case) -> Any:
    """The program in the form that the case asks for."""
    name, data = next(iter(case.files))
    form = case.words[0]
    if form == "path":
        return Path(name)
    return data if form == "bytes" else data.decode("utf-8", "surrogateescape")


def _keywords(case: Case) -> dict[str, Any]:
    return dict(json.loads(case.words[1]))


def _partition(case: Case) -> None:
    import gspmd

    found = gspmd.partition(_source(case), **_keywords(case))
    _look_at(found)


def _look_at(found: Any) -> None:
    """Everything that a partitioned program can be asked."""
    str(found), found.module_text, found.mesh, found.num_partitions, found.collectives  # noqa: B018
    for sharding in (*found.in_shardings, *found.out_shardings):
        sharding.sdy, sharding.mhlo  # noqa: B018


def _propagate(case: Case) -> None:
    import gspmd

    str(gspmd.propagate(_source(case), **_keywords(case)))


def _explain(case: Case) -> None:
    import gspmd

    found = gspmd.explain(_source(case), **_keywords(case))
    json.dumps(found.to_dict())
    str(found)


def _cost(case: Case) -> None:
    import gspmd

    str(gspmd.cost(_source(case), **_keywords(case)))


def _check(case: Case) -> None:
    import gspmd

    report = gspmd.check(_source(case), **_keywords(case))
    json.dumps(report.to_dict())
    assert report.passed, "the partitioned program computes something else"


def _run(case: Case) -> None:
    import gspmd
    from gspmd.inputs import random_inputs

    executable = gspmd.compile(gspmd.partition(_source(case)))
    for result in executable(*random_inputs(executable.signature.inputs)):
        result.to_numpy()


def _compile(case: Case) -> None:
    import gspmd

    compiled = gspmd.compile_for(_source(case), "cpu", **_keywords(case))
    compiled.hlo_text  # noqa: B018
    compiled.save("c")
    gspmd.load_compiled("c")


def _load(case: Case) -> None:
    import gspmd

    gspmd.load_compiled("c")


def _passes(case: Case) -> None:
    import gspmd
    from gspmd.transforms.support.mlir import new_context, parse_module

    manager = gspmd.PassManager.parse(_keywords(case).get("passes", "builtin.module(gspmd-partition,cse)"))
    str(manager)
    source = _source(case)
    if isinstance(source, Path):
        source = source.read_bytes()
    module = parse_module(source, new_context())
    manager.run(module)
    str(module)


def _mesh(case: Case) -> None:
    import gspmd

    shapes, names = json.loads(case.words[0])
    gspmd.make_mesh(shapes, names)


def _program(case: Case) -> None:
    import gspmd

    function, source = case.words[0], json.loads(case.words[1])
    getattr(gspmd, function)(source, *(("cpu",) if function == "compile_for" else ()))


def _notation(case: Case) -> None:
    from gspmd.dialect import hlo_notation, notation, rule_notation
    from gspmd.dialect.mesh import Mesh

    text = case.files[0][1].decode("utf-8", "surrogatepass")
    mesh = Mesh((("x", 4), ("y", 2)))
    kind = case.words[0]
    if kind == "hlo_sharding":
        hlo_notation.print_hlo_sharding(hlo_notation.parse_hlo_sharding(text))
    elif kind == "sdy_sharding":
        notation.print_sharding(notation.parse_sharding(text, {"mesh": mesh}))
    elif kind == "mesh":
        notation.print_mesh(notation.parse_mesh(text))
    elif kind == "axes":
        notation.print_axes(notation.parse_axes(text, mesh), mesh)
    else:
        rule_notation.parse_rule(text, [(8, 8)], [(8, 8)])


CALLS: dict[str, Callable[[Case], None]] = {
    "api.partition": _partition,
    "api.propagate": _propagate,
    "api.explain": _explain,
    "api.cost": _cost,
    "api.check": _check,
    "api.run": _run,
    "api.compile": _compile,
    "api.load": _load,
    "api.passes": _passes,
    "api.mesh": _mesh,
    "api.program": _program,
    "api.notation": _notation,
}
