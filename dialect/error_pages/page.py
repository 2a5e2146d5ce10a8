"""The page of an error code."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.error_codes import Code

PROGRAM = """\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.sine %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
"""The file program.mlir of examples that do not show it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """What causes an error: a command line, or Python; `text` is the file of the command that matters."""

    command: str = ""
    file: str = "program.mlir"
    text: str = ""
    python: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """What a code means, what causes it, and how to mend it; `title` is a line without a stop."""

    code: Code
    title: str
    meaning: str
    example: Example
    remedy: str
