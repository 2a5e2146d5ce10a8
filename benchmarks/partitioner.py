"""How fast partitioning is and what the result sends, beside XLA's and Shardy's partitioners in the same process.

Usage: `python benchmarks/partitioner.py [--layers 12,48] [--devices 8,4096] [--runs 5] [--quick] [--json FILE]
[--markdown FILE]`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import xla

if TYPE_CHECKING:
    from collections.abc import Callable

    from measurement import Run
    from programs import Program


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; see `--help`."""
    options = _parse(arguments)
    xla.prepare(max(options.devices))
    import report
    from programs import lower

    cases = []
    for layers in options.layers:
        for devices in options.devices:
            program = lower(layers, devices)
            runs = measure(program, options.runs)
            print(report.table(program, runs), flush=True)
            cases.append(report.as_json(program, runs))
    if options.json:
        Path(options.json).write_text(json.dumps({**report.machine(), "cases": cases}, indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(report.page(cases))


def measure(program: Program, count: int) -> dict[str, list[Run]]:
    """Runs of every partitioner, interleaved so that a busy machine slows all of them.

    A first round, which is not timed, warms up and reads the traffic.
    """
    import ours
    import shardy

    partitioners: dict[str, Callable[[Program, bool], Run]] = {
        ours.NAME: ours.run,
        ours.FAST: functools.partial(ours.run, effort="fast"),
        shardy.NAME: shardy.run,
        xla.GSPMD: xla.run_gspmd,
        xla.SHARDY: xla.run_shardy,
    }
    runs: dict[str, list[Run]] = {name: [] for name in partitioners}
    for index in range(count + 1):
        for name, run in partitioners.items():
            gc.collect()
            _progress(f"{program.layers} layers, {program.devices} devices: run {index} of {count}, {name}")
            runs[name].append(run(program, index == 0))
    _progress("")
    return runs


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _devices(text: str) -> list[int]:
    numbers = _numbers(text)
    for devices in numbers:
        if devices < 2 or devices & (devices - 1) or devices > 4096:
            raise argparse.ArgumentTypeError(f"expected powers of two from 2 to 4096, got {devices}")
    return numbers


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--layers", type=_numbers, default=[12, 48], help="counts of layers (12,48)")
    parser.add_argument("--devices", type=_devices, default=[8, 4096], help="powers of two up to 4096 (8,4096)")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each partitioner (5)")
    parser.add_argument("--quick", action="store_true", help="as --layers 2 --devices 8 --runs 1")
    parser.add_argument("--json", metavar="FILE", help="write every run to FILE")
    parser.add_argument("--markdown", metavar="FILE", help="write the page of the documentation to FILE")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"argument --runs: expected at least 1, got {options.runs}")
    if options.quick:
        options.layers, options.devices, options.runs = [2], [8], 1
    return options


if __name__ == "__main__":
    main()
