"""Run a command in a child of a small supervising process.

A crash inside jaxlib cannot be caught, and no signal interrupts an XLA compilation. So a command forks before it
imports anything large. The parent waits. It ends the child on an interrupt or a timeout, and reports in one line how a
crashed child ended. Through a pipe, the child tells the parent what it is doing (`doing`), its time limit (`limit`) and
the form of messages (`shows`).

Without `fork`, as on Windows, a command runs in the process itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from gspmd import output, reproducer
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ExecutionError, InternalError
from gspmd.isolated_process import end_with_parent
from gspmd.tools import presentation
from gspmd.tools.exit_codes import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_TIMEOUT

_ENDS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))
_CRASHES = {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"}
_PATIENCE_S = 0.5  # for an interrupted child to exit by itself
_REPRODUCING_S = 60.0

_to_parent: int | None = None


def supervised(program: str, main: Callable[[], int]) -> int:
    """The exit code of `main`, which runs in a child process, or 128 and the number of the signal that ended it."""
    if not hasattr(os, "fork") or "--debug" in sys.argv[1:]:  # debuggers follow one process more easily
        return main()
    signal.signal(signal.SIGINT, _end_interrupted)  # for the child, and for the parent when it no longer waits
    with _woken_by(*_ENDS, signal.SIGCHLD) as (wake, received):
        child = _start()
        if child is not None:
            return _Watch(program, child, main).wait(wake, received)
    return main()


def _end_interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the process at once: the interrupted frame may be a callback from MLIR, which must not raise."""
    output.forget_unfinished()
    os._exit(EXIT_INTERRUPTED)


def doing(what: str) -> None:
    """Tell the parent, if any, what the command is doing from now on."""
    _tell(f"doing {what}")


def shows(form: presentation.Form) -> None:
    """Tell the parent, if any, the form of messages."""
    _tell(f"shows {form.value}")


def begins_pass(number: int) -> None:
    """Tell the parent, if any, how many passes have started."""
    _tell(f"pass {number}")


def limit(seconds: float) -> None:
    """End the command after so many seconds, whatever it is doing.

    Without a parent, an ExecutionError is raised when Python code next runs.
    """
    if _to_parent is not None:
        _tell(f"limit {seconds}")
    elif hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda _number, _frame: _give_up(seconds))
        signal.setitimer(signal.ITIMER_REAL, seconds)


def out_of_time(seconds: float, doing: str) -> ExecutionError:
    what = f" while {doing}" if doing else ""
    hint = "use a longer --timeout or a smaller program"
    return ExecutionError(f"not finished after {seconds:g} s{what}", hint=hint, code=Code.TIMEOUT)


def _give_up(seconds: float) -> NoReturn:
    raise out_of_time(seconds, "")


def _tell(line: str) -> None:
    if _to_parent is not None:
        with contextlib.suppress(OSError):
            os.write(_to_parent, f"{' '.join(line.split())}\n".encode(errors="replace"))


class _Child:
    """A child process, and what it reported."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid, self.pipe = pid, pipe
        self._heard = b""
        self.doing = ""
        self.form = ""
        self.passes = 0
        self.limit_s: float | None = None
        self.until: float | None = None

    def hear(self) -> bool:
        """Read the pipe; False at its end."""
        said = os.read(self.pipe, 1 << 16)
        *lines, self._heard = (self._heard + said).split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "doing":
                self.doing = rest
            elif word == "shows":
                self.form = rest
            elif word == "pass":
                self.passes = int(rest)
            elif word == "limit":
                self.limit_s = float(rest)
                self.until = time.monotonic() + self.limit_s
        return bool(said)


def _start() -> _Child | None:
    """A child of this process; None in the child itself."""
    global _to_parent
    read, write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(write)
        return _Child(pid, read)
    os.close(read)
    _to_parent = write
    _end_with(parent)
    return None


def _end_quietly(main: Callable[[], int]) -> NoReturn:
    """Run it without output, and end the process."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    with contextlib.suppress(BaseException):
        reproducer.rewind_stdin()
        main()
    os._exit(EXIT_INTERNAL)


def _end_with(parent: int) -> None:
    """End this process when its parent ends, or now if the parent has already ended."""
    if not sys.platform.startswith("linux"):
        return
    end_with_parent()
    if os.getppid() != parent:
        os._exit(EXIT_INTERNAL)


class _Watch:
    """The parent while its child runs."""

    def __init__(self, program: str, child: _Child, main: Callable[[], int]) -> None:
        self._program, self._child, self._main = program, child, main
        self._ended_by: int | None = None  # the signal that this process received
        self._steps: list[tuple[float, int]] = []  # the signals to send to the child, with their times
        self._out_of_time: ExecutionError | None = None

    def wait(self, wake: int, received: list[int]) -> int:
        """The exit code. `wake` is readable when `received` is not empty."""
        return self._exit_code(self._until_the_end(wake, received))

    def _until_the_end(self, wake: int, received: list[int]) -> int:
        """The status of the child, as `os.waitpid` has it."""
        listening: list[int] = [wake, self._child.pipe]
        while True:
            pid, status = os.waitpid(self._child.pid, os.WNOHANG)
            if pid:
                while self._child.pipe in listening and self._child.hear():
                    pass
                return status
            ready, _, _ = select.select(listening, [], [], self._seconds_left())
            if self._child.pipe in ready and not self._child.hear():
                listening.remove(self._child.pipe)
            if wake in ready:
                os.read(wake, 1 << 10)
            while received:
                self._got(received.pop(0))
            self._act()

    def _got(self, number: int) -> None:
        if number in _ENDS and self._ended_by is None:
            self._ended_by = number
            self._end(time.monotonic())

    def _end(self, now: float) -> None:
        self._steps = [(now, signal.SIGINT), (now + _PATIENCE_S, signal.SIGKILL)]

    def _act(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if self._child.until is not None and now >= self._child.until:
            self._out_of_time = out_of_time(self._child.limit_s or 0.0, self._child.doing)
            self._child.until = None
            self._end(now)
        while self._steps and now >= self._steps[0][0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, self._steps.pop(0)[1])

    def _seconds_left(self) -> float | None:
        times = [step[0] for step in self._steps[:1]]
        if self._child.until is not None:
            times.append(self._child.until)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _exit_code(self, status: int) -> int:
        if self._ended_by is not None:
            return 128 + self._ended_by
        if self._out_of_time is not None:
            self._say(self._out_of_time)
            return EXIT_TIMEOUT
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        while_ = f" while {self._child.doing}" if self._child.doing else ""
        if name in _CRASHES:
            self._say(InternalError(f"jaxlib crashed with {name}{while_}", hint=self._reproducer()))
            return EXIT_INTERNAL
        hint = "the machine may have run out of memory" if number == signal.SIGKILL else None
        self._say(ExecutionError(f"the process was killed by {name}{while_}", hint=hint))
        return 128 + number

    def _reproducer(self) -> str | None:
        """The reproducer, written by a second child that stops before the pass in which the first one crashed."""
        if not self._child.passes:
            return None
        reproducer.stop_before(self._child.passes)
        path = reproducer.path()
        again = _start()
        if again is None:
            _end_quietly(self._main)
        until = time.monotonic() + _REPRODUCING_S
        while os.waitpid(again.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(again.pid, signal.SIGKILL)
            time.sleep(0.02)
        return f"please report this with {path}" if path.exists() else None

    def _say(self, error: Error) -> None:
        from gspmd.tools import diagnostics  # slow to import, and needed only here

        form = [f"--diagnostics={self._child.form}"] if self._child.form else []
        presentation.use(presentation.chosen([*sys.argv[1:], *form]))
        with contextlib.suppress(OSError, ValueError, AttributeError):
            diagnostics.print_error(self._program, error)
            sys.stderr.flush()


@contextlib.contextmanager
def _woken_by(*numbers: int) -> Iterator[tuple[int, list[int]]]:
    """A file descriptor that is readable once one of the signals arrives, and the signals that arrived."""
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in numbers}
    earlier = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield read, received
    finally:
        signal.set_wakeup_fd(earlier)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read)
        os.close(write)
