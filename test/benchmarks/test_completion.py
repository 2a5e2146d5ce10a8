"""Completed shardings beside those of Shardy and XLA: on the programs tried here, ours must not cost more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.simple_code import users_environment

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "completion.py"
_LINE = re.compile(
    r"^(?P<name>\S+), (?P<peer>\w+): (?P<differ>\d+) of (?P<values>\d+) values differ; "
    r"bytes sent (?P<ours>[\d,]+) with ours, (?P<theirs>[\d,]+) with",
    re.MULTILINE,
)
MODELS = "mlp-fsdp,decoder-2d-scan,conformer,mixture-of-experts,sequence-parallel,decode,accumulated,two-towers"
# XLA leaves activations of the Conformer whole between its blocks, where ours are split: it reduces, we scatter and
# gather the same bytes, hold less, and sum the statistics of layer norms over the split dimension.
# A look ahead would find where the peers split the sequence. Completion is a beginning; `gspmd-decide` finds better.
DEARER = {("conformer", "XLA"): 1.02, ("sequence-parallel", "Shardy"): 1.06, ("sequence-parallel", "XLA"): 1.06}


def compared(only: str) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """By program and peer: values that differ, values compared, bytes with ours, bytes with the peer's."""
    command = [sys.executable, str(BENCHMARK), "--totals", "--only", only]
    done = subprocess.run(command, capture_output=True, text=True, env=users_environment(), check=False)
    assert done.returncode in (0, 1), done.stderr
    return {
        (m["name"], m["peer"]): tuple(int(m[k].replace(",", "")) for k in ("differ", "values", "ours", "theirs"))
        for m in _LINE.finditer(done.stdout)
    }


@pytest.mark.parametrize("only", ["/", MODELS], ids=["behaviours", "models"])
def test_ours_never_cost_more(only: str) -> None:
    found = compared(only)
    assert {peer for _, peer in found} == {"Shardy", "XLA"}
    assert len(found) >= (70 if only == "/" else 16)
    for place, (_, values, ours, theirs) in found.items():
        assert values, f"{place} compares nothing"
        assert ours <= theirs * DEARER.get(place, 1), f"{place} sends more"
    if only == "/":
        # Where the peers are known to do otherwise, so that a comparison that sees no difference would not pass.
        assert found["elementwise/operands_disagree_and_the_user_decides", "Shardy"][0] == 1
        assert found["elementwise/operands_disagree_and_the_user_decides", "XLA"][2:] == (3584, 7168)
