"""`gspmd check --bisect` names the pass and the operation of faults that are planted."""

from __future__ import annotations

import pytest
from support.planted import PLANTED, PROGRAM, Planted

import gspmd


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_the_fault_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch)
    report = gspmd.check(planted.program, bisect=True)
    assert not report
    fault = report.fault
    assert fault is not None
    print(fault)
    assert (fault.pass_name, fault.operation, fault.value) == (planted.pass_name, planted.operation, planted.value)
    assert fault.step == planted.step
    assert planted.symptom in fault.symptom
    assert fault.location.startswith("-:") or not fault.operation or fault.operation == "func.return"
    assert "func.func" in fault.reduced
    if planted.value:
        assert planted.operation in fault.reduced
        assert fault.reduced.count("\n") < PROGRAM.count("\n")


def test_a_program_that_is_right_has_no_fault() -> None:
    report = gspmd.check(PROGRAM, bisect=True)
    assert report
    assert report.fault is None
