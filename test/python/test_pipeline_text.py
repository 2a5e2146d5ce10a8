"""Pipeline text is read and printed without loss, and mistakes in it are pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspmd.dialect.errors import UsageError
from gspmd.pass_manager.pipeline_text import Element, parse_option_texts, parse_pipeline, print_elements

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9,._-]{1,6}|\"[a-z {}()]{0,6}\"|\{[a-z ]{0,3}\}", fullmatch=True)
OPTIONS = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(lambda pairs: " ".join(f"{k}={v}" for k, v in pairs))
ELEMENTS = st.recursive(
    st.builds(Element, NAMES, OPTIONS),
    lambda inner: st.builds(
        lambda children: Element("func.func", children=tuple(children)), st.lists(inner, min_size=0, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(ELEMENTS, max_size=4))
def test_printed_pipelines_read_back(elements: list[Element]) -> None:
    text = f"builtin.module({print_elements(tuple(elements))})"
    assert parse_pipeline(text) == tuple(elements)


def test_spaces_and_a_missing_anchor_do_not_matter() -> None:
    expected = (Element("a", "x=1 y"), Element("func.func", children=(Element("b"), Element("c"))))
    assert parse_pipeline(" builtin.module( a{ x=1 y } , func.func( b , c ) ) ") == expected
    assert parse_pipeline("a{x=1 y},func.func(b,c)") == expected


def test_option_values_may_be_quoted_or_in_braces() -> None:
    text = 'a=1 b="x y" c={d=2 e={f}} g \'h'
    with pytest.raises(UsageError):
        parse_option_texts(text)
    pairs = parse_option_texts("a=1 b=\"x y\" c={d=2 e={f}} g h='{' i=")
    assert pairs == (("a", "1"), ("b", "x y"), ("c", "d=2 e={f}"), ("g", "true"), ("h", "{"), ("i", ""))


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("a,", 3, "expected a pass, found the end"),
        ("a b", 3, "expected ',' or the end, found 'b'"),
        ("a(b", 4, "expected ',' or ')', found the end"),
        ("a{b", 2, "'{' is never closed, found '{'"),
        ('a{b="c}', 5, "a quote is never closed, found '\"'"),
        ("a)", 2, "expected ',' or the end, found ')'"),
        ("a,,b", 3, "expected a pass, found ','"),
    ],
)
def test_mistakes_are_pointed_at(text: str, column: int, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline(text)
    assert caught.value.message == f"in '{text}', column {column}: {problem}"
