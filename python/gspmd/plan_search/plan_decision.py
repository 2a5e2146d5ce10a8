"""What a search decided for the arguments of one role, or for values inside the program."""

from __future__ import annotations

import dataclasses
from typing import Any

from gspmd.plan_search.pricing import Dims
from gspmd.suggestions.annotating import GivenValue
from gspmd.suggestions.source_patch import SourcePatch


@dataclasses.dataclass(frozen=True, slots=True)
class PlanDecision:
    """The sharding of the arguments of one role, or of values inside the program.

    `label` is their name, with `*` for numbers that differ between the `arguments`; `shape` is that of each. `values`
    are those inside the program, and `patches` the changes of the source that constrain them, if it shows their
    expressions. `dims` are the axes of each dimension, None if left to propagation. `is_given` says that the program
    has the annotation, `is_pinned` that a plan file pins it. `next_dims` is the sharding in the best solution with
    another one, and `next_cost` the cost of that solution at the problem's prices, relative to the best one; None if it
    was not computed.
    """

    label: str
    arguments: tuple[str, ...]
    shape: tuple[int, ...]
    type: str
    dims: Dims | None
    is_given: bool
    is_pinned: bool
    next_dims: Dims | None = None
    next_cost: float | None = None
    values: tuple[GivenValue, ...] = ()
    patches: tuple[SourcePatch, ...] = ()

    @property
    def count(self) -> int:
        """The number of arguments or values."""
        return len(self.arguments) + len(self.values)

    def places(self) -> list[str]:
        """The distinct source lines of the values inside, as `file:line`."""
        located = (value.location for value in self.values if value.location is not None)
        return list(dict.fromkeys(at.brief for at in located))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "argument": self.label,
            "kind": "values" if self.values else "arguments",
            "count": self.count,
            "type": self.type,
            "sharding": _listed(self.dims),
            "given": self.is_given,
            "pinned": self.is_pinned,
            "next_sharding": _listed(self.next_dims),
            "next_cost": self.next_cost,
            "places": self.places(),
            "patches": [patch.to_dict() for patch in self.patches],
        }


def _listed(dims: Dims | None) -> list[list[str]] | None:
    return None if dims is None else [list(names) for names in dims]
