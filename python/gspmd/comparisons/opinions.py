"""What partitioners made of one program, side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gspmd.checks.verdicts import CheckReport
from gspmd.comparisons.figures import Figures, SentAlong
from gspmd.comparisons.measuring import OURS
from gspmd.dialect.mesh import Mesh
from gspmd.verification.verdicts import Verdict, Verification

NOT_RUN = "it was not to be run"
"""Why results are not compared where nobody asked for it."""
NOT_ASKED = "it was not to be proved"
"""The same of proofs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Opinion:
    """What one partitioner made of the program.

    `figures` are None where it made nothing, and `failure` says why: it refused the program, or ended the process.
    `results` compare with the unpartitioned program; where they are None, `unchecked` says why. `verification` is what
    is proved of it; where that is None, `unproved` says why.
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
    """A line of the source for which partitioners send different things.

    `sent` has what each of them sends there, in the order of the opinions that have figures.
    """

    line: str
    sent: Mapping[str, tuple[SentAlong, ...]]

    @property
    def causes(self) -> tuple[str, ...]:
        """Why our collectives are there."""
        return tuple(dict.fromkeys(each.cause for each in self.sent.get(OURS, ()) if each.cause))

    @property
    def spread(self) -> int:
        """Bytes between the partitioner that sends most for the line and the one that sends least."""
        sizes = [sum(each.bytes for each in sent) for sent in self.sent.values()]
        return max(sizes) - min(sizes)


@dataclasses.dataclass(frozen=True, slots=True)
class SecondOpinion:
    """A program as several partitioners have it, ours first; true if ours computes what the program does.

    Where nothing was to be run, it is true if ours partitions the program. What is refuted is not true.
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
        from gspmd.comparisons.text import opinion_lines
        from gspmd.tables import fitted

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
