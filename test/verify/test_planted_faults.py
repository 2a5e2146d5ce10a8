"""Partitioned programs with a fault in them are refuted, unless they compute the same."""

from __future__ import annotations

import random

import pytest
from proof.enumeration import sample
from proof.operations import FAMILIES
from support import samples
from support.planted_faults import faults

import gspmd

_PROGRAMS, _FAULTS = 3 * samples.TIMES, 4


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_not_refuted_is_right(family: str) -> None:
    for case in sample(family, 60, 4, _PROGRAMS):
        text = str(case.program())
        try:
            product = gspmd.partition(text)
        except gspmd.Unsupported:
            continue
        assert gspmd.verify(text, product).verdict is not gspmd.Verdict.REFUTED, text
        for kind, wrong in faults(product.module_text, random.Random(1), _FAULTS):
            try:
                found = gspmd.verify(text, wrong)
            except gspmd.Error:  # it is no program
                continue
            may_not_end = "stablehlo.while" in wrong and not found.proved
            if found.verdict is not gspmd.Verdict.REFUTED and not may_not_end:
                assert gspmd.check(text, wrong).passed, f"{kind}:\n{text}\n{wrong}"
