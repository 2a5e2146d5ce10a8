"""Tables and lines fit the terminal, and no word is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gspmd.tables import bad, choose_color, fitted, good, is_colored, table

ROWS = [
    ("runs", "sent", "at", "cause"),
    ("1", "1.5 MiB", "decoder.py:151", "operand 0 of 'dot_general' is needed as whole, or nearly so"),
    ("24", "5 B", "a_file_with_quite_a_long_name.py:1555", "a sum"),
]


def words(lines: list[str]) -> list[str]:
    return sorted(word for line in lines for word in line.split())


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120, 200])
def test_a_table_fits(width: int) -> None:
    lines = table(ROWS, right=(0, 1), most=width)
    assert max(map(len, lines)) <= width
    assert words(lines) == words([" ".join(row) for row in ROWS])


def test_a_table_is_as_wide_as_it_is_where_nothing_limits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(table(ROWS)) == 3
    monkeypatch.setenv("COLUMNS", "80")
    assert len(table(ROWS)) > 3


def test_texts_go_below_their_row_where_there_is_no_room_beside_it() -> None:
    lines = table(ROWS, right=(0, 1), most=66)
    assert lines[:2] == ["  runs     sent  at", "      cause"]
    assert lines[3] == "      operand 0 of 'dot_general' is needed as whole, or nearly so"


def test_words_that_are_too_long_stay_whole() -> None:
    assert table([("a" * 100, "b")], most=40) == [f"  {'a' * 100}", "      b"]


def test_lines_go_on_further_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert fitted(["  " + "word " * 9]) == ["  " + " ".join(["word"] * 7), "      word word"]
    monkeypatch.delenv("COLUMNS")
    assert fitted(["word " * 50]) == ["word " * 50]


# ---- colors ----


CODES = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def colored() -> Iterator[None]:
    choose_color("always")
    yield
    choose_color("never")


@pytest.mark.usefixtures("colored")
@pytest.mark.parametrize("width", [40, 66, 80, 120])
def test_colors_take_no_room(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [ROWS[0], tuple(map(good, ROWS[1])), tuple(map(bad, ROWS[2]))]
    lines = fitted(table(rows, right=(0, 1)))
    choose_color("never")
    assert [CODES.sub("", line) for line in lines] == fitted(table(ROWS, right=(0, 1)))
    assert any("\x1b[1;32m1.5 MiB\x1b[0m" in line for line in lines)
    assert any("\x1b[1;31ma sum\x1b[0m" in line for line in lines)


@pytest.mark.usefixtures("colored")
def test_a_line_that_goes_on_is_colored_on_each() -> None:
    assert fitted([good("PASS")]) == ["\x1b[1;32mPASS\x1b[0m"]


@pytest.mark.parametrize(
    ("choice", "is_terminal", "variables", "expected"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_colors_are_for_terminals_of_people_who_want_them(
    choice: str, is_terminal: bool, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    choose_color(choice)
    try:
        assert is_colored() is expected
    finally:
        choose_color("never")


def test_what_won_is_plain_text_where_there_are_no_colors() -> None:
    assert fitted([good("PASS"), *table([(good("a"), bad("b"))])]) == ["PASS", "  a  b"]
