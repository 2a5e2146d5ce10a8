"""What is known of an operation apart from how it is split: what analyses and optimizations ask of it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.evaluation import Evaluate


class Fusion(enum.Enum):
    """How compilers fuse an operation with others, on every platform."""

    WITH_USER = enum.auto()
    """Computed within its user if that is its only one; takes in what it reads itself."""
    WITH_ALL_USERS = enum.auto()
    """Made anew within every user, and never kept, as long as all of them take it in."""
    TAKES_IN = enum.auto()
    """What it reads is computed within it, but its result is in memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flops:
    """The kind of an operation's arithmetic (`dot`, `reduction`, ...) and what counts it of an occurrence."""

    kind: str
    count: Callable[[OpInfo], float]


@dataclasses.dataclass(frozen=True, slots=True)
class Traits:
    """What is known of an operation besides its rule. What nothing is said of computes its results and no more.

    What it computes:
    `elementwise`: where operands have the results' shape or are scalars, every element from the same of each operand.
    `rearranges`: it has all elements of its operand, each once, in another arrangement.
    `linear`: operands of which it makes f(a) + f(b) = f(a + b), those of each tuple taken together while others stay
    the same. Of one with a reducer this holds if the reducer adds, and to zeros. `floats_only`: of floats alone, as
    integers are divided with a remainder. `commutes`: its two operands may change places.
    `flops`: its arithmetic; None where that is not known. `evaluate`: what it makes of integers, where that is asked.

    Memory:
    `view`: every result is the operand of the same number by another name.
    `placement`: it only says of its operand where that is to be, or how it is laid out there.
    `stays_on_host`: of an operand in a host's memory it makes a result there, as XLA does.
    `in_place`: the result can take the memory of an operand of its size, which fused operations always can.
    `fusion`: how it is fused with others, None if it is not.
    `looks_up`: of its first operand only as many elements are read as there are in the result.
    `update`: the operand, counted from the end if negative, whose elements take the place of some of the first's.

    When and where it runs:
    `pure`: the results depend on the operands alone (of a collective, on those of all its devices), so that it may run
    at another time, again, or never.
    `effects`: it is done even where its results have no elements, or are none, and by the devices that it was
    written for.
    `communicates`: devices meet in it.
    `diverges`: the results may differ by device where the operands do not. What communicates and does not diverge makes
    the same of what differs.
    """

    elementwise: bool = False
    rearranges: bool = False
    linear: tuple[tuple[int, ...], ...] = ()
    floats_only: bool = False
    commutes: bool = False
    flops: Flops | None = None
    evaluate: Evaluate | None = None
    view: bool = False
    placement: bool = False
    stays_on_host: bool = False
    in_place: bool = False
    fusion: Fusion | None = None
    looks_up: bool = False
    update: int | None = None
    pure: bool = True
    effects: bool = False
    communicates: bool = False
    diverges: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the results follow from the operands alone, in the same way on every device."""
        return self.pure and not (self.diverges or self.communicates)


MOVED = Flops("elementwise", lambda info: 0.0)
"""Of operations that only move, repeat, name or convert what is there."""

PLAIN = Traits()
"""Of operations that compute their results, and of which nothing else is known that anything asks."""

UNKNOWN = Traits(pure=False, diverges=True)
"""What has to be expected of an operation that nothing is known of."""
