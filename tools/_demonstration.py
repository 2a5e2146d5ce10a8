"""Run one example of `gspmd demo`: lower, partition, run, compare, print."""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gspmd import text_report
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.progress import told
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import METRIC_TOLERANCE, STATE_TOLERANCE, Step, compare, lowered
from gspmd.output import Output, beside, outputs
from gspmd.tables import bad, fitted, good, table
from gspmd.tools._stages import stage

_SEARCH_S = 30.0
_COLUMNS = 80  # of lines where there is no terminal


class Demonstration:
    """A configuration of an example on a mesh; `times` are the seconds of each phase.

    With `searches`, shardings come from `gspmd search` instead of the recipe.
    """

    def __init__(self, name: str, example: Any, config: Any, mesh: dict[str, int], searches: bool = False) -> None:
        self.name, self.config, self.mesh, self.searches = name, config, mesh, searches
        self.recipe = example.RECIPES[config.recipe]
        self.single: Program = example.program(config, ONE_DEVICE)
        self.program: Program = self.single if searches else example.program(config, self.recipe)
        self.times: dict[str, float] = {}

    def run(self, args: argparse.Namespace, brief: bool) -> bool:
        """Whether all steps agree with those on one device. The options of the command name the files to write."""
        if args.plot:
            _check_plot(args.plot)
        annotated, module, picture = outputs(args.program, args.output, args.plot)
        with beside(annotated, module, picture):
            return self._run(args.steps, annotated, module, picture, brief)

    def _run(
        self, steps: int, annotated: Output | None, module: Output | None, picture: Output | None, brief: bool
    ) -> bool:
        with self._timed("trace", "tracing the model"):
            low = lowered(self.program, self.mesh, {"time_limit_s": _SEARCH_S} if self.searches else None)
        if self.searches:
            with self._timed("search", "searching"):
                plan = low.plan
            if not brief:
                print(f"{plan}\n")
        if annotated:
            annotated.write(low.as_text(debug_info=True).encode())
        with self._timed("partition", "partitioning"):
            partitioned = low.partitioned
        if module:
            module.write(partitioned.module_text.encode())
        with self._timed("compile", "compiling for XLA"):
            compiled = low.compile()
        if not brief:
            self._print_head(partitioned)
        with self._timed("run", "running both"):
            done = list(told(compare(self.program, self.single, self.mesh, steps, compiled), "step", steps))
        passed = all(step.metric_error <= METRIC_TOLERANCE for step in done) and done[-1].state_error <= STATE_TOLERANCE
        if not brief:
            print("\n".join(_curve(done)) + "\n")
            print("time:\n" + "\n".join(table([(n, f"{s:.3f} s") for n, s in self.times.items()], (1,))) + "\n")
        if picture:
            _draw(done, picture, f"{self.name}, {self.recipe.summary}")
        verdict = self._verdict(done, passed, brief)
        print("\n".join(fitted([good(verdict) if passed else bad(verdict)], None if brief else _COLUMNS)))
        if not brief:
            print("\n".join(fitted(["", "next:", *self._next(annotated)])))
        return passed

    def _next(self, annotated: Output | None) -> list[str]:
        """The commands that go on from here, on the program that was saved, or that is to be."""
        path = "step.mlir" if annotated is None or annotated.is_stdout else annotated.path
        saved = [] if annotated is not None else [(f"gspmd demo {self.name} --save-program {path}", "keep the program")]
        commands = [
            *saved,
            (f"gspmd explain {path} --conflicts", "why it communicates"),
            (f"gspmd cost {path} --target tpu-v5p", "time and memory on a target"),
            (f"gspmd report {path} -o report.html", "all of it on one page"),
        ]
        width = max(len(command) for command, _ in commands)
        return [f"  {command.ljust(width)}  # {what}" for command, what in commands]

    def _print_head(self, partitioned: Any) -> None:
        sizes = ", ".join(f"{name} {value}" for name, value in vars(self.config).items())
        summary = "sharded as gspmd search found" if self.searches else self.recipe.summary
        lines = [f"{self.name}: {summary}", f"  {sizes}", ""]
        lines += text_report.program_lines(partitioned.signature, partitioned.collectives)
        print("\n".join(fitted(lines, _COLUMNS)) + "\n")

    def _verdict(self, done: list[Step], passed: bool, brief: bool) -> str:
        worst = max(step.metric_error for step in done)
        said = f"{len(done)} steps agree with one device" if passed else "differs from one device"
        recipe = "search" if self.searches else self.config.recipe
        name = f"{self.name} ({recipe}), {sum(self.times.values()):.0f} s: " if brief else ""
        return (
            f"{'PASS' if passed else 'FAIL'}: {name}{said}; largest difference of a metric {worst:.2g} (allowed "
            f"{METRIC_TOLERANCE:.0e}), of the state at the end {done[-1].state_error:.2g} ({STATE_TOLERANCE:.0e})"
        )

    @contextmanager
    def _timed(self, name: str, doing: str) -> Iterator[None]:
        started = time.perf_counter()
        with stage(doing):
            yield
        self.times[name] = time.perf_counter() - started


def _curve(done: list[Step]) -> list[str]:
    """A row per step: each scalar metric partitioned and on one device, and the difference."""
    names = [name for name in _by_importance(done) if done[0].partitioned[name].ndim == 0]
    head = ("step", *(part for name in names for part in (name, "on one device")), "difference")
    rows = [
        (
            str(index),
            *(f"{float(side[name]):.6g}" for name in names for side in (step.partitioned, step.single)),
            f"{step.metric_error:.1e}",
        )
        for index, step in enumerate(done)
    ]
    return table([head, *rows], right=range(len(head)))


def _by_importance(done: list[Step]) -> list[str]:
    """Names of the metrics, "loss" first."""
    return sorted(done[0].partitioned, key=lambda name: (name != "loss", name))


def _check_plot(path: str) -> None:
    """Errors: UsageError without matplotlib, or for a file format that it cannot write."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise UsageError("--plot needs matplotlib", hint="pip install 'gspmd[plot]'") from None
    kinds = sorted(FigureCanvasBase.filetypes)
    if Path(path).suffix[1:] not in kinds:
        raise UsageError(
            f"cannot draw into '{path}'",
            hint=f"use a name that ends in one of {', '.join('.' + k for k in kinds)}",
            code=Code.BAD_VALUE,
        )


def _draw(done: list[Step], output: Output, title: str) -> None:
    """Plot the loss, or the first metric, of both runs by step. Raises InputError."""
    from matplotlib.figure import Figure

    metric = _by_importance(done)[0]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([float(step.partitioned[metric]) for step in done], label="partitioned", linewidth=2)
    axes.plot([float(step.single[metric]) for step in done], "--", label="on one device")
    axes.set(title=title, xlabel="step", ylabel=metric)
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format=Path(output.path).suffix[1:])
    output.write(picture.getvalue())
