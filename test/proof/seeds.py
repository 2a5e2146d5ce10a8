"""Trying the programs of one seed after the other, and telling what became of them."""

from __future__ import annotations

import argparse
import collections
import itertools
import time
from collections.abc import Callable

from proof.execution import Verdict


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the arguments that say which seeds; `doc` is that of the script."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program (default: 0)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--count", type=int, default=100, help="number of programs (default: 100)")
    group.add_argument("--seconds", type=float, help="go on for this long instead")
    return parser


def try_seeds(options: argparse.Namespace, tried: Callable[[int], Verdict], report: Callable[[int, str], None]) -> int:
    """Try the programs of the seeds that are asked for; the exit code is 1 if any is wrong.

    `report` is told the seed of each that is, and why.
    """
    started = time.perf_counter()
    kinds: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for seed in itertools.count(options.seed):
        elapsed = time.perf_counter() - started
        if seed >= options.seed + options.count if options.seconds is None else elapsed > options.seconds:
            break
        verdict = tried(seed)
        kinds[verdict.kind] += 1
        if verdict.kind == "wrong":
            report(seed, verdict.why)
        elif verdict.kind in ("refused", "reference"):
            reasons[f"{verdict.kind}: {verdict.why[:200]}"] += 1
    for reason, number in reasons.most_common(12):
        print(f"// {number} x {reason}")
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    print(f"// {kinds.total()} programs: {counts}; {time.perf_counter() - started:.0f} s")
    return 1 if kinds["wrong"] else 0
