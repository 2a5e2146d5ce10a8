"""The semantics of operations: a file for each family, and one table."""

from __future__ import annotations

from gspmd.verification.meaning import (
    collectives,
    contraction,
    control_flow,
    elementwise,
    lookups,
    loops,
    manual,
    moves,
    opaque,
    reduction,
    windows,
)
from gspmd.verification.meaning.meaning import Meaning

MEANINGS: dict[str, Meaning] = {
    name: meaning
    for family in (
        opaque,
        elementwise,
        moves,
        contraction,
        reduction,
        windows,
        lookups,
        collectives,
        control_flow,
        loops,
        manual,
    )
    for name, meaning in family.MEANINGS.items()
}
"""The meaning of each operation, by name."""
