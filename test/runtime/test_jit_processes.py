"""`gspmd.jit` over two processes of four devices each."""

from __future__ import annotations

import re
from pathlib import Path

from support.two_processes import run_twice

HERE = Path(__file__).parent


def test_training_and_what_goes_wrong() -> None:
    ends = run_twice(HERE / "jit_in_two_processes.py")
    assert [end.returncode for end in ends] == [0, 0], ends
    # Gloo writes to the same output, at times into the middle of a line of its own.
    first, second = (re.findall(r"trained [\d.]+|done", end.stdout) for end in ends)
    assert first == second
    assert len(first) == 2
    assert first[-1] == "done"


def test_the_page_runs(tmp_path: Path) -> None:
    page = (HERE.parents[1] / "docs" / "multihost.md").read_text()
    (tmp_path / "train.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    ends = run_twice(tmp_path / "train.py")
    assert [end.returncode for end in ends] == [0, 0], ends
    losses = [re.findall(r"^(\d) ([\d.]+)$", end.stdout, re.MULTILINE) for end in ends]
    assert losses[0] == losses[1]
    assert [number for number, _ in losses[0]] == ["0", "1", "2"]


def test_a_dead_process_ends_in_an_error() -> None:
    survivor, dead = run_twice(HERE / "dying_process.py", "SIGKILL")
    assert dead.returncode == -9
    assert survivor.returncode == 3, survivor
    line = survivor.stdout.splitlines()[-1]
    found = re.fullmatch(r"step \d+ after ([\d.]+) s: gspmd: error: (.*)", line)
    assert found, line
    assert float(found[1]) < 20
    assert re.search("a process may have died|the devices failed|the program failed", found[2]), line


def test_python_is_called_by_the_process_of_the_first_device() -> None:
    ends = run_twice(HERE / "jit_calls_in_two_processes.py")
    assert [end.returncode for end in ends] == [0, 0], ends
    first, second = (re.search(r"called (\d) times: (.*)", end.stdout) for end in ends)
    assert first is not None
    assert second is not None
    values = [float(n) for n in range(8)]
    assert first[2] == str([values, [2 * n for n in reversed(values)]])
    assert int(first[1]) >= 5
    assert second[1] == "0"
