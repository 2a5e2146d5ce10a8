"""What a command is doing, on stderr: on a terminal as it goes on, with --verbose with the time of every step.

With --verbose, a line is printed before what takes more than two seconds has ended; without it and without a terminal,
nothing is.
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

_PATIENCE_S = 2.0  # what takes longer is told
_GLANCE_S = 0.4  # what takes longer is shown on a terminal
_REFRESH_S = 0.1


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Do something that may take long, and say so."""
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
        """Hear that a step begins; the one before it has ended."""
        self._end_step()
        self.step, self._step_started_s = step, time.perf_counter()

    def end(self) -> None:
        """Say how long it took, to who wants to know or had to wait."""
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
    """Show the work until it is done, if it takes long."""
    if work.chosen.is_terminal and not work.chosen.is_verbose:
        if not done.wait(_GLANCE_S):
            with contextlib.suppress(ImportError):  # an installation without rich shows nothing meanwhile
                _show(work, done)
    elif work.chosen.is_verbose and not done.wait(_PATIENCE_S):
        _say(f"{work.name} ...")


def _show(work: _RunningStage, done: threading.Event) -> None:
    """A line on the terminal with a spinner, how far it is and how long it takes, which goes away at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    class Terminal(Console):
        def show_cursor(self, show: bool = True) -> bool:  # a process that is killed would leave it hidden
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
