"""How long Python takes to import gspmd, and the commands to print their help.

Run `python benchmarks/startup.py`; it prints the median of ten runs of each, in wall-clock and in CPU time, with files
in the cache of the system. On a machine that does other things as well, the CPU time says more.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from gspmd.tables import table

_RUNS = 10
_COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import gspmd": ["-c", "import gspmd"],
    "gspmd --help": ["-m", "gspmd.tools.cli", "--help"],
    "gspmd partition --help": ["-m", "gspmd.tools.cli", "partition", "--help"],
    "gspmd-opt --help": ["-m", "gspmd.tools.opt", "--help"],
}


def run_once(arguments: list[str]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one process."""
    before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    wall_s, after = time.perf_counter() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rows = [("", "wall", "CPU")]
    for name, arguments in _COMMANDS.items():
        run_once(arguments)
        runs = [run_once(arguments) for _ in range(_RUNS)]
        wall_s, cpu_s = (statistics.median(times) for times in zip(*runs, strict=True))
        rows.append((name, f"{wall_s * 1e3:.0f} ms", f"{cpu_s * 1e3:.0f} ms"))
    print("\n".join(table(rows, right=(1, 2))))


if __name__ == "__main__":
    main()
