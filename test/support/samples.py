"""How many random cases a test draws: `GSPMD_SAMPLES` times as many as usual, 1 unless the nightly run sets it."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("GSPMD_SAMPLES", "1"))
