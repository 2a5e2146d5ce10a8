"""The programs whose completions are compared: small ones that isolate one behaviour each, and models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import models

SMALL = Path(__file__).parent / "corpus"


def programs(only: Sequence[str] = ("",)) -> Iterator[tuple[str, str]]:
    """Name and MLIR text of every program with one of `only` in its name."""
    for path in sorted(SMALL.glob("*.mlir")):
        for text in path.read_text().split("// -----\n"):
            found = re.search(r"^module @(\w+)", text, re.MULTILINE)
            assert found, f"'{path.name}' has a part without a named module"
            name = f"{path.stem}/{found[1]}"
            if any(part in name for part in only):
                yield name, text
    for name, model in models.MODELS.items():
        if any(part in name for part in only):
            yield name, model.lower()
