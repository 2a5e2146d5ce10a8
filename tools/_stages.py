"""Progress of slow steps, on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gspmd.tools import supervision

_PATIENCE_S = 2.0


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Say what is going on if it takes more than two seconds."""
    timer = threading.Timer(_PATIENCE_S, lambda: print(f"gspmd: {name} ...", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    supervision.doing(name)
    try:
        yield
    finally:
        timer.cancel()
        supervision.doing("")
