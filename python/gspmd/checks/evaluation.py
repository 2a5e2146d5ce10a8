"""Run and compare programs between stages, in a process that may crash.

Before `gspmd-localize`, a program has global shapes and runs on one device without its shardings. After it, it is the
per-device program.
"""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager, nullcontext

from gspmd.checks.programs import read
from gspmd.checks.running import Inputs, ProgramPair, Reference, given_arrays, reference_of, runs_of
from gspmd.checks.verdicts import CheckRun
from gspmd.runtime import executable as runtime
from gspmd.runtime.executable_module import is_partitioned


@dataclasses.dataclass(frozen=True, slots=True)
class CheckSettings:
    """The inputs and tolerances of `gspmd.check`."""

    inputs: Inputs | None = None
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None


_reference: tuple[str, Reference] | None = None


def described(program: str, judging: CheckSettings) -> str:
    """The inputs of an unpartitioned program, which is compiled for that. Errors: as `gspmd.check`."""
    reference = _compiled_reference(program)
    if judging.inputs is not None:
        given_arrays(reference.executable.signature.inputs, judging.inputs)
    return reference.described


def judged(program: str, changed: str, judging: CheckSettings) -> tuple[tuple[CheckRun, ...], tuple[str, ...]]:
    """The results of a program that stages have changed, compared with those of the original, and notes.

    Errors: those of compiling and running.
    """
    reference = _compiled_reference(program)
    module = read(changed)
    if is_partitioned(module):
        other = runtime.compile(module, padding="nan")
    else:
        other = reference_of(module, None).executable
    pair = ProgramPair(reference, other, judging.rtol, judging.atol)
    return runs_of(pair, judging.inputs, judging.seed, _silent)


def _compiled_reference(program: str) -> Reference:
    global _reference
    if _reference is None or _reference[0] != program:
        _reference = program, reference_of(read(program), None)
    return _reference[1]


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()
