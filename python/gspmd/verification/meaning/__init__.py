"""What operations mean, a file per family, one table."""

from __future__ import annotations

from gspmd.verification.meaning import collectives, contraction, control_flow, elementwise, lookups, moves, reduction
from gspmd.verification.meaning.meaning import Meaning

MEANINGS: dict[str, Meaning] = {
    name: meaning
    for family in (elementwise, moves, contraction, reduction, lookups, collectives, control_flow)
    for name, meaning in family.MEANINGS.items()
}
"""By name."""
