"""The best few plans as the compiler of the target makes them: its own order, cycles and memory decide."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.compiled.ahead_of_time import compile_for
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, UsageError
from gspmd.transforms.machine.topology import is_topology


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledOutcome:
    """A plan as it was compiled: bytes that a device sends, seconds of a step in the compiler's order, bytes held."""

    sent_bytes: int
    step_s: float
    memory_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return dataclasses.asdict(self)


def check_judge(target: str) -> None:
    """Raise UsageError for a target without a compiler that says how long a step takes."""
    if not is_topology(target):
        raise UsageError(
            f"plans cannot be compiled for '{target}'", hint="give a topology, as tpu:v5p:2x2x2", code=Code.BAD_VALUE
        )


def compiled_outcome(
    module: ir.Module, target: str, arguments: Mapping[str, Any], most_bytes: float
) -> CompiledOutcome | None:
    """What the compiler makes of an annotated program; None where it refuses it or it holds more than it may.

    Errors: those of a machine without the compiler.
    """
    options = {name: value for name, value in arguments.items() if name != "target"}
    try:
        compiled = compile_for(api.partition(module, target=target, **options), target)
    except Error as error:
        if error.code is Code.OTHER_MACHINE:
            raise
        return None
    time, held = compiled.step_time(), compiled.memory.peak
    if time is None or (most_bytes and held > most_bytes):
        return None
    return CompiledOutcome(round(sum(each.sent_bytes * each.runs for each in time.collectives)), time.scheduled_s, held)
