"""The results of several partitioners for one program, side by side, as text and JSON."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gspmd.checks.verdicts import CheckReport
from gspmd.comparisons.figures import COMPARED, Figures, SentCollectives
from gspmd.comparisons.measuring import OURS
from gspmd.comparisons.text import NONE, collective_text, columns, figure_rows, line_text, narrow_table
from gspmd.dialect.mesh import Mesh
from gspmd.tables import bad, fitted, good
from gspmd.text_report import bytes_text, mesh_text
from gspmd.verification.verdicts import Verdict, Verification

NOT_RUN = "running it was not requested"
"""The reason that results are not compared."""
NOT_ASKED = "a proof was not requested"
"""The reason that there is no proof."""
_MAX_CAUSES = 4  # of gspmd's, for one line


@dataclasses.dataclass(frozen=True, slots=True)
class Opinion:
    """The result of one partitioner for the program.

    If it failed, `figures` is None, and `failure` says whether it refused the program or ended the process, and why.
    `results` compare with the unpartitioned program; if that is None, `unchecked` has the reason. `verification` is the
    proof of its module; if that is None, `unproved` has the reason.
    """

    partitioner: str
    figures: Figures | None = None
    failure: str = ""
    results: CheckReport | None = None
    unchecked: str = ""
    verification: Verification | None = None
    unproved: str = NOT_ASKED

    def to_dict(self) -> dict[str, Any]:
        """The fields in plain values, as for JSON."""
        return {
            "partitioner": self.partitioner,
            "failure": self.failure,
            "figures": self.figures.to_dict() if self.figures else None,
            "agrees": None if self.results is None else self.results.passed,
            "unchecked": self.unchecked,
            "results": self.results.to_dict() if self.results else None,
            "unproved": self.unproved,
            "verification": self.verification.to_dict() if self.verification else None,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class LineDifference:
    """A source line whose traffic differs between partitioners.

    `sent` has the traffic of each partitioner for the line, in the order of the opinions that have figures.
    """

    line: str
    sent: Mapping[str, tuple[SentCollectives, ...]]

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of gspmd's collectives for the line."""
        return tuple(dict.fromkeys(each.cause for each in self.sent.get(OURS, ()) if each.cause))

    @property
    def spread(self) -> int:
        """The most bytes that a partitioner sends for the line, less the fewest."""
        sizes = [sum(each.bytes for each in sent) for sent in self.sent.values()]
        return max(sizes) - min(sizes)


@dataclasses.dataclass(frozen=True, slots=True)
class SecondOpinion:
    """The results of several partitioners for a program, gspmd first; true if gspmd's results agree with the program's.

    If nothing was to be run, it is true if gspmd partitions the program. It is false if gspmd's module is refuted.
    """

    mesh: Mesh
    target: str
    opinions: tuple[Opinion, ...]
    differences: tuple[LineDifference, ...]

    @property
    def ours(self) -> Opinion:
        return self.opinions[0]

    @property
    def passed(self) -> bool:
        if self.ours.verification is not None and self.ours.verification.verdict is Verdict.REFUTED:
            return False
        if self.ours.results is not None:
            return self.ours.results.passed
        return self.ours.unchecked == NOT_RUN

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        """The text that `gspmd compare` prints."""
        return "\n".join(fitted(opinion_lines(self)))

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values, as for JSON."""
        return {
            "passed": self.passed,
            "mesh": dict(self.mesh.axes),
            "num_partitions": self.mesh.size,
            "target": self.target,
            "opinions": [opinion.to_dict() for opinion in self.opinions],
            "differences": [
                {
                    "line": each.line,
                    "sent": {name: [dataclasses.asdict(s) for s in sent] for name, sent in each.sent.items()},
                    "causes": list(each.causes),
                }
                for each in self.differences
            ],
        }


def opinion_lines(found: SecondOpinion, most: int = 10) -> list[str]:
    """The figures of the partitioners side by side, and up to `most` lines, those with the largest spread."""
    opinions = found.opinions
    rows = [("", *(opinion.partitioner for opinion in opinions))]
    rows.append(("results", *map(_verdict, opinions)))
    if any(opinion.unproved != NOT_ASKED for opinion in opinions):
        rows.append(("for all inputs", *map(_proof, opinions)))
    figures = [opinion.figures for opinion in opinions]
    rows += _with_best_marked(figure_rows(figures), figures)
    lines = [
        f"{mesh_text(found.mesh)}, target {found.target or 'neutral'}",
        "",
        *narrow_table(rows, range(1, len(rows[0]))),
    ]
    for opinion in opinions:
        lines += _remarks(opinion)
    if found.differences:
        lines += ["", "where they differ, as sent by a device:"]
        for difference in found.differences[:most]:
            lines += _difference_lines(difference)
        if len(found.differences) > most:
            lines.append(f"  ... and {len(found.differences) - most} more lines")
    elif sum(opinion.figures is not None for opinion in opinions) > 1:
        lines += ["", "the traffic of every line is the same for all"]
    return lines


def _with_best_marked(rows: Iterable[tuple[str, ...]], sides: Sequence[Figures | None]) -> Iterator[tuple[str, ...]]:
    """The rows, with the least value of each figure highlighted, unless all are equal."""
    figures = {label: [of(side) if side is not None else None for side in sides] for label, of in COMPARED.values()}
    for label, *cells in rows:
        values = figures.get(label, [])
        known = [value for value in values if value is not None]
        least = min(known) if known and min(known) < max(known) else None
        best = [least is not None and value == least for value in values] or [False] * len(cells)
        yield (label, *(good(cell) if is_best else cell for cell, is_best in zip(cells, best, strict=True)))


def _verdict(opinion: Opinion) -> str:
    if opinion.figures is None:
        return opinion.failure.partition(" ")[0].rstrip(":") or NONE
    if opinion.results is None:
        return "not run"
    return "agree" if opinion.results.passed else bad("DIFFER")


def _proof(opinion: Opinion) -> str:
    """The verdict for all inputs."""
    if opinion.figures is None:
        return NONE
    return opinion.verification.verdict.value if opinion.verification is not None else "not verified"


def _remarks(opinion: Opinion) -> list[str]:
    """Why a partitioner has no figures, results or proof, and which of its results are wrong."""
    unchecked = opinion.unchecked if opinion.unchecked != NOT_RUN else ""
    problem = opinion.failure or (f"is not compared: {unchecked}" if unchecked else "")
    lines = [f"{opinion.partitioner} {problem}"] if problem else []
    lines += [
        f"{opinion.partitioner}: result {result.name or result.index} differs: {result.reason}"
        for result in (opinion.results.results if opinion.results is not None else ())
        if not result.passed
    ]
    lines += [f"{opinion.partitioner} is not verified: {opinion.unproved}"] if _lacks_proof(opinion) else []
    if opinion.verification is not None:
        lines += [f"{opinion.partitioner}: {line}" for line in opinion.verification.reasons()]
    wrapped = [part for line in lines for part in textwrap.wrap(line, columns(), subsequent_indent="  ")]
    return ["", *wrapped] if wrapped else []


def _lacks_proof(opinion: Opinion) -> bool:
    return opinion.figures is not None and opinion.unproved not in ("", NOT_ASKED)


def _difference_lines(difference: LineDifference) -> list[str]:
    lines = [f"  {line_text(difference.line) or 'of unknown lines'}"]
    rows = []
    for name, sent in difference.sent.items():
        total = bytes_text(sum(each.bytes for each in sent))
        rows.append((name, total, "; ".join(_counted(sent)) or "nothing"))
    lines += [f"  {line}" for line in narrow_table(rows, (1,), 2)]
    for cause in difference.causes[:_MAX_CAUSES]:
        text = f"gspmd, because {cause.replace('stablehlo.', '')}"
        lines += textwrap.wrap(text, columns(), initial_indent=" " * 4, subsequent_indent=" " * 6)
    more = len(difference.causes) - _MAX_CAUSES
    return [*lines, f"    ... and {more} more causes"] if more > 0 else lines


def _counted(sent: Iterable[SentCollectives]) -> list[str]:
    """`2 all_reduce over x`, whatever their causes."""
    numbers: dict[str, int] = {}
    for each in sent:
        numbers[collective_text(each)] = numbers.get(collective_text(each), 0) + each.number
    return [f"{number} {what}" if number > 1 else what for what, number in numbers.items()]
