"""docs/words.md is true: terms are defined where it says, and no class or constant has a name that it excludes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "words.md"
FOLDERS = ("dialect", "python", "tools", "transforms")
_OTHERS = {
    "transforms/decide/__init__.py": {"MOST"},  # the value of an option
}
"""Names that still use an excluded word."""


def definitions() -> list[tuple[str, str]]:
    """The terms of the tables, and where each is defined."""
    rows = (line.strip("|").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| ")
    return [
        (row[0].strip(), row[2].strip(" |`")) for row in rows if len(row) == 3 and row[2].strip(" |").startswith("`")
    ]


def excluded(sentence: str) -> frozenset[str]:
    """The words in backticks of the sentence that starts so."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    found = re.search(rf"{re.escape(sentence)}: ([^.;]*)[.;]", text)
    assert found is not None, sentence
    return frozenset(re.findall(r"`(\w+)`", found[1]))


def names(path: Path) -> Iterator[tuple[str, bool]]:
    """The names of classes and constants in a file, and whether each is a class."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id.isupper():
            yield node.id, False


@pytest.mark.parametrize(("term", "where"), definitions(), ids=[term for term, _ in definitions()])
def test_a_term_is_defined_where_the_page_says(term: str, where: str) -> None:
    path, _, name = where.partition(": ")
    assert (ROOT / path).is_file(), term
    if name:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}, term


def test_terms_are_defined_once() -> None:
    terms = [word.strip() for term, _ in definitions() for word in term.split(",")]
    assert len(terms) == len(set(terms)) > 60


def test_excluded_words_name_no_classes_or_constants() -> None:
    in_classes, in_constants = excluded("Not in names of classes"), excluded("Not in names of constants")
    assert len(in_classes) > 10
    assert in_constants == {"MOST", "LEAST"}
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, is_class in names(path):
                words = re.findall(r"[A-Z][a-z]*", name) if is_class else name.strip("_").split("_")
                if not (in_classes if is_class else in_constants).isdisjoint(words):
                    found.setdefault(path.relative_to(ROOT).as_posix(), set()).add(name)
    assert found == _OTHERS
