"""The outputs of the stages for a program, kept as text so that each can be inspected."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gspmd.checks.programs import printed, read
from gspmd.dialect.errors import Error
from gspmd.pass_manager.manager import After, run_passes, run_pipeline
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.writing import written
from gspmd.transforms.passes import Pass


@dataclasses.dataclass(frozen=True, slots=True)
class StagedProgram:
    """A program and the outputs of passes: `texts` has the program itself first, then the output of each pass.

    `failure` is the exception of the next pass, if one failed. `misfit` is the unmet precondition of the next pass, if
    that is known before it runs.
    """

    passes: tuple[Pass, ...]
    texts: tuple[str, ...]
    failure: Exception | None = None
    misfit: Error | None = None


def stages_of(program: str, passes: Sequence[Pass], attach: After) -> StagedProgram:
    """Run passes on a program; `attach` is called after each, before its output is recorded."""
    texts = [program]
    needs = [*(pass_.needs for pass_ in passes[1:]), ()]
    misfits: list[Error] = []

    def after(name: str, top: Operation) -> None:
        attach(name, top)
        texts.append(text_of(top))
        for need in needs[len(texts) - 2]:
            try:
                need(top)
            except Error as error:
                misfits.append(error)
                raise

    try:
        run_passes(passes, read(program), after)
    except Exception as error:  # noqa: BLE001 - the exception of a pass is the result
        failure = None if misfits else error
        return StagedProgram(tuple(passes), tuple(texts), failure, misfits[0] if misfits else None)
    return StagedProgram(tuple(passes), tuple(texts))


def after_passes(program: str, passes: Sequence[Pass]) -> str:
    """The output of the passes for a program. Errors: those of the passes."""
    module = read(program)
    run_passes(passes, module)
    return printed(module)


def after_pipeline(program: str, passes: Sequence[Pass], attach: After) -> str:
    """As `after_passes`, but run as `gspmd.partition` runs passes, with repeated layers folded."""
    module = read(program)
    run_pipeline(passes, module, attach)
    return printed(module)


def text_of(top: Operation) -> str:
    """A module in memory, with locations."""
    return printed(written(top))
