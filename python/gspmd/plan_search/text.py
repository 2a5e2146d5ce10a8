"""Plans as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.costs.outcome import Outcome
from gspmd.costs.text import time_text
from gspmd.plan_search.pipelining import AXIS, PipelineProposal
from gspmd.plan_search.plan import PlanDecision, ShardingPlan
from gspmd.plan_search.pricing import Dims
from gspmd.suggestions.source_patch import SourcePatch
from gspmd.suggestions.text import patch_lines
from gspmd.tables import fitted, good_row, table
from gspmd.text_report import bytes_text, mesh_text

_SAME = 0.05  # smaller percentages are printed as zero
_MOST = 40  # decisions that are printed


def plan_lines(plan: ShardingPlan) -> list[str]:
    """The decisions with their runners-up, and the cost of the program compared with well-known parallelisms."""
    lines = [f"{mesh_text(plan.mesh)}, target {plan.target or 'neutral'}", ""]
    rows: list[Sequence[str]] = [("", "step", "sent", "memory")]
    rows += [(name, *_cells(outcome)) for name, outcome in plan.baselines.items()]
    mine = ("this plan", *_cells(plan.outcome))
    is_better = all(plan.outcome.step_s < outcome.step_s for outcome in plan.baselines.values())
    rows.append(good_row(mine) if is_better else mine)
    lines += table(rows, right=(1, 2, 3))
    bound = plan.bound
    if bound.seconds:
        part = bound.seconds / plan.outcome.step_s if plan.outcome.step_s else 1.0
        least = f"{time_text(bound.seconds)}, {100 * part:.0f} % of the step"
        lines += fitted([f"no plan takes less than {least}: {bound.reason}"])
    lines += fitted([f"at the prices of the search, it is within {100 * max(plan.gap, 1e-4):.2g} % of the optimum"])
    if plan.compiled is not None:
        made = plan.compiled
        sent, held = bytes_text(made.sent_bytes), bytes_text(made.memory_bytes)
        lines.append(f"as compiled: {time_text(made.step_s)} a step, {sent} sent, {held} held")
    decided = [decision for decision in plan.decisions if decision.dims is not None and not decision.is_given]
    for what, some in (
        ("arguments", [decision for decision in decided if not decision.values]),
        ("values inside", [decision for decision in decided if decision.values]),
    ):
        if some:
            head = (what, "type", "sharding", *(("next best",) if what == "arguments" else ()))
            lines += ["", *table([head, *(_row(decision)[: len(head)] for decision in some[:_MOST])])]
            if len(some) > _MOST:
                lines.append(f"  ... and {len(some) - _MOST} more, which --json and --plan have")
    shown: set[SourcePatch] = set()
    for decision in decided:
        lines += _inside_lines(decision, shown)
    given = sum(decision.is_given for decision in plan.decisions)
    if given:
        lines.append(f"annotated in the program and kept: {given} of {len(plan.decisions)}")
    free = [decision.label for decision in plan.decisions if decision.dims is None and not decision.values]
    if free:
        lines += fitted([f"left to propagation: {', '.join(free)}"])
    if plan.pipelining is not None:
        lines += ["", *fitted(_pipeline_lines(plan.pipelining, plan.outcome.step_s))]
    end = "no other solution looks better" if plan.is_complete else "time limit reached"
    return [*lines, "", *fitted([f"{plan.tried} plans priced in {plan.seconds:.0f} s; {end}"])]


def _inside_lines(decision: PlanDecision, shown: set[SourcePatch]) -> list[str]:
    """The source lines of values inside, and the changes that constrain them, unless already `shown`."""
    if not decision.values or decision.dims is None:
        return []
    places = decision.places() or [value.name for value in decision.values]
    lines = fitted([f"{decision.label} {dims_text(decision.dims)} are made at {', '.join(places)}"])
    new = [patch for patch in decision.patches if patch not in shown]
    shown.update(new)
    return ["", *lines, *(f"   {line}" for patch in new for line in patch_lines(patch))]


def _pipeline_lines(found: PipelineProposal, plan_s: float) -> list[str]:
    """A faster pipeline, and the code for it."""
    how = f'num_stages={found.stages}, num_microbatches={found.microbatches}, axis="{AXIS}"'
    layers = f"{found.stages} stages of {found.layers // found.stages} layers on {mesh_text(found.mesh)}"
    return [
        f"a pipeline would be faster: {layers}, {found.microbatches} microbatches, {100 * found.idle:.0f} % idle",
        f"   about {time_text(found.step_s)} a step, {100 * found.step_s / plan_s:.0f} % of this plan's",
        f"   gspmd.pipeline(layers, {how}) instead of the loop over layers (docs/pipelining.md)",
    ]


def dims_text(dims: Dims) -> str:
    """`x, -, y z`: the axes of each dimension."""
    return "[" + ", ".join(" ".join(names) or "-" for names in dims) + "]"


def _cells(outcome: Outcome) -> tuple[str, str, str]:
    too_much = "" if outcome.fits else " (too much)"
    return time_text(outcome.step_s), bytes_text(outcome.sent_bytes), bytes_text(outcome.memory_bytes) + too_much


def _row(decision: PlanDecision) -> tuple[str, ...]:
    assert decision.dims is not None, "it was decided"
    count = f" (x{decision.count})" if decision.count > 1 else ""
    said = " (pinned)" if decision.is_pinned else ""
    next_ = ""
    if decision.next_dims is not None and decision.next_cost is not None:
        more = 100 * (decision.next_cost - 1)
        next_ = f"{dims_text(decision.next_dims)}: " + (f"{more:+.1f} %" if abs(more) >= _SAME else "as good")
    places = decision.places()
    label = f"{places[0]}{' ..' if len(places) > 1 else ''}" if places else decision.label
    return label + count, decision.type, dims_text(decision.dims) + said, next_
