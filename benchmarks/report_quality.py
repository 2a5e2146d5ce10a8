"""The figures of `quality.py` as text and as a page of the documentation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import jaxlib
from compiled import Result

from gspmd.tables import table
from gspmd.text_report import bytes_text

_HEAD = ["", "sends", "collectives", "holds", "MFLOP", "ms a step"]


def lines(results: Sequence[Result]) -> list[str]:
    """One model on one number of devices."""
    rows = [_HEAD, *(_row(result) for result in results)]
    return ["", f"{results[0].model}, {results[0].devices} devices", *table(rows, right=(1, 3, 4, 5))]


def _row(result: Result) -> list[str]:
    return [result.partitioner, *(cell(result) for cell in (_sends, _kinds, _holds, _flops, _step))]


def _sends(result: Result) -> str:
    return bytes_text(result.bytes)


def _holds(result: Result) -> str:
    return bytes_text(result.held_bytes)


def _flops(result: Result) -> str:
    return f"{result.flops / 1e6:.2f}"


def _step(result: Result) -> str:
    return "" if result.step_s is None else f"{result.step_s * 1e3:.1f}"


def _ratio(result: Result) -> str:
    return "" if result.step_ratio is None else f"{result.step_ratio:.2f}"


def _kinds(result: Result) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in sorted(result.counts.number.items())) or "none"


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
    columns = [(title, ratios(results, what)) for title, what in _COMPARED]
    steps = [result.step_ratio for result in results if result.step_ratio is not None]
    for title, values in [*columns, *([("step time, 8 devices", steps)] if steps else [])]:
        positive = [max(value, 1e-3) for value in values]
        mean = math.exp(sum(map(math.log, positive)) / len(positive))
        out.append(f"{title:<26}{mean:>16.3f}{max(values):>9.3f}")
    return out


_COMPARED = (("bytes sent", "bytes"), ("bytes held", "held_bytes"), ("arithmetic", "flops"))


def page(results: Sequence[Result], gpu: str = "") -> str:
    """The page `docs/measured/quality.md`, or `quality_gpu.md` where programs were compiled for such a GPU."""
    head = _GPU_PAGE.format(gpu=gpu) if gpu else _PAGE
    out = [head.format(version=jaxlib.__version__), "```", *summary(results)[1:], "```"]
    out += ["", "## Bytes", "", *_table(results, {"sends": _sends, "holds": _holds})]
    if gpu:
        out += ["", "## Arithmetic", "", *_table(results, {"MFLOP": _flops})]
    else:
        out += ["", "## Arithmetic and time", "", _TIME]
        out += _table(results, {"MFLOP": _flops, "ms": _step}, {"ratio": _ratio})
    out += ["", "## Collectives", "", _COLLECTIVES, *_table(results, {"": _kinds})]
    return "\n".join(out) + "\n"


Cell = Callable[[Result], str]


def _table(results: Sequence[Result], columns: Mapping[str, Cell], own: Mapping[str, Cell] | None = None) -> list[str]:
    """One row a case: of each of `columns` one column a partitioner, then those that are only our `own`."""
    own = own or {}
    heads = [f"{title}: {name}".removeprefix(": ") for title in columns for name in _NAMES] + list(own)
    out = ["| model | devices | " + " | ".join(heads) + " |", "|---|--:|" + "--:|" * len(heads)]
    for ours, peers in _cases(results):
        cells = [cell(result) for cell in columns.values() for result in (ours, *peers)]
        cells += [cell(ours) for cell in own.values()]
        out.append(f"| {ours.model} | {ours.devices} | {' | '.join(cells)} |")
    return out


_NAMES = ("gspmd", "XLA GSPMD", "XLA Shardy")

_PAGE = """# Partitioned models beside XLA's partitioners

Written by `python benchmarks/quality.py --markdown docs/measured/quality.md`: the same annotated model partitioned by
gspmd, XLA GSPMD and XLA with Shardy (jaxlib {version}), each compiled by XLA for CPUs and counted in the
optimised HLO in the same way. Models are training steps or losses with gradients, except for those called `forward` and
`decode`. They are small. gspmd has no target, so it minimizes bytes.

- *Sends*: bytes that a device sends in one call under ring algorithms, with loops counted as often as they run. XLA's
  CPU backend does not turn all-reduces that are sliced into reduce-scatters; backends that do so send half as much for
  these.
- *Holds*: arguments, results and temporaries of a device as XLA allocates them. It runs operations that are ready
  breadth first, and its packing leaves gaps: programs with the same live buffers differ by a few per cent, either way.
- *Arithmetic*: that of products and convolutions, with outer products that XLA writes as multiplications.
"""

_GPU_PAGE = """# Partitioned models beside XLA's partitioners, on GPUs

Written by `python benchmarks/quality.py --gpus --devices 8 --markdown docs/measured/quality_gpu.md` on a machine with
one {gpu}: the models of [quality.md](quality.md), compiled by XLA (jaxlib {{version}}) for 8 such GPUs. Traffic is
counted in the optimised HLO, which has asynchronous collectives and reduce-scatters. Nothing is run.
"""

_TIME = """Milliseconds are the median of calls on 8 virtual devices: threads of one machine with fewer cores. They
measure overheads and arithmetic, not networks. The three programs are called in turn in one process. *Ratio* is the
median over these rounds of gspmd's time divided by that of the peer with the faster median. Expect noise of ten per
cent.
"""

_COLLECTIVES = """The number of collectives of each kind in which a device takes part in one call, after XLA has
combined some.
"""
