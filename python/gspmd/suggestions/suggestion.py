"""One annotation that pays."""

from __future__ import annotations

import dataclasses
from typing import Any

from gspmd.costs.outcome import Outcome
from gspmd.dialect.notation import print_dims
from gspmd.suggestions.annotating import ValueAnnotation
from gspmd.suggestions.source_patch import SourcePatch


@dataclasses.dataclass(frozen=True, slots=True)
class Suggestion:
    """An annotation that lowers the cost, and the cost of the program with it.

    `alike` are other annotations with the same outcome. `patch` is the change of the JAX source, None if the source is
    missing or does not identify the expression of the value.
    """

    annotation: ValueAnnotation
    outcome: Outcome
    alike: tuple[ValueAnnotation, ...]
    patch: SourcePatch | None

    def to_dict(self, before: Outcome) -> dict[str, Any]:
        """The fields and the savings as JSON values."""
        value = self.annotation.value
        return {
            "value": value.name,
            "kind": "argument" if value.operation is None else "operation",
            "label": value.label,
            "sharding": print_dims(self.annotation.sharding),
            "sdy": self.annotation.sdy,
            "patch": None if self.patch is None else self.patch.to_dict(),
            "outcome": self.outcome.to_dict(),
            "saved": {
                "sent_bytes": before.sent_bytes - self.outcome.sent_bytes,
                "step_s": before.step_s - self.outcome.step_s,
                "memory_bytes": before.memory_bytes - self.outcome.memory_bytes,
            },
            "alike": [str(annotation) for annotation in self.alike],
        }
