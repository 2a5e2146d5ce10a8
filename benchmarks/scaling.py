"""Time, memory and output size of partitioning by number of layers and of devices; no device is needed for it.

Usage: `python benchmarks/scaling.py [--layers 3,6,12,24,48] [--devices 8,64,512,4096,32768,131072] [--runs 3]`.

Memory is what a process of its own holds at most while it partitions, beyond what it held before. The output is the
text of the partitioned program; the sources and targets of its permutes are listed by device, all else by mesh axes.
The paper's decoder of a trillion parameters (`paper_table.py`) follows, without a target and for a torus of TPU v3
chips.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import xla

if TYPE_CHECKING:
    from measurement import Run
    from programs import Program


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; see `--help`."""
    options = _parse(arguments)
    if options.held:
        print(json.dumps(_held(sys.stdin.read(), options.target)))
        return
    xla.prepare(8)
    from programs import LARGE, lower

    from gspmd.tables import table

    base = {layers: lower(layers, 8, LARGE) for layers in {*options.layers, options.fixed}}
    rows = [["layers", "devices", "operations", *_HEAD]]
    rows += [[str(n), "8", f"{base[n].ops:,}", *_row(base[n], options.runs)] for n in options.layers]
    print("\n".join(table(rows, right=range(len(rows[0])))), flush=True)
    rows = rows[:1]
    for devices in options.devices:
        program = _on(base[options.fixed], devices)
        rows.append([str(options.fixed), f"{devices:,}", f"{program.ops:,}", *_row(program, options.runs)])
    print("\n".join(["", *table(rows, right=range(len(rows[0])))]), flush=True)
    rows = [["devices", "target", "operations", *_HEAD[:4], *_HEAD[5:]]]
    for devices in options.devices:
        decoder = _decoder(devices)
        for target in ("", f"tpu:v3:{'x'.join(map(str, _sides(devices // 2)))}"):
            cells = [*_ours(decoder, options.runs, target), *_sizes(decoder, target)]
            rows.append([f"{devices:,}", target or "none", f"{decoder.ops:,}", *cells])
    print("\n".join(["", *table(rows, right=[i for i in range(len(rows[0])) if i != 1])]))


_HEAD = ("propagate ms", "us/op", "partition ms", "us/op", "Shardy propagate ms", "memory MB", "text kB", "permutes kB")
_PERMUTE = re.compile(r"source_target_pairs = dense<[^>]*>")


def _row(program: Program, runs: int) -> list[str]:
    """Medians: ours, and Shardy's propagation on the same program."""
    import shardy
    from measurement import PROPAGATE

    theirs = _measured(lambda: shardy.propagate(program, False), runs)
    shardys = f"{statistics.median(_phase(run, PROPAGATE) for run in theirs) * 1e3:.0f}"
    return [*_ours(program, runs), shardys, *_sizes(program)]


def _ours(program: Program, runs: int, target: str = "") -> list[str]:
    """Medians of our two phases, each in ms and in us an operation."""
    import ours
    from measurement import PARTITION, PROPAGATE

    mine = _measured(lambda: ours.run(program, False, target), runs)
    cells = []
    for phase in (PROPAGATE, PARTITION):
        seconds = statistics.median(_phase(run, phase) for run in mine)
        cells += [f"{seconds * 1e3:.0f}", f"{seconds * 1e6 / program.ops:.1f}"]
    return cells


def _sizes(program: Program, target: str = "") -> list[str]:
    """MB held, and kB of text without permutes and of these."""
    command = [sys.executable, __file__, "--held", "--target", target]
    done = subprocess.run(command, input=program.sdy, capture_output=True, text=True, check=True)
    held, text, permutes = json.loads(done.stdout)
    return [f"{held * 1e-6:.0f}", f"{(text - permutes) * 1e-3:.0f}", f"{permutes * 1e-3:.0f}"]


def _held(program: str, target: str) -> tuple[int, int, int]:
    """Bytes held at most while a program is partitioned, beyond those before; of its text; of permutes in it."""
    from gspmd.api import partition

    partition("func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }", 1)
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    product = partition(program, target=target)
    held = _memory("VmHWM") - before
    text = str(product.module)
    return held, len(text), sum(len(match[0]) for match in _PERMUTE.finditer(text))


def _memory(what: str) -> int:
    """Bytes of this process, by a name of Linux's."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux says what a process holds"
    return int(found[1]) * 1024


def _measured(run: Callable[[], Run], runs: int) -> list[Run]:
    """Nothing that an earlier run found out serves a later one: what is computed once for a mesh counts."""
    found = []
    for _ in range(runs + 1):
        for known in gc.get_objects():
            if isinstance(known, functools._lru_cache_wrapper) and str(known.__module__).startswith("gspmd."):
                known.cache_clear()
        gc.collect()
        found.append(run())
    return found[1:]


def _phase(run: Run, phase: str) -> float:
    return sum(seconds for stage, seconds in run.seconds.items() if stage.phase == phase)


def _on(program: Program, devices: int) -> Program:
    """The same program for another mesh: only the sizes of its axes change, and what does not divide is padded."""
    shape = _sides(devices)
    old = f'sdy.mesh @mesh = <["x"={program.mesh_shape[0]}, "y"={program.mesh_shape[1]}]>'
    if old not in program.sdy:
        raise ValueError(f"expected '{old}' in the program")
    text = program.sdy.replace(old, f'sdy.mesh @mesh = <["x"={shape[0]}, "y"={shape[1]}]>')
    text = text.replace(f"mhlo.num_partitions = {program.devices} : i32", f"mhlo.num_partitions = {devices} : i32")
    return dataclasses.replace(program, mesh_shape=shape, sdy=text)


def _sides(count: int) -> tuple[int, int]:
    """Two powers of two, as equal as can be, the larger first."""
    shorter = 2 ** (int(math.log2(count)) // 2)
    return count // shorter, shorter


def _decoder(devices: int) -> Program:
    """The training step of the paper's largest dense model, as a loop over its layers."""
    import paper_cell
    from paper_rows import ROWS
    from programs import Program, count_operations

    from gspmd.examples.common.running import lowered

    shape = _sides(devices)
    row = ROWS["1T"]
    text = str(lowered(paper_cell.program(row, remat=True), dict(zip(("x", "y"), shape, strict=True))).program)
    return Program(row.layers, shape, text, "", count_operations(text))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--layers", type=numbers, default=[3, 6, 12, 24, 48], help="counts of layers, on 8 devices")
    parser.add_argument(
        "--devices", type=numbers, default=[8, 64, 512, 4096, 32768, 131072], help="powers of two, with --fixed layers"
    )
    parser.add_argument("--fixed", type=int, default=12, help="layers while the number of devices changes (12)")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each (3)")
    parser.add_argument("--held", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--target", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
