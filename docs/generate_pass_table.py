"""Writes tools/pass_table.py: the passes and their options as they are declared, for help that loads no compiler.

Run `python docs/generate.py pass_table` after changing a pass or its options.
"""

from __future__ import annotations

import pprint
from pathlib import Path

from gspmd.pass_manager.native_passes import COMMON_PASSES
from gspmd.transforms.passes import options_of
from gspmd.transforms.pipeline import PASSES, PIPELINE, STAGES

PAGE = Path(__file__).resolve().parents[1] / "tools" / "pass_table.py"

_TEXT = '''"""The passes and their options, written by docs/generate_pass_table.py from their declarations."""

from __future__ import annotations

# fmt: off
PIPELINE = {pipeline!r}
STAGES: tuple[str, ...] = {stages}
"""What it stands for, in order."""
PASSES: tuple[tuple[str, str, tuple[tuple[str, str, str, str], ...], tuple[str, ...]], ...] = {passes}
"""Name, summary, options (name, type, meaning, default) and details of each."""
COMMON_PASSES: tuple[str, ...] = {common}
"""Passes of MLIR."""
'''


def pass_table() -> str:
    """The whole module."""
    passes = tuple(
        (
            declaration.argument,
            declaration.summary,
            tuple((o.name, o.type_name, o.help, o.print(o.default)) for o in options_of(declaration)),
            tuple(declaration.details),
        )
        for declaration in PASSES
    )
    stages = tuple(stage.argument for stage in STAGES)
    return _TEXT.format(
        pipeline=PIPELINE, stages=_written(stages), passes=_written(passes), common=_written(COMMON_PASSES)
    )


def _written(value: object) -> str:
    return pprint.pformat(value, width=116)
