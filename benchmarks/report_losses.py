"""The figures of `losses.py` as text, and the programs in which ours sends most more."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Sequence

from loss_cases import Case
from sent import OURS, PARTITIONERS

from gspmd.tables import table
from gspmd.text_report import bytes_text

_BOUNDS = (0.25, 0.5, 0.75, 0.9, 1.0 / 1.01, 1.01, 1.1, 1.5, 2.0, 4.0)


def summary(cases: Sequence[Case]) -> list[str]:
    """How many programs send less, equal and more than the better peer, ratios of bytes, and who failed."""
    compared = [case for case in cases if case.comparable]
    verdicts = collections.Counter(case.verdict for case in compared)
    counts = ", ".join(f"{verdicts[each]} {each}" for each in ("less", "equal", "more"))
    reasons = collections.Counter(case.reason for case in compared if case.lost)
    lines = [
        f"{len(compared)} of {len(cases)} programs compared with the better peer: {counts}",
        *(f"of those that send more, {count}: {reason}" for reason, count in reasons.most_common()),
    ]
    if compared:
        ours, theirs = sum(c.ours for c in compared), sum(c.theirs for c in compared)
        mean = math.exp(sum(math.log(case.ratio) for case in compared) / len(compared))
        lines.append(
            f"bytes sent: {bytes_text(ours)} against {bytes_text(theirs)}, ratio {ours / max(theirs, 1):.3f}; "
            f"geometric mean of the ratios {mean:.3f} (1 KiB added to both)"
        )
        lines += ["", *table(_distribution(compared), right=(1,))]
    return [*lines, "", *table(_failures(cases), right=(1, 2, 3, 4, 5))]


def _distribution(cases: Sequence[Case]) -> list[list[str]]:
    rows = [["ratio", "programs"]]
    edges = (0.0, *_BOUNDS, math.inf)
    for low, high in itertools.pairwise(edges):
        name = f"{low:.2f} to {high:.2f}" if high < math.inf else f"over {low:.2f}"
        rows.append([name, str(sum(low <= case.ratio < high for case in cases))])
    return rows


def _failures(cases: Sequence[Case]) -> list[list[str]]:
    rows = [["", "compiled", "refused", "aborted", "wrong", "not run"]]
    for partitioner in PARTITIONERS:
        outcomes = [case.outcomes[partitioner] for case in cases]
        refused, aborted = (sum(o.failure.startswith(word) for o in outcomes) for word in ("refuses", "aborts"))
        compiled, wrong = sum(o.sent is not None for o in outcomes), sum(bool(o.wrong) for o in outcomes)
        unchecked = sum(bool(o.unchecked) for o in outcomes)
        rows.append([partitioner, *map(str, (compiled, refused, aborted, wrong, unchecked))])
    return rows


def worst(cases: Sequence[Case], count: int) -> list[Case]:
    """Those that send most more, by ratio."""
    found = [case for case in cases if case.comparable and case.verdict == "more"]
    return sorted(found, key=lambda case: -case.ratio)[:count]


def details(case: Case) -> list[str]:
    """One program: collectives of ours and of the better peer, side by side."""
    mesh = ", ".join(f"{name}={size}" for name, size in case.mesh)
    head = f"{case.name}: {case.ratio:.2f} on {mesh}"
    if case.kinds:
        kinds = collections.Counter(case.kinds).most_common()
        head += "; " + ", ".join(f"{kind} x{n}" if n > 1 else kind for kind, n in kinds)
    return ["", head, *table([["", OURS, case.peer], *_beside(case)], right=(1, 2)), *_said(case)]


def _beside(case: Case) -> Iterator[list[str]]:
    sides = []
    for partitioner in (OURS, case.peer):
        found = case.outcomes[partitioner].sent
        assert found is not None, "only programs that compile are compared"
        sides.append({entry[:2]: entry[2:] for entry in found.collectives})
    total = [bytes_text(case.ours), bytes_text(case.theirs)]
    yield ["in all", *total]
    flops = [found.flops for each in (OURS, case.peer) if (found := case.outcomes[each].sent) is not None]
    if any(flops):
        yield ["arithmetic", *(f"{each:.3g} flop" for each in flops)]
    for key in sorted({*sides[0], *sides[1]}, key=lambda k: -max(side.get(k, (0, 0.0))[1] for side in sides)):
        cells = [f"{side[key][0]} x, {bytes_text(side[key][1])}" if key in side else "" for side in sides]
        yield [f"{key[0]} {key[1]}", *cells]


def _said(case: Case) -> Iterator[str]:
    if case.pinned is not None:
        said = bytes_text(case.pinned.bytes) if case.pinned.sent else f"nothing known ({case.pinned.failure})"
        yield f"  with arguments and results as the peer lays them out, {OURS}: {said}"
    for partitioner, outcome in case.outcomes.items():
        if outcome.failure or outcome.wrong or outcome.unchecked:
            why = outcome.wrong and f"is wrong: {outcome.wrong}"
            yield f"  {partitioner} {outcome.failure or why or f'was not run: {outcome.unchecked}'}"
