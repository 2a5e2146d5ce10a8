"""Traits of operations: their properties for analyses and optimizations, apart from sharding rules."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

from gspmd.transforms.ir.op_info import OpInfo


class Fusion(enum.Enum):
    """How compilers fuse an operation, on every platform."""

    WITH_USER = enum.auto()
    """Fused into its consumer if there is only one; its own producers may be fused into it."""
    WITH_ALL_USERS = enum.auto()
    """Recomputed in every consumer and never in memory, if all consumers can fuse it."""
    TAKES_IN = enum.auto()
    """Its producers may be fused into it, but its result is in memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flops:
    """The kind of an operation's arithmetic (`dot`, `reduction`, ...) and a function that counts it."""

    kind: str
    count: Callable[[OpInfo], float]


@dataclasses.dataclass(frozen=True, slots=True)
class Traits:
    """The properties of an operation besides its rule. By default, an operation only computes its results.

    Computation:
    `elementwise`: if operands have the shape of the results or are scalars, each element depends on the same element of
    each operand. `rearranges`: the result is a permutation of the operand's elements. `linear`: tuples of operands in
    which it is jointly linear, f(a) + f(b) = f(a + b), with the others fixed. With a reducer, this holds only for sums
    that start from zeros. `floats_only`: only for floats, since integer division has a remainder. `commutes`: its two
    operands may be swapped. `flops`: its arithmetic; None if unknown.

    Memory:
    `view`: every result is the operand of the same number by another name.
    `placement`: it only says of its operand where that is to be, or how it is laid out there.
    `stays_on_host`: of an operand in a host's memory it makes a result there, as XLA does.
    `allocates`: the result is memory to write to, so that two of them are not one.
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
    view: bool = False
    placement: bool = False
    stays_on_host: bool = False
    allocates: bool = False
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
        """Whether the results depend only on the operands, in the same way on every device."""
        return self.pure and not (self.diverges or self.communicates)


MOVED = Flops("elementwise", lambda info: 0.0)
"""The traits of operations that only move, repeat, rename or convert elements."""

PLAIN = Traits()
"""The default traits of operations that only compute their results."""

UNKNOWN = Traits(pure=False, diverges=True)
"""The conservative traits of an unknown operation."""
