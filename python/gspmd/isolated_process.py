"""The process of an `isolation.Worker`: it calls functions until the connection is closed."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection


def main(descriptor: int, log: str) -> None:
    """Answer calls on a connection; stdout and stderr go to the log."""
    end_with_parent()
    _keep_no_picture()
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    _serve(Connection(descriptor))


def end_with_parent() -> None:
    """Let Linux kill this process when its parent dies, even from an uncatchable signal."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


def _keep_no_picture() -> None:
    """Write no core dump, on platforms with resource limits."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve(connection: Connection) -> None:
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # noqa: BLE001 - the message cannot be unpickled here
            connection.send((True, RuntimeError(f"{type(error).__name__}: {error}")))
            continue
        try:
            answer = (False, function(*arguments))
        except Exception as error:  # noqa: BLE001 - it is raised again in the caller
            answer = (True, error)
        try:
            connection.send(answer)
        except (TypeError, AttributeError, pickle.PicklingError):  # an error with attributes besides its text
            connection.send((True, RuntimeError(str(answer[1]))))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
