"""Writes docs/errors.md: what each code of errors means. Run `python docs/generate.py errors` after changing a page."""

from __future__ import annotations

from pathlib import Path

from gspmd.dialect.error_pages import FAMILIES, PROGRAM, Page
from gspmd.tools.exit_codes import MEANINGS

PAGE = Path(__file__).resolve().parent / "errors.md"

_INTRODUCTION = """# Errors

This page is written by `docs/generate_errors.py` from the table in `dialect/error_pages`. `gspmd explain-error G0401`
prints the entry of one code.

Every error has a code. It is in brackets at the end of the first line, in JSON as `"code"`, and in Python as
`error.code`:

    program.mlir:2:1: error: 'func.func' op arg 0 - unknown axis name: "q" [G0401]
     2 | func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"q"}}]>}}) -> tensor<8xf32> {{
       | ^

`--diagnostics=short` prints one line per error, with the hint at its end and without the code. `--diagnostics=json`
prints one object per line: `"severity"` (error, warning or remark), `"code"`, `"message"`, `"hint"`, `"location"`
(`"file"`, `"line"`, `"column"`) and `"notes"`, with null for what is not known. `--json` implies this for commands
without JSON output of their own. The environment variable `GSPMD_DIAGNOSTICS` sets the default. `--color` is `auto`,
`always` or `never`, and `NO_COLOR` is honoured. Remarks and warnings have no code, and `-q` omits them.

The exit code of every command is one of these:

| code | meaning |
|--:|---|
{exit_codes}

It is not an error if the reader of the output stops early (`gspmd explain ... | head`).

Examples that do not show their `program.mlir` use this program:

```mlir
{program}```
"""


def errors() -> str:
    """The whole page."""
    rows = "\n".join(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    parts = [_INTRODUCTION.format(exit_codes=rows, program=PROGRAM)]
    for family, pages in FAMILIES:
        parts += [f"\n## {family}\n", *(_section(page) for page in pages)]
    return "".join(parts)


def _section(page: Page) -> str:
    example = page.example
    lines = [f"\n### {page.code}: {page.title}\n", page.meaning, ""]
    if example.text:
        language = {"mlir": "mlir", "toml": "toml", "json": "json"}.get(example.file.rpartition(".")[2], "")
        lines += [f"```{language}", *example.text.rstrip("\n").split("\n"), "```", ""]
    lines += [f"    {example.command}"] if example.command else ["```python", example.python.rstrip("\n"), "```"]
    return "\n".join([*lines, "", page.remedy, ""])
