"""Call functions in a separate process, to survive crashes and hangs.

On unexpected input, XLA ends its process, which Python code cannot catch. The separate process has the import path of
this one and virtual CPU devices, and is restarted after it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.connection import Pipe
from typing import Any, TypeVar

from gspmd.dialect.errors import InputError
from gspmd.virtual_devices import check_virtual_devices

T = TypeVar("T")
_CHILD = "gspmd.isolated_process"
_LONGEST_WORDS = 400


class ProcessDied(Exception):
    """The process ended or timed out during a call; the message has its exit code and its last output."""


class Worker:
    """A process that is started on demand, and restarted after it died."""

    def __init__(self, timeout_s: float = 120, devices: int = 8, environment: Mapping[str, str] | None = None) -> None:
        """Calls take at most `timeout_s` seconds; `environment` has the changes from this process's environment."""
        self._timeout_s = timeout_s
        self._environment = {**(environment or {}), "JAX_NUM_CPU_DEVICES": str(devices)}  # read once, with jax
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Any = None
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115 - lives as long as the worker

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The value of a function of a module. Raises Died, and the exceptions of the function.

        Raises InputError if no process can be started.
        """
        if self._process is None:
            self._start()
        assert self._process is not None, "it was started"
        self._log.seek(0)
        self._log.truncate()
        try:
            self._connection.send((function, arguments))
            if reason := self._given_up():
                self.stop()
                raise ProcessDied(reason)
            failed, value = self._connection.recv()
        except (EOFError, ConnectionError):
            code = self._process.wait()
            self.stop()
            raise ProcessDied(f"the process ended with {_ending(code)}: {self._last_words()}") from None
        if failed:
            raise value
        return value  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._connection.close()
            self._process = None

    def written(self) -> str:
        """The output of the process on stderr since the last call started."""
        self._log.seek(0)
        return self._log.read(1 << 20).decode(errors="replace")

    def _given_up(self) -> str:
        """Wait for an answer; returns the reason for giving up, or "" if there is an answer or the process ended."""
        return "" if self._connection.poll(self._timeout_s) else f"no answer within {self._timeout_s:.0f} s"

    def _start(self) -> None:
        self._connection, other = Pipe()
        paths = [path or os.getcwd() for path in sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **self._environment}
        command = [sys.executable, "-P", "-m", _CHILD, str(other.fileno()), self._log.name]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=environment, pass_fds=[other.fileno()]
            )
        except (OSError, ValueError) as error:
            self._connection.close()
            raise InputError(f"cannot start '{sys.executable}' to work in: {error}") from None
        finally:
            other.close()

    def _last_words(self) -> str:
        lines = self.written().strip().splitlines()
        telling = [line for line in lines if "Check failed" in line or line.startswith("F")]
        return (telling or lines or ["nothing written"])[-1][:_LONGEST_WORDS]


def _ending(code: int) -> str:
    """`code 3`, or with the name of a signal `code -6 (SIGABRT)`."""
    known = -code in set(signal.Signals)
    return f"code {code} ({signal.Signals(-code).name})" if known else f"code {code}"


def on_virtual_devices(count: int, timeout_s: float) -> Worker:
    """A worker with so many CPU devices and no others. Raises UsageError for more than a process can have."""
    check_virtual_devices(count)
    return Worker(timeout_s, count, {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"})
