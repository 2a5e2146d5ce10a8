"""Tables, JSON and a page of the documentation from runs."""

from __future__ import annotations

import datetime as dt
import functools
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jaxlib.version
from measurement import PHASES, Run, Stage, Transfer
from programs import Program

_LABEL, _COLUMN = 30, 16
Runs = dict[str, list[Run]]
"""By partitioner, our two efforts first; the first run of each was not timed and has the traffic."""
_OURS = 2


def table(program: Program, runs: Runs) -> str:
    """Times and traffic of one program as text."""
    timed = {name: found[1:] for name, found in runs.items()}
    count = len(next(iter(timed.values())))
    x, y = program.mesh_shape
    lines = [
        f"{program.layers} layers, {program.ops:,} ops, mesh x={x} y={y} ({program.devices} devices)",
        "",
        _row(f"CPU ms, median of {count} (least)", timed),
    ]
    for phase in PHASES:
        seconds = functools.partial(Run.phase_s, phase=phase)
        cells = [_spread(found, seconds) for found in timed.values()]
        lines.append(_row(f"  {phase}", cells))
    lines.append(_row("  both", (_spread(found, lambda run: run.total_s) for found in timed.values())))
    medians = {name: _median(found, lambda run: run.total_s) for name, found in timed.items()}
    lines.append(_row("  us per op", (f"{median / program.ops * 1e6:.1f}" for median in medians.values())))
    taken = list(medians.values())
    for label, peer in (("the fastest peer", min(taken[_OURS:])), ("XLA Shardy", taken[-1])):
        lines.append(_row(f"  ratio to {label}", [f"{ours / peer:.2f}" for ours in taken[:_OURS]]))
    lines.append("")
    for name, found in timed.items():
        stages = ", ".join(f"{stage.name} {_stage_median(found, stage) * 1e3:.0f}" for stage in found[0].seconds)
        lines.append(f"  {name}: {stages}")
    return "\n".join([*lines, "", *_traffic_lines(runs), ""])


def _traffic_lines(runs: Runs) -> list[str]:
    traffic = {name: found[0].traffic or () for name, found in runs.items()}
    kinds = sorted({each.kind for found in traffic.values() for each in found})
    lines = [_row("collectives: count, MB sent", traffic)]
    for kind in kinds:
        chosen = [[each for each in found if each.kind == kind] for found in traffic.values()]
        lines.append(_row(f"  {kind}", (_amount(found, _sent) for found in chosen)))
    lines.append(_row("  all", (_amount(found, _sent) for found in traffic.values())))
    lines.append(_row("  all, reduce+slice fused", (_amount(found, _fused) for found in traffic.values())))
    for label, of in (("  ratio to the best peer", _sent), ("  ratio, peers fused", _fused)):
        sums = [sum(map(_sent if number < _OURS else of, found)) for number, found in enumerate(traffic.values())]
        lines.append(_row(label, [f"{ours / min(sums[_OURS:]):.3f}" for ours in sums[:_OURS]]))
    return lines


def as_json(program: Program, runs: Runs) -> dict[str, Any]:
    """Every run, in seconds and bytes."""
    return {
        "layers": program.layers,
        "ops": program.ops,
        "mesh": {"x": program.mesh_shape[0], "y": program.mesh_shape[1]},
        "partitioners": {
            name: {
                "stages": [
                    {"name": stage.name, "phase": stage.phase, "seconds": [run.seconds[stage] for run in found[1:]]}
                    for stage in found[0].seconds
                ],
                "total_s": [run.total_s for run in found[1:]],
                "collectives": _by_kind(found[0].traffic or ()),
            }
            for name, found in runs.items()
        },
    }


def page(cases: Sequence[Mapping[str, Any]]) -> str:
    """The page `docs/measured/partitioner.md`, of the results of `as_json`."""
    about, names = machine(), list(cases[0]["partitioners"])
    runs = len(cases[0]["partitioners"][names[0]]["total_s"])
    head = ["layers", "ops", "mesh", *names, *(f"{name} / XLA Shardy" for name in names[:_OURS])]
    timed, sent = [head, ["--:"] * len(head)], [[*head[:-_OURS], "fused"], ["--:"] * (len(head) - 1)]
    for case in cases:
        found = [case["partitioners"][name] for name in names]
        about_case = [str(case["layers"]), f"{case['ops']:,}", f"{case['mesh']['x']} x {case['mesh']['y']}"]
        taken = [statistics.median(each["total_s"]) for each in found]
        ratios = [f"{each / taken[-1]:.2f}" for each in taken[:_OURS]]
        timed.append([*about_case, *(f"{each * 1e3:.0f}" for each in taken), *ratios])
        kinds = [each["collectives"].values() for each in found]
        sums = [sum(kind["bytes"] for kind in each) / 1e6 for each in kinds]
        fused = min(sum(kind["sliced_bytes"] for kind in each) / 1e6 for each in kinds[_OURS:])
        sent.append([*about_case, *(f"{each:.2f}" for each in sums), f"{fused:.2f}"])
    sizes = {
        "layers": _listed(case["layers"] for case in cases),
        "devices": _listed(case["mesh"]["x"] * case["mesh"]["y"] for case in cases),
    }
    return _PAGE.format(runs=runs, **sizes, timed=_markdown(timed), sent=_markdown(sent), **about)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, dict.fromkeys(numbers)))


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_PAGE = """\
# The time of partitioning

Written by
`python benchmarks/partitioner.py --layers {layers} --devices {devices} --markdown docs/measured/partitioner.md` on
{date}: jaxlib {jaxlib}, Python {python}, {architecture}, {cpus} processors, medians of {runs} runs. The program is
a training step of a decoder with unrolled layers; [benchmarks](../../benchmarks/README.md) describe it, and how the
partitioners are run and timed. *XLA Shardy* is what JAX runs by default. *gspmd fast* has the option `effort=fast`.

## Processor time

Milliseconds of propagation and partitioning. Parsing, ingesting, writing and printing are not included.

{timed}

## Communication

Megabytes that a device sends in a step. *fused* is the least of the peers if each all-reduce whose result is only
sliced were a reduce-scatter, which some backends of XLA make of it.

{sent}
"""


def _by_kind(found: Iterable[Transfer]) -> dict[str, dict[str, float]]:
    kinds: dict[str, dict[str, float]] = {}
    for each in found:
        entry = kinds.setdefault(each.kind, {"count": 0, "bytes": 0.0, "sliced_bytes": 0.0})
        entry["count"] += 1
        entry["bytes"] += each.bytes
        entry["sliced_bytes"] += each.sliced_bytes
    return dict(sorted(kinds.items()))


def machine() -> dict[str, Any]:
    """Where and when it was measured, without names of machines."""
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "jaxlib": jaxlib.version.__version__,
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
    }


def _row(label: str, cells: Iterable[str]) -> str:
    return label.ljust(_LABEL) + "".join(cell.rjust(_COLUMN) for cell in cells)


def _median(runs: list[Run], of: Callable[[Run], float]) -> float:
    return statistics.median(map(of, runs))


def _stage_median(runs: list[Run], stage: Stage) -> float:
    return _median(runs, lambda run: run.seconds[stage])


def _spread(runs: list[Run], of: Callable[[Run], float]) -> str:
    return f"{_median(runs, of) * 1e3:.0f} ({min(map(of, runs)) * 1e3:.0f})"


def _amount(found: Iterable[Transfer], of: Callable[[Transfer], float]) -> str:
    amounts = list(map(of, found))
    return f"{len(amounts)}, {sum(amounts) / 1e6:.2f}"


def _sent(transfer: Transfer) -> float:
    return transfer.bytes


def _fused(transfer: Transfer) -> float:
    return transfer.sliced_bytes
