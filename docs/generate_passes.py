"""Writes docs/passes.md: every pass with its options, as they are declared.

Run `python docs/generate.py passes` after a change to a pass or its options.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gspmd.pass_manager.native_passes import COMMON_PASSES
from gspmd.transforms.optimize import PASSES as COLLECTIVE_PASSES
from gspmd.transforms.passes import Pass, options_of
from gspmd.transforms.pipeline import OPTIONAL, PASSES, PIPELINE, STAGES

PAGE = Path(__file__).with_name("passes.md")

_INTRODUCTION = f"""# Passes

`{PIPELINE}` stands for {", ".join(f"`{each.argument}`" for each in STAGES)}, in this order, and takes the options of
all of them. Every pass can be run alone: `gspmd-opt program.mlir --gspmd-ingest`, or in the text of a pipeline,
`--pass-pipeline='builtin.module(gspmd-ingest,gspmd-propagate{{replicate-unsupported}})'`. In Python options have
underscores: `gspmd.partition(program, options={{"combine_bytes": 65536}})`, or
`PassManager([Reshard(max_reshard_moves=1000)])`. Numbers are at least 0, and byte counts are per device.
"""


def passes() -> str:
    """The page."""
    optional = {each.argument for each in OPTIONAL}
    stages = {each.argument for each in STAGES}
    collective = {each.argument for each in COLLECTIVE_PASSES}
    rest = [each for each in PASSES if each.argument not in stages | optional | collective]
    groups = (
        ("The pipeline", STAGES),
        (f"In the pipeline with the option `update-axes` of `{PIPELINE}`", OPTIONAL),
        ("Passes of `gspmd-optimize`", COLLECTIVE_PASSES),
        ("Passes that are run alone", rest),
    )
    lines = [_INTRODUCTION]
    for title, members in groups:
        lines.append(f"## {title}\n")
        for each in members:
            lines += _described(each)
    lines.append("## Passes of MLIR\n")
    names = ", ".join(f"`{name}`" for name in COMMON_PASSES)
    lines.append(
        "All passes that jaxlib registers run in the same pipelines, nested where they have to be. Among them are"
        f" {names}."
    )
    return "\n".join(lines) + "\n"


def _described(declaration: type[Pass]) -> Iterator[str]:
    yield f"### {declaration.argument}\n"
    yield f"{declaration.summary}.\n"
    if declaration.needs:
        before = {need.left_by: None for need in declaration.needs}
        yield f"It works on what {' and '.join(f'`{name}`' for name in before)} leave{'s' * (len(before) == 1)}.\n"
    if declaration.details:
        yield "```text"
        yield from declaration.details
        yield "```\n"
    options = options_of(declaration)
    if options:
        yield "| option | type | default | meaning |"
        yield "|---|---|---|---|"
        for each in options:
            default = f"`{each.print(each.default)}`" if each.default not in (None, "", ()) else ""
            yield f"| `{each.name}` | {each.type_name} | {default} | {each.help.replace('|', chr(92) + '|')} |"
        yield ""
