"""What stages make of a program, one after the other, kept as text: what each leaves can be looked at alone."""

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
    """A program and what passes made of it: `texts` has the program itself first, then what each pass left.

    `failure` is what the pass raised behind the last of these, if not all came to their end. `misfit` is what the pass
    behind the last one cannot work on, where that can be told before it runs.
    """

    passes: tuple[Pass, ...]
    texts: tuple[str, ...]
    failure: Exception | None = None
    misfit: Error | None = None


def stages_of(program: str, passes: Sequence[Pass], attach: After) -> StagedProgram:
    """Run passes on a program; `attach` is called behind each, before what it left is looked at."""
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
    except Exception as error:  # noqa: BLE001 - whatever a pass raises is what is looked for
        failure = None if misfits else error
        return StagedProgram(tuple(passes), tuple(texts), failure, misfits[0] if misfits else None)
    return StagedProgram(tuple(passes), tuple(texts))


def after_passes(program: str, passes: Sequence[Pass]) -> str:
    """What passes leave of a program. Errors: theirs."""
    module = read(program)
    run_passes(passes, module)
    return printed(module)


def after_pipeline(program: str, passes: Sequence[Pass], attach: After) -> str:
    """The same as `gspmd.partition` runs them, layers that repeat once."""
    module = read(program)
    run_pipeline(passes, module, attach)
    return printed(module)


def text_of(top: Operation) -> str:
    """A module in memory, with locations."""
    return printed(written(top))
