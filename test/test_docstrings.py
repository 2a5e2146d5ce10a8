"""Docstrings are whole sentences: a summary on the first line, then paragraphs that each end one."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

import pytest
from lint import ROOT

_FOLDERS = ("benchmarks", "dialect", "docs", "examples", "python", "test", "tools", "transforms")
_SOURCES = sorted((*ROOT.glob("*.py"), *(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py"))))
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_ENDS = (".", ":", "?", "!")


def _docstrings(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


def _is_code(paragraph: str) -> bool:
    return all(line.startswith("    ") for line in paragraph.splitlines())


def faults(text: str) -> list[str]:
    """The paragraphs of a docstring that do not end a sentence, or that go on with one from the paragraph before."""
    paragraphs = re.split(r"\n\s*\n", text)
    found = [each for each in paragraphs if not _is_code(each) and not each.rstrip().endswith(_ENDS)]
    for before, after in itertools.pairwise(paragraphs):
        if after[:1].islower() and not before.rstrip().endswith(":"):
            found.append(after)
    return found


def test_paragraphs_of_docstrings_end_sentences() -> None:
    assert _SOURCES, "no sources"
    found = [
        f"{path.relative_to(ROOT)}: {name}: {fault}"
        for path in _SOURCES
        for name, text in _docstrings(path.read_text(encoding="utf-8"))
        for fault in faults(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The axes of a dimension.", 0),
        ("The axes.\n\nNone where there are none.", 0),
        ("As in:\n\n    f32[8] -> f32[4]\n\nand so on.", 1),
        ("The axes, for example:\n\n    f32[8] -> f32[4]", 0),
        ("The axes that come to\n\nanother dimension.", 2),
        ("The axes that come to\n\nAnother dimension.", 1),
        ("The axes", 1),
        ("The axes.\n\nnone where there are none.", 1),
    ],
)
def test_a_sentence_that_a_blank_line_cuts_is_found(text: str, count: int) -> None:
    assert len(faults(text)) == count
