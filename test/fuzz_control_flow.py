"""Random nests of loops, branches, calls, gradients and manual computations: partitioned as JAX computes them.

Run as `python test/fuzz_control_flow.py [--seed N] [--count N | --seconds S]`; a seed names a program. They run in a
process of their own, so that one that ends is reported with its seed. Programs that fail are shrunk, by leaving out
statements, and printed. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(Path(__file__).resolve().parent / "proof"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from isolation import Worker
from nesting import least, tried
from nests import nest


def main() -> int:
    options = _parse()
    worker = Worker()
    started = time.perf_counter()
    kinds: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for seed in itertools.count(options.seed):
        elapsed = time.perf_counter() - started
        if seed >= options.seed + options.count if options.seconds is None else elapsed > options.seconds:
            break
        program = nest(seed)
        verdict = tried(program, seed, worker)
        kinds[verdict.kind] += 1
        if verdict.kind == "wrong":
            print(f"// seed {seed}: {verdict.why}", flush=True)
            if not options.whole:
                program, why = least(program, seed, worker)
                print(f"// shrunk: {why}\n{program}\n// -----", flush=True)
        elif verdict.kind in ("refused", "reference"):
            reasons[f"{verdict.kind}: {verdict.why[:200]}"] += 1
    worker.stop()
    for reason, number in reasons.most_common(12):
        print(f"// {number} x {reason}")
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    print(f"// {kinds.total()} programs: {counts}; {time.perf_counter() - started:.0f} s")
    return 1 if kinds["wrong"] else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program (default: 0)")
    parser.add_argument("--whole", action="store_true", help="do not shrink programs that fail")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--count", type=int, default=100, help="number of programs (default: 100)")
    group.add_argument("--seconds", type=float, help="go on for this long instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
