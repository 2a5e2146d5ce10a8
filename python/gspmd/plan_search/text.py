"""What a plan says, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.costs.outcome import Outcome
from gspmd.plan_search.bound import Bound
from gspmd.plan_search.judging import CompiledOutcome
from gspmd.plan_search.pipelining import AXIS, PipelineProposal
from gspmd.plan_search.plan_decision import PlanDecision
from gspmd.plan_search.pricing import Dims
from gspmd.suggestions.source_patch import SourcePatch
from gspmd.suggestions.text import patch_lines
from gspmd.tables import fitted, table
from gspmd.text_report import bytes_text, mesh_text, time_text

_SAME = 0.05  # smaller percentages are printed as zero
_MAX = 40  # decisions that are printed


def bound_lines(bound: Bound, gap: float, outcome: Outcome) -> list[str]:
    """How good any plan can be, and how good this one is."""
    lines = []
    if bound.seconds:
        part = bound.seconds / outcome.step_s if outcome.step_s else 1.0
        least = f"{time_text(bound.seconds)}, {100 * part:.0f} % of the step"
        lines = fitted([f"no plan takes less than {least}: {bound.reason}"])
    within = f"within {100 * max(gap, 1e-4):.2g} %"
    return lines + fitted([f"at the prices of the search, it is {within} of the optimum"])


def compiled_line(made: CompiledOutcome) -> str:
    """What the target's compiler makes of the plan."""
    sent, held = bytes_text(made.sent_bytes), bytes_text(made.memory_bytes)
    return f"as compiled: {time_text(made.step_s)} a step, {sent} sent, {held} held"


def decision_lines(decisions: Sequence[PlanDecision]) -> list[str]:
    """What was decided, what was so already, and what is left to propagation."""
    decided = [decision for decision in decisions if decision.dims is not None and not decision.is_given]
    lines = _decision_table("arguments", [decision for decision in decided if not decision.values])
    lines += _decision_table("values inside", [decision for decision in decided if decision.values])
    shown: set[SourcePatch] = set()
    for decision in decided:
        lines += _inside_lines(decision, shown)
    given = sum(decision.is_given for decision in decisions)
    if given:
        lines.append(f"annotated in the program and kept: {given} of {len(decisions)}")
    free = [decision.label for decision in decisions if decision.dims is None and not decision.values]
    return lines + fitted([f"left to propagation: {', '.join(free)}"] if free else [])


def pipeline_lines(found: PipelineProposal, plan_s: float) -> list[str]:
    """A faster pipeline, and the code for it."""
    how = f'num_stages={found.stages}, num_microbatches={found.microbatches}, axis="{AXIS}"'
    layers = f"{found.stages} stages of {found.layers // found.stages} layers on {mesh_text(found.mesh)}"
    return fitted(
        [
            f"a pipeline would be faster: {layers}, {found.microbatches} microbatches, {100 * found.idle:.0f} % idle",
            f"   about {time_text(found.step_s)} a step, {100 * found.step_s / plan_s:.0f} % of this plan's",
            f"   gspmd.pipeline(layers, {how}) instead of the loop over layers (docs/pipelining.md)",
        ]
    )


def _decision_table(what: str, some: Sequence[PlanDecision]) -> list[str]:
    if not some:
        return []
    head = (what, "type", "sharding", *(("next best",) if what == "arguments" else ()))
    lines = ["", *table([head, *(_row(decision)[: len(head)] for decision in some[:_MAX])])]
    more = len(some) - _MAX
    return [*lines, *([f"  ... and {more} more, which --json and --plan have"] if more > 0 else [])]


def _inside_lines(decision: PlanDecision, shown: set[SourcePatch]) -> list[str]:
    """The source lines of values inside, and the changes that constrain them, unless already `shown`."""
    if not decision.values or decision.dims is None:
        return []
    places = decision.places() or [value.name for value in decision.values]
    lines = fitted([f"{decision.label} {_dims_text(decision.dims)} are made at {', '.join(places)}"])
    new = [patch for patch in decision.patches if patch not in shown]
    shown.update(new)
    return ["", *lines, *(f"   {line}" for patch in new for line in patch_lines(patch))]


def _dims_text(dims: Dims) -> str:
    """`x, -, y z`: the axes of each dimension."""
    return "[" + ", ".join(" ".join(names) or "-" for names in dims) + "]"


def _row(decision: PlanDecision) -> tuple[str, ...]:
    assert decision.dims is not None, "it was decided"
    count = f" (x{decision.count})" if decision.count > 1 else ""
    said = " (pinned)" if decision.is_pinned else ""
    next_ = ""
    if decision.next_dims is not None and decision.next_cost is not None:
        more = 100 * (decision.next_cost - 1)
        next_ = f"{_dims_text(decision.next_dims)}: " + (f"{more:+.1f} %" if abs(more) >= _SAME else "as good")
    places = decision.places()
    label = f"{places[0]}{' ..' if len(places) > 1 else ''}" if places else decision.label
    return label + count, decision.type, _dims_text(decision.dims) + said, next_
