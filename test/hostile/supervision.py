"""Cases in a worker process, whose death, hanging and hunger are noticed, and which is replaced then."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gspmd.isolation import ProcessDied, Worker
from hostile import entries
from hostile.case import Case
from hostile.entries import Outcome
from hostile.judgement import EXIT_INTERNAL

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_RETIRED_BYTES = 1 << 30  # a worker of that size is replaced, whatever made it so


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a case may compute, or wait for something twice as long, and bytes of memory that it may hold.

    On a machine that has other work to do a case may take longer than it computes.
    """

    seconds: float = 30.0
    memory_bytes: int = 4 << 30


class Supervisor(Worker):
    """A worker for cases."""

    def __init__(self, root: str, limits: Limits) -> None:
        super().__init__(timeout_s=300)
        self.root = root
        self.limits = limits
        self._watching = False

    def outcome(self, case: Case) -> Outcome:
        """What became of a case."""
        found = self.watched(entries.performed, case, self.root)
        if found.status == EXIT_INTERNAL and not found.frames and not case.terminal and "--debug" not in case.words:
            again = self.outcome(dataclasses.replace(case, words=("--debug", *case.words)))
            found = dataclasses.replace(found, frames=again.stderr)
        # JAX keeps the platform that it was told first, and commands what they noted of a defect.
        marked = found.status == EXIT_INTERNAL or any(word.startswith("--platform") for word in case.words)
        if marked or self._memory_bytes() > _RETIRED_BYTES:
            self.stop()
        return found

    def watched(self, function: Callable[..., Outcome], *arguments: Any) -> Outcome:
        """What a function gives in the worker, or how the worker ended."""
        self.ready()
        started = time.perf_counter()
        self._watching = True
        try:
            return self.call(function, *arguments)
        except ProcessDied as death:
            return self._of_death(str(death), time.perf_counter() - started)
        finally:
            self._watching = False

    def ready(self) -> None:
        """Start the process if there is none."""
        if self._process is None:
            self._watching = False
            self.call(entries.set_up)

    def _of_death(self, reason: str, seconds: float) -> Outcome:
        log = self.written()
        if reason.startswith("the process ended with code "):
            status = int(reason.removeprefix("the process ended with code ").split()[0].rstrip(":"))
            return Outcome(status, stderr=log[-20_000:], ended="died", seconds=seconds)
        return Outcome(None, stderr=log[-20_000:], ended=reason, seconds=seconds)

    def _given_up(self) -> str:
        if not self._watching:
            return super()._given_up()
        started, used = time.perf_counter(), self._cpu_s()
        pause = 0.02
        while not self._connection.poll(pause):
            pause = min(0.1, pause * 1.5)
            if self._memory_bytes() > self.limits.memory_bytes:
                return self._stopped("too much memory")
            waited, limit = time.perf_counter() - started, self.limits.seconds
            if waited <= limit:
                continue
            computed = self._cpu_s() - used
            if computed > limit or waited > 10 * limit or (waited > 2 * limit and computed < 0.1 * waited):
                return self._stopped("no end")
        return ""

    def _stopped(self, reason: str) -> str:
        """The reason, after the process has written where it is."""
        os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(0.3)
        return reason

    def _cpu_s(self) -> float:
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK if fields else 0.0

    def _memory_bytes(self) -> int:
        fields = self._proc("statm").split()
        return int(fields[1]) * _PAGE if fields else 0

    def _proc(self, name: str) -> str:
        if self._process is None:
            return ""
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        except OSError:  # it has just ended
            return ""
