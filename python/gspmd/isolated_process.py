"""The process in which an `isolation.Worker` has functions called: it answers until the other end is closed."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection


def main(descriptor: int, log: str) -> None:
    """Answer on a connection; what is written to stdout or stderr goes to the log."""
    end_with_parent()
    _keep_no_picture()
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    _serve(Connection(descriptor))


def end_with_parent() -> None:
    """Let Linux kill this process when its parent dies, as by a signal that nobody can handle."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


def _keep_no_picture() -> None:
    """No picture of the memory on the disk when the process ends, where there are limits."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve(connection: Connection) -> None:
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # noqa: BLE001 - what was sent cannot be read here
            connection.send((True, RuntimeError(f"{type(error).__name__}: {error}")))
            continue
        try:
            answer = (False, function(*arguments))
        except Exception as error:  # noqa: BLE001 - it belongs to who called
            answer = (True, error)
        try:
            connection.send(answer)
        except (TypeError, AttributeError, pickle.PicklingError):  # an error that holds more than its text
            connection.send((True, RuntimeError(str(answer[1]))))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
