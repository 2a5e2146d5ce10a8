"""Optimizations of collectives that the compiler of a platform lacks."""

from __future__ import annotations

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.optimize.combine import CombineCollectives
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram

_MISSING: dict[str, tuple[CollectivePass, ...]] = {
    # XLA for CPUs combines only all-reduces, which saves nothing: its devices synchronize for each operand. That takes
    # about 100 us, in which a device copies many times 4 KiB; larger values would take memory. The slices and
    # concatenations double the compile time of XLA, so programs with few small collectives are not changed.
    "cpu": (CombineCollectives(combine_up_to_bytes=1 << 16, combine_each_bytes=1 << 12, combine_at_least=64),),
}


def prepare(module: Operation, platform: str) -> None:
    """Optimize a partitioned module in place, where the compiler of a JAX platform does not."""
    passes = _MISSING.get(platform, ())
    program = DeviceProgram(module, tell=False)
    for pass_ in passes:
        before = program.changes
        pass_.apply(program)
        if program.changes != before:
            program.tidy()
    program.finish()
