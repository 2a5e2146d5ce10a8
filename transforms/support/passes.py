"""What a pass is: a frozen dataclass whose fields are its options.

Command-line flags, help, documentation and pipeline text are all derived from the declaration.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxlib.mlir import ir


def option(default: Any, help: str) -> Any:
    """A field of a pass: an option of type bool, int, str or tuple[str, ...], with its help text."""
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True)
class Pass:
    """One transformation of a module, in place.

    Subclasses are frozen dataclasses that set `argument` (the name in pipelines, e.g. `gspmd-propagate`)
    and `summary` (one line of help), declare options with `option`, and implement `run`.
    """

    argument: ClassVar[str]
    summary: ClassVar[str]

    def run(self, module: ir.Module) -> None:
        """Transform `module` in place. Raises `gspmd.dialect.errors.Error` on what it refuses."""
        raise NotImplementedError
