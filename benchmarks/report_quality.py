"""The figures of `quality.py` as text and as a page of the documentation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from compiled import Result

from gspmd.report import bytes_text, table

_HEAD = ["", "sends", "collectives", "holds", "GFLOP", "ms a step"]


def lines(results: Sequence[Result]) -> list[str]:
    """One model on one number of devices."""
    rows = [_HEAD, *(_row(result) for result in results)]
    return ["", f"{results[0].model}, {results[0].devices} devices", *table(rows, right=(1, 3, 4, 5))]


def _row(result: Result) -> list[str]:
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(result.counts.number.items())) or "none"
    step = "" if result.step_s is None else f"{result.step_s * 1e3:.1f}"
    return [
        result.partitioner,
        bytes_text(result.bytes),
        kinds,
        bytes_text(result.held_bytes),
        f"{result.flops / 1e9:.3f}",
        step,
    ]


def _cases(results: Sequence[Result]) -> Iterator[tuple[Result, list[Result]]]:
    """Ours and the peers', case by case."""
    for _, group in itertools.groupby(results, key=lambda r: (r.model, r.devices)):
        ours, *peers = group
        yield ours, peers


def ratios(results: Sequence[Result], what: str) -> list[float]:
    """Ours to the better peer, case by case; 1 where neither has any."""
    found = []
    for ours, peers in _cases(results):
        best, mine = min(getattr(peer, what) for peer in peers), getattr(ours, what)
        found.append(mine / best if best else (math.inf if mine else 1.0))
    return found


def summary(results: Sequence[Result]) -> list[str]:
    """Geometric means and the worst case of the ratio to the better peer."""
    out = ["", "ratio to the better peer    geometric mean    worst"]
    for what, title in (("bytes", "bytes sent"), ("held_bytes", "bytes held"), ("flops", "arithmetic")):
        values = ratios(results, what)
        positive = [max(value, 1e-3) for value in values]
        mean = math.exp(sum(map(math.log, positive)) / len(positive))
        out.append(f"{title:<26}{mean:>16.3f}{max(values):>9.3f}")
    return out


def page(results: Sequence[Result]) -> str:
    """The page `docs/quality.md`."""
    out = [_PAGE, "```", *summary(results)[1:], "```", ""]
    out.append("| model | devices | sends: gspmd | XLA GSPMD | XLA Shardy | holds: gspmd | XLA GSPMD | XLA Shardy |")
    out.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for ours, peers in _cases(results):
        cells = [bytes_text(r.bytes) for r in (ours, *peers)] + [bytes_text(r.held_bytes) for r in (ours, *peers)]
        out.append(f"| {ours.model} | {ours.devices} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


_PAGE = """# Partitioned models beside XLA's partitioners

Written by `python benchmarks/quality.py --markdown docs/quality.md`: the same annotated model partitioned by gspmd, by
XLA GSPMD and by XLA with Shardy (jaxlib 0.10.2), each compiled by XLA for CPUs and counted in the optimised HLO in the
same way. *Sends* are bytes a device sends in one call by ring algorithms, loops counted as they run; *holds* are
arguments, results and temporaries of a device. XLA's CPU backend forms no reduce-scatters of all-reduces that are
sliced; backends that do send half as much for these.
"""
