"""One step of a made-up program, as a plain value."""

from __future__ import annotations

import dataclasses
from typing import Any

Dims = tuple[tuple[str, ...] | None, ...]
"""The mesh axes of each dimension; None where the dimension is left to the partitioner."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One operation or fragment: what it reads, by number of step, and its parameters.

    `dims` is the annotation of the value, None if it has none.
    """

    kind: str
    operands: tuple[int, ...] = ()
    numbers: tuple[Any, ...] = ()
    dims: Dims | None = None

    @property
    def is_argument(self) -> bool:
        return self.kind in ("argument", "ids")
