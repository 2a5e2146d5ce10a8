"""Call functions in a process of their own, so that one that is killed or never returns is noticed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")


class Died(Exception):
    """The process ended or was given up while it worked; says with which code, and what it wrote last."""


class Worker:
    """A process that is started when it is needed, and again after it died."""

    def __init__(self, timeout_s: float = 120, devices: int = 8) -> None:
        self._timeout_s = timeout_s
        self._devices = devices
        self._process: Any = None
        self._connection: Any = None
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115 - lives as long as the worker

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """The value of a function of a module. Raises Died, and what the function raises."""
        if self._process is None:
            self._start()
        self._log.seek(0)
        self._log.truncate()
        self._connection.send((function, arguments))
        try:
            if reason := self._given_up():
                self.stop()
                raise Died(reason)
            failed, value = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.stop()
            raise Died(f"the process ended with code {code}: {self._last_words()}") from None
        if failed:
            raise value
        return value  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _given_up(self) -> str:
        """Wait for an answer; why none is waited for any more, or "" when there is one or the process ended."""
        return "" if self._connection.poll(self._timeout_s) else f"no answer within {self._timeout_s:.0f} s"

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._log.name, self._devices), daemon=True)
        self._process.start()
        other.close()

    def written(self) -> str:
        """What the process wrote to stderr since the last call began."""
        self._log.seek(0)
        return self._log.read(1 << 20).decode(errors="replace")

    def _last_words(self) -> str:
        lines = self.written().strip().splitlines()
        telling = [line for line in lines if "Check failed" in line or line.startswith("F")]
        return (telling or lines or ["nothing written"])[-1][:400]


def _serve(connection: Connection, log: str, devices: int) -> None:
    """Answer until the other end is closed, with so many CPU devices; what is written to stderr goes to the log."""
    os.environ["JAX_NUM_CPU_DEVICES"] = str(devices)  # before functions import jax
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 2)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = (False, function(*arguments))
        except Exception as error:  # noqa: BLE001 - it belongs to who called
            answer = (True, error)
        try:
            connection.send(answer)
        except (TypeError, AttributeError, pickle.PicklingError):  # an error that holds more than its text
            connection.send((True, RuntimeError(str(answer[1]))))
