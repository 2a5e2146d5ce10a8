"""Tables and lines fit the terminal, and no word is broken."""

from __future__ import annotations

import pytest

from gspmd.tables import fitted, table

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
