"""MaxText by gspmd.jit and by jax.jit: trained on eight CPU devices, and compiled for TPUs that are not here.

`python benchmarks/maxtext/run.py`, in an environment as `environment.sh` makes it, measures what is not known in
`run.json` yet, every configuration in a process of its own, and says what came out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from cells import Cell, Table
from configurations import RUNS, TOPOLOGIES, Run
from kernels import PROGRAMS
from page import page
from watching import JAX, OURS

ROWS: dict[str, Any] = {**RUNS, **TOPOLOGIES, **PROGRAMS}
LIMIT_S = 900


def measure(name: str, how: str) -> Cell:
    """The figures of a configuration by one of the two, or what was raised."""
    import ahead_of_time
    import kernels
    import training

    row = ROWS[name]
    cell: Cell
    module = training if isinstance(row, Run) else kernels if name in PROGRAMS else ahead_of_time
    try:
        cell = module.measure(row, how)
    except Exception as error:  # noqa: BLE001  whatever a library raises is what the table says of it
        traceback.print_exc()
        said = " ".join(str(error).split()).partition(" Suspected Python")[0]
        # Files by their names: where they lie says nothing to others.
        cell = {"error": re.sub(r"(?<![\w.])/[\w./+-]*/", "", f"{type(error).__name__}: {said}")[:300]}
    return cell | {"revision": revision()} if how == OURS else cell


def revision() -> str:
    """What gspmd is at, where the source tree is a clone: a cell does not notice by itself that it is out of date."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def brief(cell: Cell) -> str:
    """The cell in a line."""
    sent, peak = sum(cell["sent"].values()), cell["memory"]["peak"]
    made = cell["lower_s"] + cell["partition_s"] + cell["compile_s"]
    return f"sends {sent:,.0f} bytes, holds {peak:,} bytes, made in {made:.1f} s of a processor"


TABLE = Table(
    script=__file__,
    about=__doc__ or "",
    rows=ROWS,
    hows=(JAX, OURS),
    measure=measure,
    page=page,
    separator=";",
    limit_s=LIMIT_S,
    brief=brief,
)

if __name__ == "__main__":
    sys.exit(TABLE.main())
