"""The page of the documentation on MaxText, from what `run.py` stored."""

from __future__ import annotations

import collections
import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from configurations import RUNS, TOPOLOGIES
from kernels import PROGRAMS
from watching import JAX, OURS

_DIFFER = "losses differ"
Cells = Mapping[str, Mapping[str, Any]]
_HEAD = """\
# MaxText by gspmd.jit and by jax.jit

Written by `python benchmarks/maxtext/run.py --markdown docs/measured/maxtext.md`, in an environment as
`benchmarks/maxtext/environment.sh` makes it. MaxText 0.2.5 is as its authors publish it, with one change: in the
modules that jit its steps, the name `jax` stands for an object whose `jit` is `gspmd.jit`. Every cell is measured in
its own process. If one of the two cannot be compared, the exception is below the table.

- *bytes*: those that a device sends in a step under ring algorithms, counted in the optimised HLO of both, with loops
  as often as they run. *as scattered* counts an all-reduce as a reduce-scatter if every device uses only its own shard
  of the result: XLA replaces it so for TPUs, but not for CPUs, so that *bytes* on CPUs flatter gspmd.
  A collective that libtpu prints in several fusions counts once.
- *memory* is arguments, results and temporaries of a device. *flops* are those of dots and convolutions.
- *made* is processor time to trace, lower, partition and compile a step once, on a machine that other work shares.
- Ratios are gspmd.jit's over jax.jit's.
"""
_HERE = """\
## On eight CPU devices

Tiny models, four steps each. *losses* is the largest relative difference in any step, with the tolerance in brackets.
*run* is the processor time of the whole process to the last step, of which the import of libraries is several seconds
in both. Other programs ran on the machine at times, so that wall times are not comparable, least of all that of a
*step*.
"""
_RUNS = """
Whole runs take {median:.2f} of the processor time of jax.jit's in the median, {least:.2f} to {most:.2f} in single rows.
XLA takes longer to compile exchanges than the gathers in their place, as each is cut into pieces.
"""
_THERE = """\
## Compiled for TPUs

Whole models with MaxText's own choice of kernels, compiled by libtpu for a topology. No TPU is needed, and nothing is
measured on one. *step* is an estimate from the optimised HLO, made in the same way for both: the compiler's cycles in
its own order, with collectives on the links of the torus ([compile.md](../compile.md) says how). Context parallelism by
rings, by Ulysses and by both is only in this table, as MaxText has it only for accelerators.
"""
_SMALL = """\
## Single kernels and libraries

One program each, on eight CPU devices (kernels interpreted) or compiled for a topology.
"""


_NOTES = {
    "Llama 3 8B, v5e-64": "products run in steps, while permutes bring their operands, and read the other operand in "
    "each step. With `overlap=false`, the step takes 1.02 of the time, and 1.07 as much is sent as scattered",
    "Llama 3 70B, v5e-256": "weights are gathered, and gradients reduced, over the whole machine. That takes less "
    "time than the fewer bytes of activations, which XLA sends along one dimension of the torus. Over a whole square, "
    "libtpu makes all-reduces of reduce-scatters, which send twice as much in the same time",
    "Gemma 3 27B, v5e-256": "gspmd estimates that the program needs more memory than there is, and gathers all "
    "weights again for the backward pass; XLA keeps some",
    "Gemma 3 27B, v6e-64": "weights that are gathered to compute six layers again are kept for the gradients of these "
    "layers, as they fit into memory; XLA gathers them twice",
    "Llama, tensor 2, tensor-sequence 2": "one device, where nothing is partitioned, has a loss of 5.80529 after a "
    "step, as gspmd.jit has; jax.jit has 5.84214 with Shardy and with GSPMD. The fault in XLA has not been "
    "searched for",
}


def page(cells: Cells) -> str:
    """Markdown: a table for each kind of configuration, and what is not as it should be."""
    lines = [_HEAD, *_revisions(cells), _HERE, *_table(RUNS, cells, _here), *_runs(cells), *_verdict(RUNS, cells)]
    lines += ["", _THERE, *_table(TOPOLOGIES, cells, _there), "", *_verdict(TOPOLOGIES, cells)]
    if PROGRAMS:
        lines += ["", _SMALL, *_table(PROGRAMS, cells, _here), "", *_verdict(PROGRAMS, cells)]
    lines += ["", "## Collectives", "", "How many a device takes part in, and bytes by kind.", "", *_kinds(cells)]
    return "\n".join(lines).rstrip() + "\n"


def _revisions(cells: Cells) -> Iterator[str]:
    """Where gspmd changed while the table was made, how many cells are of which revision."""
    counts = collections.Counter(cell.get("revision", "") for key, cell in cells.items() if key.endswith(OURS))
    if len(counts) > 1:
        said = ", ".join(f"{count} at {name or 'an earlier one'}" for name, count in counts.most_common())
        yield f"gspmd changed while this was measured; its cells are of these revisions: {said}.\n"


def _runs(cells: Cells) -> Iterator[str]:
    """The ratios of whole runs."""
    pairs = [(cells.get(f"{row}, {OURS}", {}), cells.get(f"{row}, {JAX}", {})) for row in RUNS]
    ratios = [a["run_cpu_s"] / b["run_cpu_s"] for a, b in pairs if "run_cpu_s" in a and "run_cpu_s" in b]
    if ratios:
        yield _RUNS.format(median=statistics.median(ratios), least=min(ratios), most=max(ratios))


Columns = Callable[[Any, Mapping[str, Any], Mapping[str, Any]], dict[str, str]]


def _here(row: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, str]:
    return {
        "losses": _difference_text(row, ours, theirs),
        **_sizes(ours, theirs),
        "flops": _ratio(ours["flops"], theirs["flops"]),
        "made": _beside(_made(ours), _made(theirs), lambda s: f"{s:.1f} s") if _made(theirs) else "",
        "step": _beside(ours["call_s"], theirs["call_s"], lambda s: f"{s * 1e3:.0f} ms") if theirs["call_s"] else "",
        "run": _beside(ours["run_cpu_s"], theirs["run_cpu_s"], lambda s: f"{s:.0f} s") if "run_cpu_s" in ours else "",
    }


def _there(row: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, str]:
    return {
        **_sizes(ours, theirs),
        "step": _beside(ours["step_s"], theirs["step_s"], _seconds),
        "compute": _beside(ours["compute_s"], theirs["compute_s"], _seconds),
        "communication": _beside(ours["communication_s"], theirs["communication_s"], _seconds),
        "made": _beside(_made(ours), _made(theirs), lambda s: f"{s:.0f} s"),
    }


def _sizes(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, str]:
    return {
        "bytes": _beside(_sent(ours), _sent(theirs), _bytes),
        "as scattered": _ratio(ours["sent_scattered"], theirs["sent_scattered"]),
        "memory": _beside(ours["memory"]["peak"], theirs["memory"]["peak"], _bytes),
    }


def _table(rows: Mapping[str, Any], cells: Cells, columns: Columns) -> Iterator[str]:
    names: list[str] = []
    for name, row in rows.items():
        ours, theirs = (cells.get(f"{name}, {how}") for how in (OURS, JAX))
        if ours is None or theirs is None or "error" in ours or "error" in theirs:
            continue
        found = columns(row, ours, theirs)
        if not names:
            names = list(found)
            yield f"| configuration | {' | '.join(names)} |"
            yield f"|---|{'--:|' * len(names)}"
        yield f"| {name} | {' | '.join(found.values())} |"


def _verdict(rows: Mapping[str, Any], cells: Cells) -> Iterator[str]:
    """What is not in the table, and why; and what is in it and not as it should be."""
    for name, row in rows.items():
        known = [(how, cells.get(f"{name}, {how}")) for how in (OURS, JAX)]
        failures = [f"{how}: {cell['error']}" for how, cell in known if cell is not None and "error" in cell]
        missing = [f"{how}: not measured" for how, cell in known if cell is None]
        if failures or missing:
            only = known[0][1] is not None and "error" not in known[0][1] and not missing
            third = _third(rows, cells, name, (OURS,)) if only else ""
            yield f"- **{name}**: {'; '.join(_escaped(text) for text in failures + missing)}{third}{_note(name)}"
            continue
        ours, theirs = (cells[f"{name}, {how}"] for how in (OURS, JAX))
        said = worse(row, ours, theirs)
        if said and said[0].startswith(_DIFFER):
            said[0] += _third(rows, cells, name, (OURS, JAX))
        if said:
            yield f"- **{name}**: {', '.join(said)}{_note(name)}"


def _third(rows: Mapping[str, Any], cells: Cells, name: str, hows: tuple[str, ...]) -> str:
    """How far losses are from those of the same model over another mesh, where both of the two agree on these."""
    for other, row in rows.items():
        ours, theirs = (cells.get(f"{other}, {how}") for how in (OURS, JAX))
        if other == name or _model(row) != _model(rows[name]) or ours is None or theirs is None:
            continue
        if "values" not in ours or "values" not in theirs or not difference(ours, theirs) <= row.tolerance:
            continue
        apart = (f"{how}'s by {difference(cells[f'{name}, {how}'], theirs):.0e}" for how in hows)
        return f"; from the losses of *{other}*, the same model over another mesh, {' and '.join(apart)}"
    return ""


def _note(name: str) -> str:
    return f": {_NOTES[name]}" if name in _NOTES else ""


def _model(row: Any) -> tuple[Any, ...]:
    """What a row computes, over whichever mesh."""
    own = {key: value for key, value in getattr(row, "overrides", {}).items() if not key.startswith("ici_")}
    return getattr(row, "program", row), own


def worse(row: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """In what gspmd.jit's program is worse: other losses, or over 1 % more of anything else that is told of both."""
    said = []
    if "values" in ours and not difference(ours, theirs) <= row.tolerance:
        said.append(f"{_DIFFER} ({difference(ours, theirs):.1e})")
    if ours["sent_scattered"] > 1.01 * theirs["sent_scattered"] + 1024:
        said.append(f"sends {_ratio(ours['sent_scattered'], theirs['sent_scattered'])} as scattered")
    if ours["memory"]["peak"] > 1.01 * theirs["memory"]["peak"]:
        said.append(f"needs {_ratio(ours['memory']['peak'], theirs['memory']['peak'])} of the memory")
    if "values" in ours and ours["flops"] > 1.01 * theirs["flops"]:
        said.append(f"computes {_ratio(ours['flops'], theirs['flops'])} of the arithmetic")
    if "step_s" in ours and ours["step_s"] > 1.01 * theirs["step_s"]:
        said.append(f"takes {_ratio(ours['step_s'], theirs['step_s'])} of the time, as estimated")
    return said


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """The largest relative difference of the values of any step; NaN where one is not finite, or missing."""
    pairs = list(zip(ours["values"], theirs["values"], strict=False))
    finite = all(isinstance(v, float) and math.isfinite(v) for pair in pairs for v in pair)
    if not pairs or len(ours["values"]) != len(theirs["values"]) or not finite:
        return math.nan
    return max(abs(a - b) / max(abs(b), 1e-30) for a, b in pairs)


def _difference_text(row: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    return f"{difference(ours, theirs):.0e} ({row.tolerance:.0e})" if "values" in ours else ""


def _kinds(cells: Cells) -> Iterator[str]:
    kinds = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")
    yield f"| configuration | by | {' | '.join(kind.replace('_', '-') for kind in kinds)} |"
    yield f"|---|---|{'--:|' * len(kinds)}"
    for name in (*RUNS, *TOPOLOGIES, *PROGRAMS):
        for how in (OURS, JAX):
            cell = cells.get(f"{name}, {how}")
            if cell is not None and "error" not in cell:
                numbers = (cell["collectives"].get(kind, 0) for kind in kinds)
                texts = (
                    f"{n}, {_bytes(cell['sent'][kind])}" if n else "" for kind, n in zip(kinds, numbers, strict=True)
                )
                yield f"| {name} | {how} | {' | '.join(texts)} |"


def _sent(cell: Mapping[str, Any]) -> float:
    return float(sum(cell["sent"].values()))


def _made(cell: Mapping[str, Any]) -> float:
    return float(cell["lower_s"] + cell["partition_s"] + cell["compile_s"])


def _beside(ours: float, theirs: float, text: Callable[[float], str]) -> str:
    return f"{text(ours)} / {text(theirs)} ({_ratio(ours, theirs)})"


def _ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f}" if theirs else "1.00" if not ours else "more"


def _bytes(count: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
