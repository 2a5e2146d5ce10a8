"""The stages work on the program in memory: operations of MLIR's are met where it is read and written."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_OBJECT = re.compile(r"\bir\.(?:Block|BlockArgument|InsertionPoint|Module|OpResult|OpView|Operation|Region|Value)\b")
_AT_THE_ENDS = (
    "transforms/parsing/",
    *(f"transforms/ir/{name}.py" for name in ("reading", "writing", "native")),
    "transforms/ir/signature.py",  # that of a module of MLIR's, which is read for it
)


def test_stages_know_mlir_by_types_attributes_and_locations_alone() -> None:
    found = {}
    for path in (ROOT / "transforms").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(_AT_THE_ENDS) and (used := _OBJECT.findall(path.read_text(encoding="utf-8"))):
            found[name] = used
    assert not found
