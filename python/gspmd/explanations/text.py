"""Explanations as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gspmd.dialect.errors import SourceLocation
from gspmd.explanations.conflicts import Conflict
from gspmd.explanations.derivations import Derivation, DerivationStep, Origin
from gspmd.explanations.explained_values import ExplainedValue, RefinedValue
from gspmd.tables import good, table, text_width
from gspmd.text_report import bytes_text, devices_text, sent_text
from gspmd.transforms.decide.terms import Terms
from gspmd.transforms.propagate.factors import LEVELS

_MAX = 10
_PROVEN = 1e-9  # smaller gaps are rounding errors


def origin_lines(origins: Sequence[tuple[Origin, int]], most: int = _MAX) -> list[str]:
    """How many values each annotation gives an axis."""
    if not origins:
        return []
    rows = [(str(count), origin.text, _at(origin.location)) for origin, count in origins[:most]]
    return [*table([("values", "sharded by", "at"), *rows], right=(0,)), *_more(len(origins), most)]


def unexplained_lines(failed: Sequence[str], most: int = _MAX) -> list[str]:
    """The sentences on what could not be explained, if there are any."""
    lines = [f"  {sentence}" for sentence in failed[:most]]
    head = "not explained, which is a defect of gspmd; please report it:"
    return [head, *lines, *_more(len(failed), most)] if failed else []


def refinement_lines(refined: Sequence[RefinedValue], most: int = _MAX) -> list[str]:
    """The values that run with another sharding than propagation chose."""
    if not refined:
        return []
    rows = [(value.name, f"{value.sharding} -> {value.runs_as}", _at(value.location)) for value in refined[:most]]
    some = "1 value runs" if len(refined) == 1 else f"{len(refined)} values run"
    why = f"{some} with another sharding than propagation chose, because it lowers the total cost:"
    return [why, *table([("value", "sharding", "at"), *rows]), *_more(len(refined), most)]


def decision_lines(gap: float, terms: Terms) -> list[str]:
    """The quality of the decision under the objective, and its cost by term."""
    best = "proven optimal" if gap < _PROVEN else f"within {max(gap, 1e-4):.2%} of optimal"
    named = [(_time(seconds), name) for name, seconds in terms.named.items() if _time(seconds) != _time(0)]
    return [f"this decision is {best} under the objective", *table([("counts", "term"), *named], right=(0,))]


def conflict_summary_lines(conflicts: Sequence[Conflict], most: int = _MAX) -> list[str]:
    """One line per conflict."""
    paid = [conflict for conflict in conflicts if conflict.collectives]
    total, time_s = sum(c.bytes for c in paid), sum(c.time_s for c in paid)
    if not conflicts:
        return ["no conflicts, no communication"]
    known = sent_text(total, [collective for conflict in paid for collective in conflict.collectives])
    sent = f"a device sends {known} in about {_time(time_s)}"
    lines = [f"{len(conflicts)} conflict{'s' if len(conflicts) != 1 else ''}, {len(paid)} with communication: {sent}"]
    rows = [(bytes_text(c.bytes), _time(c.time_s), _subject(c), _at(c.location)) for c in paid[:most]]
    return [*lines, *table([("sent", "time", "operation", "at"), *rows], right=(0, 1)), *_more(len(paid), most)]


def conflict_lines(conflict: Conflict, alternatives: int = 3) -> list[str]:
    """The disagreement at one operation, its resolution and its cost."""
    cost = "no communication"
    if conflict.collectives:
        cost = f"{bytes_text(conflict.bytes)} sent per device, about {_time(conflict.time_s)}"
    lines = [f"{_subject(conflict)}{_at(conflict.location, ' at ')}: {cost}"]
    lines += [f"    {reason}" for reason in conflict.reasons]
    rows = []
    for tensor in conflict.tensors:
        change = tensor.has if tensor.has == tensor.runs_as else f"{tensor.has} -> {tensor.runs_as}"
        because = "; ".join(dict.fromkeys(derivation.origin.text for derivation in tensor.derivations))
        rows.append((f"{tensor.place} {tensor.value}", change, f"from {because}" if because else ""))
    lines += [f"  {line}" for line in _inner_table(rows)]
    for collective in conflict.collectives:
        times = "" if collective.count == 1 else f" x {collective.count or '?'}"
        axes = collective.axes.replace('"', "")
        lines.append(
            f"    {collective.kind} over {axes}: {sent_text(collective.bytes, [collective])}{times}; {collective.cause}"
        )
    others = [a for a in conflict.alternatives if not a.chosen]
    chosen = [a for a in conflict.alternatives if a.chosen]
    if chosen and others:
        cost = f"{bytes_text(chosen[0].bytes)} and {_time(chosen[0].time_s)}"
        lines.append(good(f"    compared {len(conflict.alternatives)} candidates; chose {cost}, against"))
        forms = [
            (bytes_text(a.bytes), _time(a.time_s), f"{', '.join(a.operands)} -> {', '.join(a.results)}") for a in others
        ]
        lines += [f"    {line}" for line in _inner_table(forms[:alternatives], right=(0, 1))]
    return lines


def values_table(values: Sequence[ExplainedValue], named: int = 4) -> list[str]:
    """One row per group of values with equal shardings from equal annotations, the largest groups first."""
    groups: dict[tuple[str, str], list[ExplainedValue]] = {}
    for value in values:
        origins = "; ".join(dict.fromkeys(derivation.origin.text for derivation in value.derivations))
        groups.setdefault((value.sharding, origins), []).append(value)
    rows = [("values", "", "sharding", "because of")]
    for (sharding, origins), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        names = ", ".join(value.name for value in members[:named]) + (", .." if len(members) > named else "")
        rows.append((str(len(members)), names, sharding, origins or "no annotation reaches them"))
    return [f"{len(values)} values:", *table(rows, right=(0,))]


def value_lines(value: ExplainedValue) -> list[str]:
    """The sharding of a value and the derivation of each axis."""
    label = f" {value.label}" if value.label else ""
    made = f" = {value.operation}" if value.kind == "operation" else f" ({value.kind})"
    copy = f", copy for {value.used_by}" if value.used_by else ""
    call = f", in the call {value.called_for}" if value.called_for else ""
    local = "x".join(map(str, value.local_shape)) or "scalar"
    lines = [f"{value.name}{label}{made} {value.type}{_at(value.location, ' at ')}{call}{copy}"]
    order = f" on {devices_text(value.device_ids)}" if value.device_ids else ""
    lines.append(f"  sharding {value.sharding}{order}, {local} on each device")
    if not value.derivations:
        is_split = any(value.placement.dim_axes())
        lines.append("  the origin of its axes is not known" if is_split else "  no annotation reaches it")
    for derivation in value.derivations:
        lines += _derivation_lines(derivation)
    return lines


def _derivation_lines(derivation: Derivation) -> Iterator[str]:
    origin = derivation.origin
    yield f"  dimension {derivation.dimension} over {derivation.axes}:"
    rows = [
        (f"from dimension {step.from_dimension} of {step.from_value}", _way(step), _at(step.location), _when(step))
        for step in derivation.steps
    ]
    for line in _inner_table(rows):
        yield f"  {line}"
    if derivation.left_out:
        yield f"    and {derivation.left_out} more steps"
    where = _at(origin.location, " at ")
    yield f"    annotated: {origin.text}, dimension {origin.dimension}{where}"


def _inner_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """A table with more indentation than others."""
    width = text_width()
    return table(rows, right, width - 4 if width else None)


def level_lines(values: Sequence[ExplainedValue]) -> list[str]:
    """The meaning of the levels that the steps name."""
    used = {step.level for value in values for derivation in value.derivations for step in derivation.steps}
    return [f"level {index}: {words}" for index, words in enumerate(LEVELS) if words in used]


def _when(step: DerivationStep) -> str:
    priority = f", priority {step.priority}" if step.priority else ""
    return f"level {LEVELS.index(step.level)}{priority}"


def _way(step: DerivationStep) -> str:
    name = step.operation.rpartition(".")[2]
    return f"{name} {step.operation_value}".strip() + f": {step.source} to {step.target}"


def _subject(conflict: Conflict) -> str:
    name = conflict.operation.rpartition(".")[2] if conflict.operation.startswith(("stablehlo.", "sdy.")) else ""
    return f"{name or conflict.operation} {conflict.value}".strip()


def _at(location: SourceLocation | None, prefix: str = "") -> str:
    return prefix + location.brief if location else ""


def _time(seconds: float) -> str:
    for unit, name in ((1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit / 10:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds * 1e9:.0f} ns"


def _more(count: int, most: int) -> list[str]:
    return [f"  ... and {count - most} more"] if count > most else []
