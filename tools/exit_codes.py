"""The exit codes of all commands."""

from __future__ import annotations

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
EXIT_TIMEOUT = 124  # as timeout(1)
EXIT_INTERRUPTED = 130
