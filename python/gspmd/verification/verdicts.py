"""What a verification found: for every result whether it is what the given program computes, and if not, where."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Verdict(enum.Enum):
    """`PROVED` for all inputs, up to the order of sums; `REFUTED` by an element that differs; or `NOT_KNOWN`."""

    PROVED = "proved"
    REFUTED = "refuted"
    NOT_KNOWN = "not known"


@dataclasses.dataclass(frozen=True, slots=True)
class WrongElement:
    """An element that differs: on which partition, at which index there, and which of the whole it should be."""

    partition: int
    index: tuple[int, ...]
    whole_index: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ResultVerdict:
    """What is known of one result.

    `reason` says why it is not proved; `operation` and `location` are those of the partitioned program (or of the given
    one) at which the two are first not the same; `element` is one that differs, of a result that is refuted.
    """

    index: int
    name: str | None
    type: str
    sharding: str
    verdict: Verdict
    reason: str = ""
    operation: str = ""
    location: str = ""
    element: WrongElement | None = None


class Presence(enum.Enum):
    """What devices have of a value of the given program: parts of it, or summands of parts, or nothing that is known.

    Compilers need not compute every value.
    """

    PARTS = "parts"
    SUMMANDS = "summands"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """Whether a partitioned program computes what the given one does; true if that is proved for all inputs.

    `sums` is how many sums of the given program devices add up in another order or in parts. Values of this many
    operations have been looked at.
    """

    mesh: str
    num_partitions: int
    results: tuple[ResultVerdict, ...]
    sums: int
    operations: int

    @property
    def verdict(self) -> Verdict:
        """Refuted if one result is, proved if all are."""
        found = {result.verdict for result in self.results}
        for verdict in (Verdict.REFUTED, Verdict.NOT_KNOWN):
            if verdict in found:
                return verdict
        return Verdict.PROVED

    @property
    def proved(self) -> bool:
        return self.verdict is Verdict.PROVED

    def __bool__(self) -> bool:
        return self.proved

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        made = dataclasses.asdict(self)
        for result in made["results"]:
            result["verdict"] = result["verdict"].value
        return {"verdict": self.verdict.value, **made}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The verdict, and what is not proved."""
        lines = [f"mesh {self.mesh}, {self.num_partitions} partitions, {self.operations} operations", *self.reasons()]
        total, proved = len(self.results), sum(r.verdict is Verdict.PROVED for r in self.results)
        if proved == total:
            order = f"; {self.sums} sums may be added up in another order" if self.sums else ""
            return [*lines, f"PROVED: {total} results are the same for all inputs{order}"]
        return [*lines, f"{self.verdict.value.upper()}: {proved} of {total} results are proved"]

    def reasons(self) -> list[str]:
        """Why results are not proved."""
        return [line for result in self.results if result.verdict is not Verdict.PROVED for line in _said(result)]


def _said(result: ResultVerdict) -> list[str]:
    what = f"result {result.index}" + (f" {result.name}" if result.name else "") + f", {result.type}"
    lines = [f"{result.verdict.value}: {what}: {result.reason}"]
    if result.operation:
        lines.append(f"  first at '{result.operation}'" + (f" at {result.location}" if result.location else ""))
    if result.element is not None:
        each = result.element
        lines.append(f"  partition {each.partition} has something else at {list(each.index)}, element "
                     f"{list(each.whole_index)} of the whole")  # fmt: skip
    return lines
