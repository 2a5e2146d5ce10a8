"""Rewrites of collectives that the compiler of a platform does not do itself, before it gets a program."""

from __future__ import annotations

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.optimize.combine import CombineCollectives
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram

_MISSING: dict[str, tuple[CollectivePass, ...]] = {
    # XLA for CPUs combines all-reduces only, and that saves nothing: its devices meet for each of the operands. To meet
    # takes them some 100 us, in which each copies many times 4 KiB; more than these would hold memory. XLA takes twice
    # as long to compile what cuts and joins the values, so programs with few of them are left alone.
    "cpu": (CombineCollectives(combine_up_to_bytes=1 << 16, combine_each_bytes=1 << 12, combine_at_least=64),),
}


def prepare(module: Operation, platform: str) -> None:
    """Do in place, on a partitioned module, what the compiler of a JAX platform leaves undone."""
    passes = _MISSING.get(platform, ())
    program = DeviceProgram(module, tell=False)
    for pass_ in passes:
        before = program.changes
        pass_.apply(program)
        if program.changes != before:
            program.tidy()
    program.finish()
