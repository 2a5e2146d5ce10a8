"""Our rules beside those of Shardy, on the same operations: every difference is known and has a reason."""

from __future__ import annotations

import jaxlib
import pytest
from shardy_rules import DIFFERENCES, computed, our_rule, our_structure, shardy_rule, shardy_structure


@pytest.mark.skipif(not jaxlib.__version__.startswith("0.10."), reason="the reasons are for the Shardy of jaxlib 0.10")
@pytest.mark.parametrize("name", computed())
def test_rules_are_those_of_shardy_except_where_a_reason_is_given(name: str) -> None:
    ours, theirs = our_structure(our_rule(name)), shardy_structure(shardy_rule(name))
    assert (ours != theirs) == (name in DIFFERENCES), f"ours {ours}\nShardy's {theirs}"


def test_every_reason_is_that_of_an_example() -> None:
    assert DIFFERENCES.keys() <= set(computed())


def test_structures_tell_what_belongs_together_what_it_costs_and_in_what_order() -> None:
    dot = "([i, k], [k, j])->([i, j]) {i=8, j=4, k=2}"
    others = [
        f"{dot} reduction={{k}}",
        f"{dot} permutation={{k}}",
        f"{dot} need_replication={{k}}",
        "([i, k], [k, j])->([i, l]) {i=8, j=4, k=2, l=4}",
        "([ij])->([i, j]) {i=8, j=4}",
        "([ji])->([i, j]) {i=8, j=4}",
    ]
    assert len({shardy_structure(text) for text in [dot, *others]}) == 7
    letters = "([k, z_1], [z_1, i])->([k, i]) {i=4, k=8, z_1=2} reduction={z_1}"
    assert shardy_structure(letters) == shardy_structure(others[0])
