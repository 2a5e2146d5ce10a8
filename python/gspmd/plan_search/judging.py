"""Judge the best few plans by the compiler of the target: its schedule, cycles and memory."""

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
    """A compiled plan: bytes that a device sends, seconds of a step in the compiler's schedule, bytes of memory."""

    sent_bytes: int
    step_s: float
    memory_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dataclasses.asdict(self)


def check_judge(target: str) -> None:
    """Raise UsageError for a target whose compiler does not report the time of a step."""
    if not is_topology(target):
        raise UsageError(
            f"plans cannot be compiled for '{target}'", hint="give a topology, as tpu:v5p:2x2x2", code=Code.BAD_VALUE
        )


def compiled_outcome(
    module: ir.Module, target: str, arguments: Mapping[str, Any], most_bytes: float
) -> CompiledOutcome | None:
    """The compiled program; None if the compiler refuses it or it exceeds the memory limit.

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
