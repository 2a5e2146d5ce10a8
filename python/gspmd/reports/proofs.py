"""What is proved of a report's program, value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from gspmd.explanations.explained_values import ExplainedValue
from gspmd.explanations.explanation import Explanation
from gspmd.verification.verdicts import Presence, Verification
from gspmd.verification.verifying import verified_by_value


class Proof:
    """The verification of what a program was partitioned to, and what is said of its values."""

    def __init__(self, given: ir.Module, found: Explanation) -> None:
        self.verification: Verification
        self.verification, self._presence = verified_by_value(given, found.partitioned.module)
        self._names = found.names
        results = [value for value in found.values if value.kind == "result"]
        self._results: Mapping[ExplainedValue, str] = {
            value: result.verdict.value for value, result in zip(results, self.verification.results, strict=False)
        }

    def of(self, value: ExplainedValue) -> str:
        """A `Verdict` of a result, a `Presence` of any other value; empty where nothing is said of it."""
        if value.kind == "argument":
            return Presence.PARTS.value
        if value in self._results:
            return self._results[value]
        place = self._names.place_of(value.name)
        return "" if place is None else _at(self._presence, *place)


def _at(presence: Sequence[Sequence[Presence]], number: int, index: int) -> str:
    return presence[number][index].value if number < len(presence) and index < len(presence[number]) else ""
