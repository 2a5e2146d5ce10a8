"""A command works in a child of a small process that outlives it.

What happens inside jaxlib can be neither caught nor ended there: a crash of its parser, or a compile of XLA that no
signal interrupts. So a command forks before it imports anything large. The parent waits, ends the child when it is
interrupted or the time is over, and says in one line how the child ended where the child could not. The child tells the
parent through a pipe what it does, as `doing`, by when it wants to be done, as `limit`, and how messages shall look.

Where processes do not fork, as on Windows, a command works in the process itself.
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
_PATIENCE_S = 0.5  # for a child that was interrupted to come to its end
_REPRODUCING_S = 60.0

_to_parent: int | None = None


def supervised(program: str, main: Callable[[], int]) -> int:
    """The exit code of `main`, which runs in a child process, or 128 and the number of the signal that ended it."""
    if not hasattr(os, "fork") or "--debug" in sys.argv[1:]:  # debuggers follow one process more easily
        return main()
    signal.signal(signal.SIGINT, _end_interrupted)  # of the child, and of the parent when it no longer waits
    with _woken_by(*_ENDS, signal.SIGCHLD) as (wake, received):
        child = _start()
        if child is not None:
            return _Watch(program, child, main).wait(wake, received)
    return main()


def _end_interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the process at once: what is interrupted may be a function that MLIR calls, which must not raise anything."""
    output.forget_unfinished()
    os._exit(EXIT_INTERRUPTED)


def doing(what: str) -> None:
    """Tell the parent, if there is one, what the command does from now on."""
    _tell(f"doing {what}")


def shows(form: presentation.Form) -> None:
    """Tell the parent, if there is one, in which form messages are wanted."""
    _tell(f"shows {form.value}")


def begins_pass(number: int) -> None:
    """Tell the parent, if there is one, how many passes have begun."""
    _tell(f"pass {number}")


def limit(seconds: float) -> None:
    """End the command after so many seconds, whatever it does then.

    Without a parent that is where Python code runs next, by an ExecutionError.
    """
    if _to_parent is not None:
        _tell(f"limit {seconds}")
    elif hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda _number, _frame: _give_up(seconds))
        signal.setitimer(signal.ITIMER_REAL, seconds)


def out_of_time(seconds: float, doing: str) -> ExecutionError:
    what = f" while {doing}" if doing else ""
    hint = "give a longer --timeout, or less to do"
    return ExecutionError(f"not done after {seconds:g} s{what}", hint=hint, code=Code.TIMEOUT)


def _give_up(seconds: float) -> NoReturn:
    raise out_of_time(seconds, "")


def _tell(line: str) -> None:
    if _to_parent is not None:
        with contextlib.suppress(OSError):
            os.write(_to_parent, f"{' '.join(line.split())}\n".encode(errors="replace"))


class _Child:
    """A process, and what it told."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid, self.pipe = pid, pipe
        self._heard = b""
        self.doing = ""
        self.form = ""
        self.passes = 0
        self.limit_s: float | None = None
        self.until: float | None = None

    def hear(self) -> bool:
        """Whether it may say more."""
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
    """Run it without a word, and end the process."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    with contextlib.suppress(BaseException):
        reproducer.rewind_stdin()
        main()
    os._exit(EXIT_INTERNAL)


def _end_with(parent: int) -> None:
    """Let this process die with its parent, also where that has died already."""
    if not sys.platform.startswith("linux"):
        return
    end_with_parent()
    if os.getppid() != parent:
        os._exit(EXIT_INTERNAL)


class _Watch:
    """The parent while its child works."""

    def __init__(self, program: str, child: _Child, main: Callable[[], int]) -> None:
        self._program, self._child, self._main = program, child, main
        self._ended_by: int | None = None  # the signal that this process got
        self._steps: list[tuple[float, int]] = []  # when to send which signal to the child
        self._out_of_time: ExecutionError | None = None

    def wait(self, wake: int, received: list[int]) -> int:
        """The exit code. `wake` can be read when there is something in `received`."""
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
        """Do what it is time for."""
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
            self._say(InternalError(f"jaxlib ended the process by {name}{while_}", hint=self._reproducer()))
            return EXIT_INTERNAL
        hint = "there may be too little memory" if number == signal.SIGKILL else None
        self._say(ExecutionError(f"the process was ended by {name}{while_}", hint=hint))
        return 128 + number

    def _reproducer(self) -> str | None:
        """What there is to report, made by another child that stops before the pass in which this one died."""
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
        from gspmd.tools import diagnostics  # not cheap, and needed here only

        form = [f"--diagnostics={self._child.form}"] if self._child.form else []
        presentation.use(presentation.chosen([*sys.argv[1:], *form]))
        with contextlib.suppress(OSError, ValueError, AttributeError):
            diagnostics.print_error(self._program, error)
            sys.stderr.flush()


@contextlib.contextmanager
def _woken_by(*numbers: int) -> Iterator[tuple[int, list[int]]]:
    """A file that can be read when one of the signals came, and the signals that came."""
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
