"""The entry points of `gspmd` and `gspmd-opt`, which import nothing large before the process forks."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from gspmd.tools import supervision


def gspmd() -> None:
    """The command `gspmd`."""
    _end(supervision.supervised("gspmd", _main_of("gspmd.tools.cli")))


def gspmd_opt() -> None:
    """The command `gspmd-opt`."""
    _end(supervision.supervised("gspmd-opt", _main_of("gspmd.tools.opt")))


def _end(status: int) -> NoReturn:
    """Exit with this code even if an interrupt arrives while Python shuts down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)


def _main_of(module: str) -> Callable[[], int]:
    def main() -> int:
        from gspmd import reproducer

        reproducer.listener = supervision.begins_pass
        status: int = importlib.import_module(module).main()
        return status

    return main
