"""Programs between stages, run and compared: functions that are called in a process XLA may end.

Before `gspmd-localize` a program is one for whole values, which runs on one device once its shardings are left out.
Behind it, it is what every device runs.
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
class Judging:
    """What programs are run on, and how far results may be off: as `gspmd.check` takes it."""

    inputs: Inputs | None = None
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None


_reference: tuple[str, Reference] | None = None


def described(program: str, judging: Judging) -> str:
    """What an unpartitioned program runs on, which is compiled. Errors: as `gspmd.check`."""
    reference = _compiled_reference(program)
    if judging.inputs is not None:
        given_arrays(reference.executable.signature.inputs, judging.inputs)
    return reference.described


def judged(program: str, changed: str, judging: Judging) -> tuple[tuple[CheckRun, ...], tuple[str, ...]]:
    """The results of a program that stages have changed, compared with those that it has as it is; and notes.

    Errors: whatever compiling and running raises.
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
