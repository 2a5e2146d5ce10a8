"""Random gathers, scatters, dynamic slices and updates, partitioned and compared with numpy.

Run as `python test/support/random_indexing.py [--seed N] [--count N]`; a seed names a case. Each is run with its
factors split at random, and as a program with random annotations through all stages. Cases that fail are printed, and
the exit code is 1 if there are any. Where XLA's own program for one device differs from the specification, ours may
differ alike.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import gspmd
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.rule import NEED_REPLICATION
from gspmd.runtime import executable as runtime
from support.indexing_cases import Case, Maker
from support.indexing_reference import Array
from support.random_shardings import random_mesh, random_sharding
from support.single_op import assignments, partition, rule_of


def equal(have: Array, want: Array) -> bool:
    """NaN is equal to NaN, and zeros to each other."""
    if have.shape != want.shape:
        return False
    if have.dtype.kind == "V":
        have, want = have.astype(np.float32), want.astype(np.float32)
    return bool(np.all((have == want) | ((have != have) & (want != want))))


def _wrong_shards(executable: Any, case: Case) -> list[int]:
    """Devices with a wrong part of some result."""
    found = set()
    for want, result in zip(case.expected, executable(*case.inputs), strict=True):
        found |= {s.partition for s in result.shards if not equal(s.to_numpy(), want[s.index])}
    return sorted(found)


def is_right_on_one_device(case: Case) -> bool:
    """Whether XLA's unpartitioned program agrees with the specification."""
    return not _wrong_shards(runtime.compile_single(case.module()), case)


def split_by_hand(case: Case, rng: random.Random) -> str | None:
    """Split the factors at random. Returns what is wrong, None if nothing is."""
    text, mesh = case.module(), random_mesh(rng)
    rule = rule_of(text)
    if all(kind is NEED_REPLICATION or n <= 1 for kind, n in zip(rule.kinds, rule.sizes, strict=True)):
        return None
    axes = rng.choice(list(assignments(rule, mesh, 4, rng.randrange(1000))))
    module = partition(text, mesh, axes)
    wrong = _wrong_shards(runtime.compile(module, padding="nan"), case)
    return f"devices {wrong} are wrong with factors {axes}\n{text}\n{module}" if wrong else None


def split_by_annotations(case: Case, rng: random.Random) -> str | None:
    """Annotate arguments and results at random. Returns what is wrong, None if nothing is."""
    mesh = random_mesh(rng)
    ranks = [t.count("x") - t.count("complex") for t in case.types + case.results]
    given = [print_sharding(random_sharding(rng, mesh, r)) if rng.random() < 0.7 and r else "" for r in ranks]
    program = case.module(f"sdy.mesh @mesh = {print_mesh(mesh)}\n", given)
    partitioned = gspmd.partition(program)
    wrong = _wrong_shards(runtime.compile(partitioned, padding="nan"), case)
    return f"devices {wrong} are wrong\n{program}\n{partitioned.module_text}" if wrong else None


def failures(seed: int) -> list[str]:
    """What is wrong with a case; empty if nothing is."""
    case, rng = Maker(seed).case(), random.Random(seed)
    found = [split_by_hand(case, rng), split_by_hand(case, rng), split_by_annotations(case, rng)]
    return [text for text in found if text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--verbose", action="store_true", help="print the programs of failures")
    options = parser.parse_args()
    kinds, wrong, differs, begin = collections.Counter[str](), 0, [], time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        case = Maker(seed).case()
        kinds[case.name] += 1
        try:
            found = failures(seed)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            found = [traceback.format_exc()]
        if not is_right_on_one_device(case):
            differs.append(seed)
        elif found:
            wrong += 1
            print(f"seed {seed}: {case.name}: {found[0] if options.verbose else found[0][-300:]}")
    counts = ", ".join(f"{n} {name}" for name, n in sorted(kinds.items()))
    print(f"{options.count} cases ({counts}), {wrong} wrong, {time.monotonic() - begin:.0f} s")
    print(f"not compared, as XLA on one device differs from the specification: {differs}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
