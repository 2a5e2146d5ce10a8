"""What `gspmd verify` proves, how long that takes, and what it makes of planted faults.

Usage: `python benchmarks/verify.py [--models] [--devices] [--large] [--random N] [--operations N] [--faults N]
[--peers] [--seed S]`; without an argument all of these, with 200 random programs, 20 of every family of operations, and
4 faults in each of 12 more. Seconds are those of the processor.

Programs are the models of `models.py`, the rows of the paper's table and a step of Llama 3 405B, programs that
`test/fuzz.py` draws, and single operations in all ways to split them (test/proof). A faulty program is right if it
computes the same on virtual devices; one that is proved and is not right is a wrong yes, and ends the run with exit
code 1. One that is refuted is run on several arguments, and is printed if they show no difference. The peers, XLA GSPMD
and XLA with Shardy, get the models and the operations of `operation_cases.py`; Shardy's own passes get the latter.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT / "test"), str(_ROOT / "docs")]

import models  # noqa: E402
import operation_cases  # noqa: E402
import operations  # noqa: E402
import paper_cell  # noqa: E402
import paper_rows  # noqa: E402
import search_cases  # noqa: E402
from proof.enumeration import sample  # noqa: E402
from proof.graphs import Graph  # noqa: E402
from proof.operations import FAMILIES  # noqa: E402
from search_models import Llama  # noqa: E402
from support.planted_faults import faults  # noqa: E402

import gspmd  # noqa: E402
from gspmd.comparisons.measuring import Task, checked, judged  # noqa: E402
from gspmd.comparisons.peers import PEERS  # noqa: E402
from gspmd.dialect.notation import print_mesh  # noqa: E402
from gspmd.examples import decoder_lm  # noqa: E402
from gspmd.examples.common.running import lowered  # noqa: E402
from gspmd.isolation import Worker, on_virtual_devices  # noqa: E402
from gspmd.program_mesh import mesh_of  # noqa: E402
from gspmd.reading import read_program  # noqa: E402
from gspmd.tables import table  # noqa: E402

_COLUMNS = (
    *("programs", "proved", "proved, right", "proved, wrong", "refuted", "refuted, wrong", "refuted, right"),
    *("not known", "not known, wrong", "refused"),
)
_KNOWN_OPERATIONS = 60  # of every family
_CHECKS = 10  # of what is refuted, each with other arguments, until one differs


def main() -> int:
    """Exit code: 0, or 1 if something is proved that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--devices", action="store_true")
    parser.add_argument("--operations", type=int, metavar="N")
    parser.add_argument("--faults", type=int, metavar="N")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--random", type=int, metavar="N")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    everything = not any(value for name, value in vars(args).items() if name != "seed")
    if args.models or everything:
        _print("Models", ("model", "proved", "seconds", "operations"), _models())
    if args.devices or everything:
        _print("A training step on more devices", ("devices", "proved", "seconds", "operations"), _devices())
    if args.large or everything:
        _print("Large programs", ("program", "proved", "seconds", "operations"), _large())
    if args.random or everything:
        _print("Random programs", ("verdict", "programs"), _random(args.random or 200, args.seed))
    if args.operations or everything:
        rows = _operations(args.operations or 20, args.seed)
        _print("Operations", ("family", "programs", "proved", "not known", "seconds"), rows)
    wrong = 0
    if args.faults or everything:
        counts = _faults(args.faults or 4, args.seed)
        wrong = counts["wrong yes"]
        _print("Planted faults", ("verdict", "programs"), [(kind, str(n)) for kind, n in sorted(counts.items())])
    if args.peers or everything:
        rows, wrong_peers = _peers()
        wrong += wrong_peers
        _print("What others have made", ("partitioner", *_COLUMNS), rows)
    return 1 if wrong else 0


def _print(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print(f"\n{title}\n")
    print("\n".join(table([header, *rows], right=tuple(range(1, len(header))))), flush=True)


def _models() -> list[tuple[str, ...]]:
    return [_judged_in_time(name, model.lower(8)) for name, model in models.MODELS.items()]


def _devices() -> list[tuple[str, ...]]:
    """The decoder of the examples with the paper's recipe; every split divides."""
    sizes = {"model": 128, "heads": 64, "head_size": 16, "hidden": 512, "vocabulary": 512, "sequence": 128, "batch": 64}
    program = decoder_lm.program(decoder_lm.Config(layers=4, scan=True, **sizes), decoder_lm.RECIPES["2d"])
    meshes = ({"x": 4, "y": 2}, {"x": 8, "y": 8}, {"x": 16, "y": 16}, {"x": 32, "y": 64})
    return [_judged_in_time(str(mesh["x"] * mesh["y"]), lowered(program, mesh).program) for mesh in meshes]


def _large() -> list[tuple[str, ...]]:
    """The rows of the paper's table, and a training step of Llama 3 405B on 2,048 devices."""
    rows = {name: paper_rows.ROWS[name] for name in paper_rows.TABLE_2}
    programs = {name: (paper_cell.program(row, remat=True), {"x": row.x, "y": row.y}) for name, row in rows.items()}
    for name, recipe in (("2-D", search_cases.TWO_D), ("Megatron", search_cases.MEGATRON)):
        llama = Llama(layers=126, model=16384, heads=128, groups=8, hidden=53248, batch=2048, length=4096)
        programs[f"Llama 3 405B, {name}"] = llama.program(recipe), {"x": 256, "y": 8}
    return [_judged_in_time(name, lowered(*each).program) for name, each in programs.items()]


def _judged_in_time(name: str, program: Any) -> tuple[str, ...]:
    product = gspmd.partition(program)
    started = time.process_time()
    found = gspmd.verify(program, product)
    taken_s = time.process_time() - started
    proved = sum(result.verdict is gspmd.Verdict.PROVED for result in found.results)
    return name, f"{proved} of {len(found.results)}", f"{taken_s:.2f}", str(found.operations)


def _peers() -> tuple[list[tuple[str, ...]], int]:
    """What is proved of what XLA's partitioners make; how much of what is proved computes something else when run."""
    programs = {case.name: case.text() for case in operation_cases.CASES}
    programs |= {name: model.lower(8) for name, model in models.MODELS.items()}
    counts = {peer: collections.Counter[str]() for peer in PEERS}
    with on_virtual_devices(8, timeout_s=300) as worker:
        for name, text in programs.items():
            task = Task(text, print_mesh(mesh_of(read_program(text), None)), verify=True)
            for peer, tallies in counts.items():
                verdict = _answer(worker, judged, task, peer)
                said = "refused" if isinstance(verdict, str) else verdict.verdict.value
                results = _answer(worker, checked, task, peer)
                run = "not run" if isinstance(results, str) else "right" if results.passed else "wrong"
                tallies.update(["programs", said, f"{said}, {run}"])
                if said != "proved" or run == "wrong":
                    print(f"{peer}, {name}: {said}, {run}", flush=True)
    counts["Shardy's passes"] = _shardy_passes()
    rows = [(name, *(str(tallies[column]) for column in _COLUMNS)) for name, tallies in counts.items()]
    return rows, sum(tallies["proved, wrong"] for tallies in counts.values())


def _shardy_passes() -> collections.Counter[str]:
    """The same for single operations, down to the program of a device by the passes of Shardy alone."""
    tallies = collections.Counter[str]()
    worker = Worker()
    for case in operation_cases.CASES:
        try:
            expected = worker.call(operations.expected_of, case)
            said, is_wrong = worker.call(operations.verified_shardy_passes, case, expected)
        except Exception:  # noqa: BLE001 - whatever these raise, or that they end the process
            said, is_wrong = "refused", None
        run = "not run" if is_wrong is None else is_wrong or "right"
        tallies.update(["programs", said, f"{said}, {run}"])
        if said != "proved" or run == "wrong":
            print(f"Shardy's passes, {case.name}: {said}, {run}", flush=True)
    worker.stop()
    return tallies


def _answer(worker: Worker, question: Any, task: Task, peer: str) -> Any:
    """What a peer's program is found to be, or why that is not known."""
    try:
        return worker.call(question, task, peer, "")
    except Exception as error:  # noqa: BLE001 - whatever XLA raises
        return str(error)


def _random(number: int, seed: int) -> list[tuple[str, ...]]:
    """Random programs with random annotations, as `test/fuzz.py` draws them, from a seed on."""
    counts: collections.Counter[str] = collections.Counter()
    started = time.process_time()
    for each in range(seed, seed + number):
        text = str(Graph(each, 8).program())
        try:
            product = gspmd.partition(text)
        except gspmd.Error:
            counts["refused"] += 1
            continue
        found = gspmd.verify(text, product)
        counts[found.verdict.value] += 1
        if found.verdict is gspmd.Verdict.REFUTED:
            print(f"refuted: seed {each}", flush=True)
    taken_s = (time.process_time() - started) / number
    return [(kind, str(n)) for kind, n in sorted(counts.items())] + [("seconds each", f"{taken_s:.2f}")]


def _programs(family: str, number: int, seed: int) -> Iterator[tuple[str, gspmd.Partitioned]]:
    for case in sample(family, _KNOWN_OPERATIONS, seed, number):
        text = str(case.program())
        try:
            yield text, gspmd.partition(text)
        except gspmd.Unsupported:
            continue


def _operations(number: int, seed: int) -> list[tuple[str, ...]]:
    rows = []
    total: collections.Counter[str] = collections.Counter()
    for family in FAMILIES:
        counts: collections.Counter[str] = collections.Counter()
        taken_s = 0.0
        for text, product in _programs(family, number, seed):
            started = time.process_time()
            counts[gspmd.verify(text, product).verdict.value] += 1
            taken_s += time.process_time() - started
        total += counts
        rows.append(_row(family, counts, taken_s))
    return [*rows, _row("all", total, 0.0)]


def _row(family: str, counts: collections.Counter[str], taken_s: float) -> tuple[str, ...]:
    programs = sum(counts.values())
    return family, str(programs), str(counts["proved"]), str(programs - counts["proved"]), f"{taken_s:.1f}"


def _faults(number: int, seed: int) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    for family in FAMILIES:
        for text, product in _programs(family, 12, seed):
            for kind, wrong in faults(product.module_text, random.Random(seed), number):
                verdict = _judged(text, wrong)
                counts[verdict] += 1
                if verdict in ("wrong yes", "refuted, harmless"):
                    print(f"{verdict}, {kind}:\n{text}\n{wrong}", file=sys.stderr)
    return counts


def _judged(text: str, wrong: str) -> str:
    """The verdict, and whether what is run computes the same; `invalid` for what is no program."""
    try:
        found = gspmd.verify(text, wrong)
    except gspmd.Error:
        return "invalid"
    is_refuted = found.verdict is gspmd.Verdict.REFUTED
    if not found.proved and "stablehlo.while" in wrong:
        return f"{found.verdict.value}, not run"  # its loop may not end
    try:
        is_same = all(gspmd.check(text, wrong, seed=seed).passed for seed in range(_CHECKS if is_refuted else 1))
    except gspmd.Error:
        return f"{found.verdict.value}, not run"
    if found.proved:
        return "harmless" if is_same else "wrong yes"
    return f"{found.verdict.value}, {'harmless' if is_same else 'wrong'}"


if __name__ == "__main__":
    sys.exit(main())
