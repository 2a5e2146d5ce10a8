"""One name for one thing: no two classes of the source have the same name."""

from __future__ import annotations

import ast
import collections
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("dialect", "python", "tools", "transforms")


def classes(path: Path) -> list[str]:
    """The names of the classes in a file, those of its own without the underscore."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name.lstrip("_") for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def test_no_two_classes_have_one_name() -> None:
    homes = collections.defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in classes(path):
                homes[name].append(path.relative_to(ROOT).as_posix())
    assert len(homes) > 200
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
