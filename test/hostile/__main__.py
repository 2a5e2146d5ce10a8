"""Hostile inputs: whatever a file, an option or a terminal says, the answer is a result or one clear error.

Run as `python test/hostile [--seed N] [--count N | --seconds S] [--format F] [--command C] [--jobs N] [--keep DIR]`.
A seed and a number name a case, whatever the others are. Good inputs of all formats are changed and given to all
commands and functions, in workers that are watched. Faults are death by a signal, no end, too much memory, tracebacks,
internal errors, exceptions that are no `gspmd.Error`, exit codes that are not documented or differ between commands,
several errors for one fault, and outputs that are there after a refusal or are no longer what they were. Each family of
faults is shown with its smallest case found; `--keep` writes these, `--replay` runs such a file. The exit code is 1 if
there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.calls import CALLS
from hostile.campaign import Campaign, Family, Tally
from hostile.case import Case, from_json, to_json
from hostile.judgement import fault
from hostile.making import FORMATS, made
from hostile.supervision import Limits, Supervisor
from hostile.wanted import Unfit, Wanted

_COMMANDS = (
    "opt",
    "partition",
    "explain",
    "cost",
    "report",
    "show",
    "suggest",
    "search",
    "check",
    "compare",
    "verify",
    "run",
    "compile",
    "demo",
    "explain-error",
    "completion",
    "api",
    *CALLS,
)


def main() -> int:
    options = _parse()
    limits = Limits(options.limit, int(options.memory * 2**30))
    root = tempfile.mkdtemp(prefix="hostile-")
    try:
        if options.replay:
            return _replay(options.replay, root, limits)
        wanted = Wanted(tuple(options.command), not options.no_terminals)
        made(options.seed, 0, options.format, wanted)
        return _campaign(options, wanted, root, limits)
    except Unfit:
        print("hostile: these formats have no cases for these commands", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _campaign(options: argparse.Namespace, wanted: Wanted, root: str, limits: Limits) -> int:
    def make(number: int) -> Case:
        return made(options.seed, options.start + number, options.format, wanted)

    campaign = Campaign(make, root, limits, options.jobs)
    started = time.perf_counter()

    known: set[str] = set()

    def progress(number: int, tally: Tally) -> None:
        for key in tally.families.keys() - known:
            known.add(key)
            family = tally.families[key]
            print(f"# --start {options.start + family.number}: {family.fault.family}", flush=True)
        done = tally.cases.total()
        if done % 1000 == 0:
            found = sum(family.count for family in tally.families.values())
            speed = done / (time.perf_counter() - started)
            print(f"# {done} cases, {speed:.0f}/s, {found} faults in {len(tally.families)} families", flush=True)

    tally = campaign.run(None if options.seconds else options.count, options.seconds, progress)
    families = sorted(tally.families.values(), key=lambda f: (f.fault.kind, -f.count, f.number))
    families += tally.differing()
    for index, family in enumerate(families):
        if options.reduce and family.smallest is None:
            campaign.reduce(family, options.reduce)
        _show(index, family, options)
    campaign.stop()
    _summarise(tally, families, options)
    return 1 if families else 0


def _show(index: int, family: Family, options: argparse.Namespace) -> None:
    """One family, with its smallest case."""
    case = family.smallest or family.case
    number = options.start + family.number
    note = f" ({family.note})" if family.note else ""
    print(f"\n== {family.count} x {family.fault.family}{note}")
    print(f"   --seed {options.seed} --start {number} --count 1: {case}")
    for name, data in case.files:
        print(f"   {name}: {data[:600]!r}{f' ... {len(data)} bytes' if len(data) > 600 else ''}")
    print("   | " + "\n   | ".join(family.fault.told.strip().splitlines()[-12:]), flush=True)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{family.fault.kind.replace(' ', '-')}-{index:03}.json").write_text(to_json(case))


def _summarise(tally: Tally, families: list[Family], options: argparse.Namespace) -> None:
    if options.keep:
        rows = [(f.fault.kind, f.count, f.fault.family, str(f.smallest or f.case)) for f in families]
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / "families.json").write_text(json.dumps(rows, indent=1))
    print(f"\n{'family':<100} {'count':>6}")
    for family in families:
        print(f"{family.fault.family[:100]:<100} {family.count:>6}")
    total = tally.cases.total()
    statuses = ", ".join(f"{status or 'none'}: {n}" for status, n in sorted(tally.statuses.items()))
    print(f"\n{total} cases in {tally.seconds:.0f} s, {total / tally.seconds:.1f} a second; exit codes {statuses}")
    print("formats " + ", ".join(f"{name}: {n}" for name, n in sorted(tally.cases.items())))
    print(f"{sum(f.count for f in families)} faults in {len(families)} families")


def _replay(paths: list[Path], root: str, limits: Limits) -> int:
    """Run kept cases, and tell what became of each."""
    supervisor = Supervisor(root, limits)
    failed = 0
    for path in paths:
        case = from_json(path.read_text())
        outcome = supervisor.outcome(case)
        found = fault(case, outcome)
        failed += found is not None
        print(f"{path}: {found.family if found else 'no fault'}\n  {case}")
        print(f"  exit code {outcome.status} {outcome.ended}, {outcome.seconds:.2f} s")
        for stream in (outcome.error, outcome.stdout[-400:], outcome.stderr[-1500:], outcome.complaint):
            if stream.strip():
                print("  | " + "\n  | ".join(stream.strip().splitlines()))
    supervisor.stop()
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--seed", type=int, default=0, help="of all cases (default: 0)")
    add("--start", type=int, default=0, help="number of the first case (default: 0)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--count", type=int, default=1000, help="number of cases (default: 1000)")
    group.add_argument("--seconds", type=float, help="go on for this long instead")
    add("--format", action="append", default=[], choices=sorted(FORMATS), help="only this format; may be repeated")
    add("--command", action="append", default=[], choices=_COMMANDS, help="only this command; may be repeated")
    add("--jobs", type=int, default=1, help="workers at the same time (default: 1)")
    add("--keep", type=Path, metavar="DIR", help="write the smallest case of each family there")
    add("--limit", type=float, default=30.0, help="seconds a case may take (default: 30)")
    add("--memory", type=float, default=4.0, help="GiB a case may hold (default: 4)")
    add(
        "--reduce",
        type=float,
        default=20.0,
        metavar="S",
        help="seconds for making a case smaller; 0: none (default: 20)",
    )
    add("--no-terminals", action="store_true", help="no cases in processes of their own")
    add("--replay", type=Path, nargs="+", metavar="FILE", help="run kept cases instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
