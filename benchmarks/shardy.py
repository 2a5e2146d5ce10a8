"""Shardy's own passes from annotations to a per-device program, as jaxlib registers them."""

from __future__ import annotations

import time

from jaxlib.mlir.passmanager import PassManager as MlirPassManager
from measurement import PARTITION, PROPAGATE, Clock, Run, Stage
from programs import Program
from traffic import of_stablehlo

from gspmd.pass_manager import PassManager
from gspmd.transforms.parsing.mlir import new_context, parse_module

NAME = "shardy"
_STAGES = {
    Stage("sdy-propagation-pipeline", PROPAGATE): "sdy-propagation-pipeline",
    Stage("sdy-insert-explicit-reshards", PARTITION): (
        "func.func(sdy-insert-explicit-reshards{enable-full-version=true},sdy-reshard-to-collectives)"
    ),
    Stage("sdy-convert-global-to-local", PARTITION): "sdy-convert-global-to-local",
}
PIPELINES = tuple(_STAGES.values())
"""In the order in which they run."""


def run(program: Program, want_traffic: bool) -> Run:
    """Partition once. Its passes want no calls and no CHLO: both are gone before the clock starts."""
    return _run(program, want_traffic, tuple(_STAGES))


def propagate(program: Program, want_traffic: bool) -> Run:
    """Only complete the shardings once."""
    assert not want_traffic, "a completed program sends nothing yet"
    return _run(program, False, tuple(_STAGES)[:1])


def _run(program: Program, want_traffic: bool, stages: tuple[Stage, ...]) -> Run:
    module = parse_module(program.sdy, new_context())
    PassManager(["gspmd-ingest", "chlo-legalize-to-stablehlo"]).run(module)
    seconds = {}
    clock = Clock()
    for stage in stages:
        manager = MlirPassManager.parse(f"builtin.module({_STAGES[stage]})", module.context)
        started = time.perf_counter()
        manager.run(module.operation)
        seconds[stage] = time.perf_counter() - started
    share = clock.cpu_share()
    return Run.of(seconds, share, of_stablehlo(module) if want_traffic else None)
