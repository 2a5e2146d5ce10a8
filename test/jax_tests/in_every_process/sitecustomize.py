"""What Python runs first in the processes of JAX's tests for several: they are no processes of pytest."""

from __future__ import annotations

import os
import sys

if os.environ.get("GSPMD_IN_PLACE_OF_JIT") and any("multiprocess_test_worker_id" in text for text in sys.orig_argv):
    from in_place_of_jit import replace

    replace()
