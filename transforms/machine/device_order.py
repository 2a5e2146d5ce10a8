"""The text form of a device order on a torus.

An order consists of digits of the device numbers, the most major first: in `S2.Y4.X2`, devices 0 and 1 are neighbors
along X, and devices 0 to 7 are in the first of two slices.
"""

from __future__ import annotations

import re

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.transforms.machine.torus import Slot, Torus

Order = tuple[Slot, ...]
_DIGIT = re.compile(r"([A-Z])([1-9][0-9]{0,9})(?::([1-9][0-9]{0,9}))?")


def order_text(order: Order, torus: Torus) -> str:
    """As in the name of a target: `S2.Y4.X2`; `X2:4` are two that are four apart."""
    return ".".join(f"{torus.letters[s.dim]}{s.size}{f':{s.stride}' if s.stride > 1 else ''}" for s in order)


def parse_order(text: str, torus: Torus) -> Order:
    """The order for a text. Errors: UsageError for an order that the torus does not have."""
    found = []
    for digit in text.split("."):
        match = _DIGIT.fullmatch(digit)
        if match is None or match[1] not in torus.letters:
            raise _bad(text, torus, f"'{digit}' is not a part of a dimension")
        slot = Slot(torus.letters.index(match[1]), int(match[2]), int(match[3] or 1))
        found.append(slot)
        length = torus.lengths[slot.dim]
        if sum((s.size - 1) * s.stride for s in found if s.dim == slot.dim) >= length:
            raise _bad(text, torus, f"'{digit}' ends beyond the {length} that there are")
    return tuple(found)


def _bad(text: str, torus: Torus, what: str) -> UsageError:
    return UsageError(
        f"in the order '{text}' of devices, {what}",
        hint=f"give parts of {', '.join(torus.letters)}, the most major first, as {torus.letters[0]}2",
        code=Code.UNKNOWN_TARGET,
    )
