"""Numbers on locations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib.mlir import ir

from gspmd.dialect.location_marks import GIVEN, PLACE, LocationMark
from gspmd.transforms.parsing.mlir import new_context, parse_module

CONTEXT = new_context()


@given(st.text(max_size=8).filter(lambda name: "\0" not in name), st.integers(0, 10**6))
def test_a_mark_is_read_as_set(name: str, number: int) -> None:
    op = parse_module("func.func @main() { return }", CONTEXT).body.operations[0].operation
    op.location = before = ir.Location.name(name, context=CONTEXT)
    PLACE.set(op, number)
    assert PLACE.numbers(op.location) == (number,)
    assert GIVEN.numbers(op.location) == ()
    assert PLACE.without(op.location) == str(before)


@pytest.mark.parametrize("mark", [GIVEN, PLACE])
def test_marks_are_read_from_the_inside(mark: LocationMark) -> None:
    op = parse_module("func.func @main() { return }", CONTEXT).body.operations[0].operation
    for number in (1, 2):
        mark.set(op, number)
    assert mark.numbers(op.location) == (2, 1)
    assert mark.numbers(str(op.location)) == (2, 1)
