"""Every operation with every sharding: partitioned, it must compute what it computes on one device.

Run as `python test/sweep.py [--family F] [--seed N] [--count M] [--exhaustive] [--list-groups-up-to 1]`. The cases of a
family are its first `--operations` operations (random attributes and shapes, by number), on all meshes of up to 8
devices with one axis or two, with all shardings of operands and results. `--count` takes a sample of them,
`--exhaustive` all; with `--list-groups-up-to 1` replica groups are along mesh axes, as on more than 64 devices.
Cases that are wrong are printed as small programs; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from proof.enumeration import count, every, sample
from proof.execution import Options
from proof.operations import FAMILIES
from proof.sweeping import Tally, least, sweep

from gspmd.isolation import ProcessDied, Worker

_PRINTED = 5  # wrong cases of a family that are shrunk and printed


def main() -> int:
    options = _parse()
    partitioning = Options(options.list_groups_up_to)
    worker = Worker()
    tallies = []
    print(f"{'family':<16}{'cases':>8}{'right':>8}{'refused':>8}{'XLA off':>8}{'no ref':>8}{'wrong':>8}{'s':>7}  of")
    for family in options.family or FAMILIES:
        started = time.perf_counter()
        if options.exhaustive:
            cases = every(family, options.operations)
        else:
            cases = sample(family, options.operations, options.seed, options.count)
        tally = sweep(family, cases, worker, partitioning)
        tallies.append(tally)
        kinds = tally.kinds
        numbers = [kinds.total(), *(kinds[k] for k in ("right", "refused", "judged", "reference", "wrong"))]
        total = count(family, options.operations)
        seconds = time.perf_counter() - started
        print(f"{family:<16}{''.join(f'{n:>8}' for n in numbers)}{seconds:>7.0f}  {total:,}", flush=True)
        _details(tally, worker, partitioning)
    worker.stop()
    return 1 if any(tally.wrong for tally in tallies) else 0


def _details(tally: Tally, worker: Worker, partitioning: Options) -> None:
    for reason, number in tally.reasons.most_common(8):
        print(f"// {tally.family}: {number} x {reason[:200]}")
    for case, why in tally.wrong[:_PRINTED]:
        try:
            program = worker.call(least, case, partitioning)
        except ProcessDied:
            program = case.program()
        print(f"// {tally.family}, operation {case.operation.number}: {why}\n{program}// -----", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="may be given again (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--count", type=int, default=240, help="cases of each family in the sample (default: 240)")
    parser.add_argument("--operations", type=int, default=400, help="operations of each family (default: 400)")
    parser.add_argument(
        "--list-groups-up-to", type=int, default=64, help="1: replica groups name mesh axes (default: 64)"
    )
    parser.add_argument("--exhaustive", action="store_true", help="all cases, which may take days")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
