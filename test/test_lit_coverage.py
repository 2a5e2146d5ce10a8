"""Every localizer and every pass has a lit test.

The localizers of `transforms/ops/<family>.py` are tested in `test/ops/<family>.mlir`, with dashes for underscores. A
pass is tested in every file that names it in a RUN line.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from gspmd.transforms import ops
from gspmd.transforms.ops.op_definition import OpDef
from gspmd.transforms.pipeline import PASSES

_TESTS = Path(__file__).parent
_DIALECTS = ("stablehlo.", "chlo.")


def _localized() -> dict[str, set[str]]:
    """The operations that have a localizer, by the family that defines it."""
    found: dict[str, set[str]] = {}
    for name in (module.name for module in pkgutil.iter_modules(ops.__path__)):
        family = importlib.import_module(f"{ops.__name__}.{name}")
        for table in (value for value in vars(family).values() if isinstance(value, dict)):
            for definition in table.values():
                if isinstance(definition, OpDef) and getattr(definition.localize, "__module__", "") == family.__name__:
                    found.setdefault(name, set()).add(definition.name)
    return found


def _run_lines(path: Path) -> str:
    return "\n".join(re.findall(r"^// RUN:(.*)$", path.read_text(), re.MULTILINE))


def _names(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text.replace(f"--{word}", word)) is not None


_LOCALIZED = _localized()
_RUN = {path: _run_lines(path) for path in sorted(_TESTS.rglob("*.mlir"))}


@pytest.mark.parametrize("family", sorted(_LOCALIZED))
def test_localizers(family: str) -> None:
    path = _TESTS / "ops" / f"{family.replace('_', '-')}.mlir"
    assert path.exists(), f"the localizers of {family}.py have no {path.relative_to(_TESTS.parent)}"
    assert _names(_RUN[path], "gspmd-localize") or _names(_RUN[path], "gspmd-partition"), f"{path} localizes nothing"
    operations = {name for name in _LOCALIZED[family] if name.startswith(_DIALECTS)}
    text = path.read_text()
    assert sorted(name for name in operations if not _names(text, name)) == []


@pytest.mark.parametrize("argument", [declaration.argument for declaration in PASSES])
def test_passes(argument: str) -> None:
    assert any(_names(text, argument) for text in _RUN.values()), f"no RUN line names {argument}"


def test_families_are_found() -> None:
    assert {"convolution", "reduction", "callbacks", "partial_values"} <= _LOCALIZED.keys()
    assert "elementwise" not in _LOCALIZED
