"""Functions called in a process of their own: what they give, and that their death is noticed."""

from __future__ import annotations

import os
import signal
import time

import pytest

from gspmd.dialect.errors import InputError, UsageError
from gspmd.isolation import ProcessDied, Worker


def _refuse(text: str) -> None:
    raise UsageError(text, hint="do better")


def _abort() -> None:
    os.write(2, b"F0000 Check failed: what XLA says\n")
    os.abort()


def test_values_and_errors_come_back() -> None:
    with Worker() as worker:
        assert worker.call(len, "four") == 4
        with pytest.raises(UsageError) as found:
            worker.call(_refuse, "is wrong")
        assert (found.value.message, found.value.hint) == ("is wrong", "do better")


def test_a_process_that_dies_says_how_and_is_replaced() -> None:
    with Worker() as worker:
        with pytest.raises(ProcessDied, match=r"code -6 \(SIGABRT\): F0000 Check failed: what XLA says"):
            worker.call(_abort)
        with pytest.raises(ProcessDied, match="ended with code 3"):
            worker.call(os._exit, 3)
        assert worker.call(len, "four") == 4


def test_what_is_printed_is_no_answer() -> None:
    with Worker() as worker:
        worker.call(print, "text")
        assert worker.call(len, "four") == 4


def test_an_answer_is_not_waited_for_without_end() -> None:
    with Worker(timeout_s=1) as worker, pytest.raises(ProcessDied, match="no answer within 1 s"):
        worker.call(time.sleep, 60)


def test_the_process_ends_with_the_worker() -> None:
    worker = Worker()
    number = worker.call(os.getpid)
    worker.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(number, signal.SIGCONT)


def test_where_no_process_can_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(InputError, match="cannot start '/nowhere/python'"):
        Worker().call(len, "four")
