"""Random programs with random annotations: partitioned, they must give what they give on one device.

Run as `python test/fuzz.py [--seed N] [--count N | --seconds S] [--devices N] [--list-groups-up-to 1]`; a seed names a
program of so many devices, whatever the count. They run in a process of their own, so that one that ends is reported
with its seed. On more than 8 devices meshes have three axes; on more than 64, or with `--list-groups-up-to 1`, replica
groups are along mesh axes. Programs that fail are shrunk, by leaving out annotations and operations, and printed with
the inputs that they fail on. The exit code is 1 if there are any.
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
sys.path.insert(0, str(Path(__file__).resolve().parent / "reshard"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from contents import as_text
from execution import Options, inputs_of
from fuzzing import Made, least, tried
from isolation import Worker


def main() -> int:
    options = _parse()
    worker = Worker(timeout_s=600 if options.devices > 8 else 120, devices=options.devices)
    partitioning = Options(options.list_groups_up_to)
    started = time.perf_counter()
    kinds: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for seed in itertools.count(options.seed):
        elapsed = time.perf_counter() - started
        if seed >= options.seed + options.count if options.seconds is None else elapsed > options.seconds:
            break
        made = Made(seed, options.devices, partitioning)
        verdict = tried(made, worker)
        kinds[verdict.kind] += 1
        if verdict.kind == "wrong":
            _report(made, verdict.why, worker)
        elif verdict.kind in ("refused", "reference"):
            reasons[f"{verdict.kind}: {verdict.why[:200]}"] += 1
    worker.stop()
    for reason, number in reasons.most_common(12):
        print(f"// {number} x {reason}")
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    print(f"// {kinds.total()} programs: {counts}; {time.perf_counter() - started:.0f} s")
    return 1 if kinds["wrong"] else 0


def _report(made: Made, why: str, worker: Worker) -> None:
    program, found = least(made, worker)
    print(f"// seed {made.seed}: {found or why}")
    for argument, array in zip(program.arguments, inputs_of(program, made.seed), strict=True):
        print(f"// {argument.value.name} = {as_text(array)}")
    print(f"{program}// -----", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program (default: 0)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--count", type=int, default=100, help="number of programs (default: 100)")
    group.add_argument("--seconds", type=float, help="go on for this long instead")
    parser.add_argument("--devices", type=int, default=8, help="more than 8: of every mesh (default: up to 8)")
    parser.add_argument(
        "--list-groups-up-to", type=int, default=64, help="1: replica groups name mesh axes (default: 64)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
