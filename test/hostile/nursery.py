"""Processes that start at once: forks of one that has imported what they need.

Programs that jaxlib may not survive are read in another process. It takes half a second to start, which is most of what
a hostile case costs. In a worker these processes are forked instead, with the same arguments, input, limits and end.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_PRELOADED = ("gspmd.transforms.parsing.trial_process", "gspmd.transforms.parsing.hlo", "gspmd.transforms.parsing.mlir")
_usual_run = subprocess.run


class Nursery:
    """Stands in for `subprocess.run` where a module of ours is run."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        code = f"from hostile import nursery; nursery.serve({theirs.fileno()})"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)]),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code], pass_fds=[theirs.fileno()], env=environment
        )
        theirs.close()
        self._connection = Connection(ours.detach())

    def run(self, command: Any, **options: Any) -> Any:
        """As `subprocess.run`."""
        if (
            not isinstance(command, list)
            or command[:3] != [sys.executable, "-P", "-m"]
            or not options.get("capture_output")
        ):
            return _usual_run(command, **options)
        self._connection.send((command[3], command[4:], options.get("input") or b"", options.get("timeout") or 600.0))
        status, stdout, stderr = self._connection.recv()
        if status is None:
            raise subprocess.TimeoutExpired(command, options["timeout"], stdout, stderr)
        return subprocess.CompletedProcess(command, status, stdout, stderr)


def serve(descriptor: int) -> None:
    """Fork a process for each request, until there is nobody who asks."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    connection = Connection(descriptor)
    while True:
        try:
            module, arguments, data, timeout_s = connection.recv()
        except EOFError:
            return
        connection.send(_run(module, arguments, data, timeout_s, descriptor))


def _run(
    module: str, arguments: list[str], data: bytes, timeout_s: float, connection: int
) -> tuple[int | None, bytes, bytes]:
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(data)
        stdin.seek(0)
        process = os.fork()
        if not process:
            os.close(connection)
            for number, file in enumerate((stdin, stdout, stderr)):
                os.dup2(file.fileno(), number)
            status = 1
            try:
                status = int(importlib.import_module(module).main(arguments) or 0)
                sys.stdout.flush()
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
            except BaseException:  # noqa: BLE001 - as an interpreter does
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(status)
        ended = _waited(process, timeout_s)
        stdout.seek(0)
        stderr.seek(0)
        return ended, stdout.read(), stderr.read()


def _waited(process: int, timeout_s: float) -> int | None:
    """The exit status, minus the number of a signal; None where the time was over."""
    deadline, pause = time.perf_counter() + timeout_s, 0.001
    while time.perf_counter() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.05, pause * 1.3)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None
