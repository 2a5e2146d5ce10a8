"""The outcome of a verification: for every result a verdict, and if it is not proved, the reason and the place."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Verdict(enum.Enum):
    """`PROVED` for all inputs, up to the order of sums; `REFUTED` by an element that differs; else `NOT_KNOWN`."""

    PROVED = "proved"
    REFUTED = "refuted"
    NOT_KNOWN = "not known"


@dataclasses.dataclass(frozen=True, slots=True)
class WrongElement:
    """An element that differs: its partition, its index in the shard, and its index in the whole value."""

    partition: int
    index: tuple[int, ...]
    whole_index: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ResultVerdict:
    """The verdict on one result.

    `reason` says why it is not proved. `operation` and `location` name the first operation of the partitioned program
    (or of the given one) at which the two programs differ. If the result is refuted, `element` is one that differs.
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
    """The form in which devices have a value of the given program: shards, summands of shards, or an unknown form.

    Compilers need not compute every value.
    """

    PARTS = "parts"
    SUMMANDS = "summands"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """Whether a partitioned program computes the results of the given one; true if that is proved for all inputs.

    `sums` is the number of sums that devices add up in another order or in parts. `operations` is the number of
    operations in the partitioned program.
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
        """The fields in plain values, as for JSON."""
        made = dataclasses.asdict(self)
        for result in made["results"]:
            result["verdict"] = result["verdict"].value
        return {"verdict": self.verdict.value, **made}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The verdict, and the reasons that results are not proved."""
        lines = [f"mesh {self.mesh}, {self.num_partitions} partitions, {self.operations} operations", *self.reasons()]
        total, proved = len(self.results), sum(r.verdict is Verdict.PROVED for r in self.results)
        if proved == total:
            order = f"; {self.sums} sums may be added up in another order" if self.sums else ""
            return [*lines, f"PROVED: {total} results are the same for all inputs{order}"]
        return [*lines, f"{self.verdict.value.upper()}: {proved} of {total} results are proved"]

    def reasons(self) -> list[str]:
        """The reasons that results are not proved."""
        unproved = [result for result in self.results if result.verdict is not Verdict.PROVED]
        return [line for result in unproved for line in _verdict_lines(result)]


def _verdict_lines(result: ResultVerdict) -> list[str]:
    what = f"result {result.index}" + (f" {result.name}" if result.name else "") + f", {result.type}"
    lines = [f"{result.verdict.value}: {what}: {result.reason}"]
    if result.operation:
        lines.append(f"  first at '{result.operation}'" + (f" at {result.location}" if result.location else ""))
    if result.element is not None:
        each = result.element
        lines.append(f"  partition {each.partition} has another number at {list(each.index)}, element "
                     f"{list(each.whole_index)} of the whole value")  # fmt: skip
    return lines
