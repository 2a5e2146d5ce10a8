"""Progress of a command on stderr: live on a terminal, and with the time of every step under --verbose.

With --verbose, a stage that runs for more than two seconds prints a line before it ends. Without --verbose and without
a terminal, nothing is printed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gspmd.dialect.progress import PassStep, following
from gspmd.tools import supervision
from gspmd.tools.presentation import Form, Presentation, current, tell

_PATIENCE_S = 2.0  # longer stages are announced
_GLANCE_S = 0.4  # longer stages are shown on a terminal
_REFRESH_S = 0.1


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Report the work in this context as a stage."""
    supervision.doing(name)
    try:
        with _shown(name):
            yield
    finally:
        supervision.doing("")


@contextmanager
def _shown(name: str) -> Iterator[None]:
    chosen = current()
    if chosen.is_quiet or chosen.form is Form.JSON:
        yield
        return
    work = _RunningStage(name, chosen)
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(work, done), daemon=True)
    watcher.start()
    try:
        with following(work.begin):
            yield
    finally:
        done.set()
        watcher.join()
    work.end()


class _RunningStage:
    """A stage and its steps, with their times."""

    def __init__(self, name: str, chosen: Presentation) -> None:
        self.name, self.chosen = name, chosen
        self.step: PassStep | None = None
        self.started_s = self._step_started_s = time.perf_counter()

    def begin(self, step: PassStep) -> None:
        """Start a step, which ends the previous one."""
        self._end_step()
        self.step, self._step_started_s = step, time.perf_counter()

    def end(self) -> None:
        """Print the time, with --verbose or if the user had to wait."""
        self._end_step()
        took_s = time.perf_counter() - self.started_s
        if self.chosen.is_verbose or (self.chosen.is_terminal and took_s > _PATIENCE_S):
            _say(f"{self.name}: {took_s:.2f} s")

    def text(self) -> str:
        """`partitioning: gspmd-reshard (3 of 6)`."""
        step = self.step
        return self.name if step is None else f"{self.name}: {step.name} ({step.number} of {step.total})"

    def _end_step(self) -> None:
        if self.step is not None and self.chosen.is_verbose:
            of = f" ({self.step.number} of {self.step.total})"
            _say(f"  {self.step.name}{of}: {time.perf_counter() - self._step_started_s:.2f} s")
        self.step = None


def _watch(work: _RunningStage, done: threading.Event) -> None:
    """Show the work until it is done, if it takes longer than a moment."""
    if work.chosen.is_terminal and not work.chosen.is_verbose:
        if not done.wait(_GLANCE_S):
            with contextlib.suppress(ImportError):  # without rich, nothing is shown
                _show(work, done)
    elif work.chosen.is_verbose and not done.wait(_PATIENCE_S):
        _say(f"{work.name} ...")


def _show(work: _RunningStage, done: threading.Event) -> None:
    """Show a spinner, the progress and the elapsed time on one line, which disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    class Terminal(Console):
        def show_cursor(self, show: bool = True) -> bool:  # a killed process would leave it hidden
            return False

    console: Any = Terminal(stderr=True, no_color=not work.chosen.is_colored, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False) as shown:
        task = shown.add_task(work.text(), total=None)
        shown.tasks[0].start_time = shown.get_time() - (time.perf_counter() - work.started_s)
        while not done.wait(_REFRESH_S):
            step = work.step
            shown.update(
                task,
                description=work.text(),
                total=step.total if step else None,
                completed=step.number - 1 if step else 0,
            )
            shown.refresh()


def _say(text: str) -> None:
    tell(f"gspmd: {text}")
