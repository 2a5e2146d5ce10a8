"""What a search decided for the arguments of one role, or for values inside the program."""

from __future__ import annotations

import dataclasses
from typing import Any

from gspmd.plan_search.pricing import Dims
from gspmd.suggestions.annotating import GivenValue
from gspmd.suggestions.source_patch import SourcePatch


@dataclasses.dataclass(frozen=True, slots=True)
class PlanDecision:
    """How the arguments of one role, or values inside the program, are split.

    `label` is what they are called, with `*` for numbers that differ between the `arguments`; `shape` is that of each.
    `values` are those inside, and `patches` the changes of the source that constrain them, as far as that shows the
    expressions that make them.
    `dims` are the axes of each dimension, None where it is left to propagation. `is_given` says that the program had
    the annotation, `is_pinned` that a plan file did. `next_dims` is how it is split where it must not be so, everything
    else as costs least then, and `next_cost` what that costs by the problem's prices, in parts of the best solution.
    None where that was not looked at.
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
        """How many arguments or values it is about."""
        return len(self.arguments) + len(self.values)

    def places(self) -> list[str]:
        """Where in the source the values inside are made, each place once, as `file:line`."""
        located = (value.location for value in self.values if value.location is not None)
        return list(dict.fromkeys(at.brief for at in located))

    def to_dict(self) -> dict[str, Any]:
        """The fields in plain values, as JSON holds them."""
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
