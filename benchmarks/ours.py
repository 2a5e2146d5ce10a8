"""Our partitioner, as `gspmd.partition` runs it."""

from __future__ import annotations

import time

from measurement import PARTITION, PROPAGATE, Clock, Run, Stage
from programs import Program
from traffic import of_stablehlo

from gspmd.api import partition

NAME, FAST = "gspmd", "gspmd fast"
_PHASES = {
    "gspmd-propagate": PROPAGATE,
    "gspmd-decide": PARTITION,
    "gspmd-reshard": PARTITION,
    "gspmd-localize": PARTITION,
    "gspmd-optimize": PARTITION,
    "gspmd-order": PARTITION,
    "fold": PARTITION,
    "unfold": PARTITION,
}


def run(program: Program, want_traffic: bool, target: str = "", effort: str = "default") -> Run:
    """Partition once. `parse` is the rest of the call: a new context and reading the text."""
    seconds: dict[Stage, float] = {Stage("parse", None): 0.0}
    clock = Clock()
    started = time.perf_counter()
    result = partition(
        program.sdy,
        target=target,
        options={"effort": effort},
        on_stage=lambda name, s: seconds.update({Stage(name, _PHASES.get(name)): s}),
    )
    total = time.perf_counter() - started
    seconds[Stage("parse", None)] = total - sum(seconds.values())
    started = time.perf_counter()
    str(result.module)
    seconds[Stage("print", None)] = time.perf_counter() - started
    share = clock.cpu_share()
    return Run.of(seconds, share, of_stablehlo(result.module) if want_traffic else None)
