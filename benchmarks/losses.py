"""A benchmark that looks for losses: random annotated programs in which gspmd sends more than XLA's partitioners.

Usage: `python benchmarks/losses.py [--seed 0] [--start 0] [--count 100] [--devices 2,4,6,8,16,64] [--jobs 1]
[--worst 10] [--check] [--minimise] [--corpus] [--single] [--json FILE] [--markdown FILE]`.

All partitioners get the same program with the same annotations; everything is compiled by XLA for CPUs, in processes
that may be ended by it, and bytes are counted in the optimised HLO, in the same way for all. A program is named by its
seed and number, and `--seed S --start N --count 1` makes it again alone, whatever the other options but `--devices`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

from support.simple_code import SIMPLE_CODE

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["XLA_FLAGS"] = SIMPLE_CODE

import report_losses
import single_operations
from loss_cases import Case, Judge, Outcome
from made_up.program import Program
from sent import OURS, PARTITIONERS

from gspmd.text_report import bytes_text

CORPUS = Path(__file__).parent / "corpus" / "losses"


def main(arguments: list[str] | None = None) -> int:
    """Look and print; see `--help`. Returns 0 whatever is found: losses are what is looked for."""
    options = _parse(arguments)
    started = time.perf_counter()
    programs: dict[str, Program] = {}
    cases: list[Case] = []
    for case, program in _wanted(options):
        cases.append(case)
        if program is not None:
            programs[case.name] = program
        print(_line(case), flush=True)
    lines = [*report_losses.summary(cases), ""]
    worst = report_losses.worst(cases, options.worst)
    for case in worst:
        lines += report_losses.details(case)
    print("\n".join(["", *lines, "", f"{time.perf_counter() - started:.0f} s"]))
    if options.json:
        Path(options.json).write_text(json.dumps([dataclasses.asdict(case) for case in cases], indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(_page(options, lines))
    if options.minimise:
        _minimise([case for case in worst if case.lost and case.name in programs], programs, options)
    return 0


def _wanted(options: argparse.Namespace) -> Iterator[tuple[Case, Program | None]]:
    """The programs that are asked for, and how they were made up, where that is known."""
    if options.corpus:
        yield from _of_corpus(options)
    elif options.single:
        yield from _single(options)
    else:
        yield from _made_up(options)


def _single(options: argparse.Namespace) -> Iterator[tuple[Case, Program | None]]:
    """Programs of one operation with annotations at both ends."""
    judge = Judge(single_operations.DEVICES, options.check)
    for number in range(options.start, options.start + options.count):
        said, text = single_operations.made(options.seed, number)
        yield judge.case_of_text(f"seed {options.seed}, {number}: {said}", text), None
    judge.stop()


def _made_up(options: argparse.Namespace) -> Iterator[tuple[Case, Program | None]]:
    """Random programs, on as many processes at a time as there are jobs."""
    idle = [Judge(max(options.devices), options.check) for _ in range(options.jobs)]

    def judged(number: int) -> tuple[Case, Program | None]:
        judge = idle.pop()
        try:
            program = judge.made(options.seed, number, options.devices)
            return judge.case(f"seed {options.seed}, case {number}", program), program
        finally:
            idle.append(judge)

    numbers = range(options.start, options.start + options.count)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(judged, numbers)
    for judge in idle:
        judge.stop()


def _of_corpus(options: argparse.Namespace) -> Iterator[tuple[Case, Program | None]]:
    """The programs in which ours sent more once."""
    judge = Judge(max(options.devices), options.check)
    for path in sorted(CORPUS.glob("*.mlir")):
        yield judge.case_of_text(path.stem, path.read_text()), None
    judge.stop()


def _minimise(cases: list[Case], programs: dict[str, Program], options: argparse.Namespace) -> None:
    """Write the smallest form of each to the corpus, with what everyone sends."""
    judge = Judge(max(options.devices), options.check)
    CORPUS.mkdir(exist_ok=True)
    for case in cases:
        program = judge.least(case, programs[case.name], options.seconds)
        least = judge.case(case.name, program)
        path = CORPUS / (case.name.replace(", ", "-").replace(" ", "-") + ".mlir")
        path.write_text(_head(least) + judge.lowered(program))
        print("\n".join([*report_losses.details(least), f"  written to {path.name}"]), flush=True)
    judge.stop()


def _head(case: Case) -> str:
    """What each sent when it was found, as comments."""
    lines = [f"A loss that `losses.py` found ({case.name}) and made small."]
    for partitioner in PARTITIONERS:
        outcome = case.outcomes[partitioner]
        if outcome.sent is None:
            lines.append(f"{partitioner} {outcome.failure}"[:110])
            continue
        each = ", ".join(f"{n} {kind} over {axes}" for kind, axes, n, _ in outcome.sent.collectives)
        lines.append(f"{partitioner} sent {bytes_text(outcome.bytes)}: {each or 'nothing'}.")
    if case.pinned is not None and case.pinned.sent is not None:
        said = f"{OURS} sent {bytes_text(case.pinned.bytes)}"
        lines.append(f"With arguments and results as {case.peer} lays them out, {said}.")
    return "".join(f"// {part}\n" for line in lines for part in textwrap.wrap(line, 117))


def _line(case: Case) -> str:
    """One program in short."""
    each = ", ".join(f"{partitioner} {_said(outcome)}" for partitioner, outcome in case.outcomes.items())
    ratio = f"{case.verdict} {case.ratio:.2f}" if case.comparable else "not compared"
    ratio += f" ({case.reason})" if case.reason else ""
    return f"{case.name}: {ratio}; {each}"


def _said(outcome: Outcome) -> str:
    if outcome.sent is None:
        return outcome.failure.partition(":")[0]
    return bytes_text(outcome.sent.bytes) + (" (wrong)" if outcome.wrong else "")


def _page(options: argparse.Namespace, lines: list[str]) -> str:
    numbers = f"--seed {options.seed} --start {options.start} --count {options.count}"
    what = "--corpus" if options.corpus else f"--single {numbers}" if options.single else numbers
    head = f"# What {OURS} loses\n\nWritten by `python benchmarks/losses.py {what}`.\n\n"
    return head + "```\n" + "\n".join(lines) + "\n```\n"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    def counts(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0, help="of the sequence of programs (0)")
    parser.add_argument("--start", type=int, default=0, help="number of the first program (0)")
    parser.add_argument("--count", type=int, default=100, help="how many programs (100)")
    parser.add_argument("--devices", type=counts, default=[2, 4, 6, 8, 16, 64], help="of meshes (2,4,6,8,16,64)")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time (1)")
    parser.add_argument("--worst", type=int, default=10, help="how many of the worst to show (10)")
    parser.add_argument("--check", action="store_true", help="run the programs, too; who is wrong is not compared with")
    parser.add_argument("--minimise", action="store_true", help="make the worst small and add them to the corpus")
    parser.add_argument("--seconds", type=float, default=240, help="that making one small may take (240)")
    parser.add_argument("--corpus", action="store_true", help="only the programs of `corpus/losses`")
    parser.add_argument("--single", action="store_true", help="programs of one operation, annotated at both ends")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--markdown", metavar="FILE", help="write the summary and the worst to FILE")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
