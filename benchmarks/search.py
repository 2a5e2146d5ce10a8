"""Plans that `gspmd search` finds, beside the annotations of experts: the paper's models, and others on other TPUs.

Usage: `python benchmarks/search.py [--rows NAME;..] [--time-limit 100] [--compile 0] [--markdown FILE] [--again]`. The
programs of `search_cases.py` without their annotations; steps are estimated on their topologies, and with `--compile N`
the N best plans and the experts' annotations are compiled by libtpu, too (pip install 'gspmd[tpu]', no TPU is needed;
minutes for each). What was found is kept in benchmarks/search.json, and a row that is there is searched again only with
--again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from jax.sharding import AbstractMesh, AxisType
from search_cases import CASES, Case

import gspmd
from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.examples.common.running import lowered
from gspmd.plan_search.judging import CompiledOutcome, compiled_outcome
from gspmd.reading import read_program
from gspmd.runtime.unannotated import strip
from gspmd.text_report import bytes_text, time_text
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.signature import DONATION, dictionaries, set_dictionaries
from gspmd.transforms.ir.writing import in_memory

_KEPT = Path(__file__).with_suffix(".json")
_HEAD = ("model", "annotations", "step", "sends", "memory", "compiled step", "sends", "memory", "plans", "searched")
_SUMMARY = ("model", "what", "machine", "mesh", "best of the experts", "`gspmd search`", "bound",
            "gap", "plans", "searched", "compiled: experts", "`gspmd search`")  # fmt: skip
_SEARCH = "`gspmd search`"
_SAME = 5e-3  # a part of the step that is told as nothing


def main(arguments: list[str] | None = None) -> int:
    """Search for what is not known yet, print a table, and write it as a page where that is asked for."""
    options = _parse(arguments)
    known: dict[str, Any] = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
    for name in options.rows:
        if name not in known or options.again:
            known[name] = _measured(CASES[name], options.time_limit, options.compile)
            _KEPT.write_text(json.dumps({name: known[name] for name in CASES if name in known}, indent=1) + "\n")
        for row in _rows(name, known[name]):
            print("  ".join(row), flush=True)
    if options.markdown:
        shown = {name: known[name] for name in CASES if name in known}
        Path(options.markdown).write_text(_page(shown), encoding="utf-8")
    return 0


def unannotated(module: Any) -> Any:
    """The program without shardings; what is donated stays so."""
    program = read_program(module)
    with in_memory(program) as top:
        function = main_function(top)
        count = len(function.regions[0].arguments)
        donated = [
            {name: value for name, value in entry.items() if name in DONATION}
            for entry in dictionaries(function, "arg_attrs", count)
        ]
        strip(top)
        entries = dictionaries(function, "arg_attrs", count)
        for entry, kept in zip(entries, donated, strict=True):
            entry.update(kept)
        set_dictionaries(function, "arg_attrs", entries)
    return program


def _measured(case: Case, time_limit_s: float, compiled: int) -> dict[str, Any]:
    """What the experts' annotations and the plan cost, in plain values; compiled, too, with so many of the plans."""
    mesh = AbstractMesh(tuple(case.mesh.values()), tuple(case.mesh), axis_types=(AxisType.Auto,) * len(case.mesh))
    programs = {how: lowered(case.program(expert), mesh).program for how, expert in case.experts.items()}
    experts = {how: outcome_of(api.partition(each, target=case.target), case.target) for how, each in programs.items()}
    program = unannotated(next(iter(programs.values())))
    plan = gspmd.search(program, mesh=dict(case.mesh), target=case.target, time_limit_s=time_limit_s, compiled=compiled)
    made: dict[str, CompiledOutcome | None] = {_SEARCH: plan.compiled} if compiled else {}
    for how in [how for how, outcome in experts.items() if compiled and outcome.fits]:
        made[how] = compiled_outcome(programs[how], case.target, {}, 0.0)
    return {
        "experts": {how: outcome.to_dict() for how, outcome in experts.items()},
        "plan": plan.outcome.to_dict(),
        "baselines": {how: outcome.to_dict() for how, outcome in plan.baselines.items()},
        "bound": plan.bound.to_dict(),
        "decisions": sum(decision.dims is not None for decision in plan.decisions),
        "compiled": {how: None if outcome is None else outcome.to_dict() for how, outcome in made.items()},
        "gap": plan.gap,
        "tried": plan.tried,
        "seconds": plan.seconds,
    }


# ---- the page ----


def _page(known: dict[str, Any]) -> str:
    rows = [row for name in known for row in _rows(name, known[name])]
    summary, heads = [_summary(name, kept) for name, kept in known.items()], (_SUMMARY, _HEAD)
    verdict = f"By the estimate, the plan is {_verdict([_ratio(kept) for kept in known.values()])}."
    if any(kept["compiled"] for kept in known.values()):
        verdict += f"\nAs compiled, it is {_verdict([_compiled_ratio(kept) for kept in known.values()])}."
    else:  # columns that nothing is in are left out
        summary, rows = [row[:-2] for row in summary], [(*row[:5], *row[8:]) for row in rows]
        heads = _SUMMARY[:-2], (*_HEAD[:5], *_HEAD[8:])
    return f"{_INTRODUCTION}\n{_table(heads[0], summary)}\n\n{verdict}\n\n{_DETAILS}\n{_table(heads[1], rows)}\n"


_INTRODUCTION = """# Searched plans beside the annotations of experts

Written by `python benchmarks/search.py --markdown docs/measured/search.md`. The models of the paper (arXiv 2105.04663)
and others are searched without their annotations. The tables compare the estimated time of a step for the annotations
of experts, for the plan of `gspmd search`, and for known strategies. *2-D* is the paper's final sharding. *Megatron*
splits tensors on y, sequences on y between blocks (arXiv 2205.05198), and the optimizer's state also on x. *FSDP*
splits examples and weights on both axes. The bound is a lower bound on the time of any plan, by the same estimate,
relative to the plan's step. The gap is the largest possible distance of the search's solution from its optimum.

With `--compile N` (which needs libtpu, but no TPU), plans and annotations are also compiled. The time of a step is
then also estimated from libtpu's schedule and its own cycles, and the compiler decides between the best plans of the
search. Nothing is measured on a TPU. The programs of the models are in `benchmarks/search_models.py` and the examples,
and their list is in `benchmarks/search_cases.py`.
"""
_DETAILS = """## All figures

Memory is the peak memory of a device. The number in brackets is the time of a step relative to the best of the experts'
annotations that fit. Searches had two cores, which they shared with other work.
"""


def _verdict(found: list[float | None]) -> str:
    """For how many programs the plan is faster than the experts' annotations, as fast, and slower."""
    ratios = [ratio for ratio in found if ratio is not None]
    faster, slower = sum(ratio < 1 - _SAME for ratio in ratios), sum(ratio > 1 + _SAME for ratio in ratios)
    return (
        f"faster than the best of the experts' annotations that fit for {faster} of {len(ratios)} programs, as fast\n"
        f"for {len(ratios) - faster - slower}, to half a percent, and slower for {slower}"
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    rule = tuple("---" if name in ("model", "what", "machine", "mesh", "annotations") else "--:" for name in head)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def _best(kept: dict[str, Any]) -> tuple[str, Outcome] | None:
    """The experts' annotations that take least and fit."""
    fitting = [(how, Outcome(**each)) for how, each in kept["experts"].items() if each["fits"]]
    return min(fitting, key=lambda each: each[1].step_s, default=None)


def _ratio(kept: dict[str, Any]) -> float | None:
    best = _best(kept)
    return None if best is None else float(kept["plan"]["step_s"]) / best[1].step_s


def _compiled(kept: dict[str, Any]) -> dict[str, CompiledOutcome]:
    """What the compiler made, by annotations; nothing of what it refused."""
    return {how: CompiledOutcome(**each) for how, each in kept.get("compiled", {}).items() if each is not None}


def _compiled_best(kept: dict[str, Any]) -> tuple[str, CompiledOutcome] | None:
    """The experts' annotations that take least as compiled."""
    made = [(how, outcome) for how, outcome in _compiled(kept).items() if how != _SEARCH]
    return min(made, key=lambda each: each[1].step_s, default=None)


def _compiled_ratio(kept: dict[str, Any]) -> float | None:
    best, plan = _compiled_best(kept), _compiled(kept).get(_SEARCH)
    return None if best is None or plan is None else plan.step_s / best[1].step_s


def _summary(name: str, kept: dict[str, Any]) -> tuple[str, ...]:
    case, best, ratio = CASES[name], _best(kept), _ratio(kept)
    mesh = ", ".join(f"{axis}={size}" for axis, size in case.mesh.items())
    said = "none fits" if best is None else f"{best[0]}: {time_text(best[1].step_s)}"
    found = time_text(kept["plan"]["step_s"]) + ("" if ratio is None else f" ({ratio:.2f})")
    bound = f"{100 * kept['bound']['seconds'] / kept['plan']['step_s']:.0f} %"
    made, plan, compiled_ratio = _compiled_best(kept), _compiled(kept).get(_SEARCH), _compiled_ratio(kept)
    compiled = (
        "" if made is None else f"{made[0]}: {time_text(made[1].step_s)}",
        "" if plan is None else time_text(plan.step_s) + ("" if compiled_ratio is None else f" ({compiled_ratio:.2f})"),
    )
    gap, searched = f"{100 * max(kept['gap'], 1e-4):.2g} %", (str(kept["tried"]), f"{kept['seconds']:.0f} s")
    return name, case.summary, f"`{case.target}`", mesh, said, found, bound, gap, *searched, *compiled


def _rows(name: str, kept: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = [_row(name, how, each, kept) for how, each in kept["experts"].items()]
    found = _row(name, _SEARCH, kept["plan"], kept)
    rows.append((*found[:-2], str(kept["tried"]), f"{kept['seconds']:.0f} s"))
    return [*rows, *(_row(name, how, each, kept) for how, each in kept["baselines"].items())]


def _row(name: str, way: str, figures: dict[str, Any], kept: dict[str, Any]) -> tuple[str, ...]:
    outcome, best, made, made_best = Outcome(**figures), _best(kept), _compiled(kept).get(way), _compiled_best(kept)
    ratio = "" if best is None else f" ({outcome.step_s / best[1].step_s:.2f})"
    memory = bytes_text(outcome.memory_bytes) + ("" if outcome.fits else ", too much")
    compiled = ("", "", "")
    if made is not None:
        part = "" if made_best is None else f" ({made.step_s / made_best[1].step_s:.2f})"
        compiled = time_text(made.step_s) + part, bytes_text(made.sent_bytes), bytes_text(made.memory_bytes)
    return name, way, time_text(outcome.step_s) + ratio, bytes_text(outcome.sent_bytes), memory, *compiled, "", ""


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=lambda text: text.split(";"), default=list(CASES))
    parser.add_argument("--time-limit", type=float, default=100.0)
    parser.add_argument("--compile", type=int, default=0, metavar="N")
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--again", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
