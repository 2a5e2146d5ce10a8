"""What an operation makes of the values of its operands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.values import SymbolicValue


class Execution(Protocol):
    """What runs a program: the algebra that its values are of, and the devices that it runs on."""

    @property
    def algebra(self) -> Conditions: ...

    @property
    def devices(self) -> DeviceDigits: ...

    is_partitioned: bool
    """Whether the program is the partitioned one, and not the one that it was made of."""

    @property
    def loops(self) -> GivenLoops:
        """The loops of the given program."""

    @property
    def codec(self) -> SdyCodec:
        """What reads the shardings of the program."""

    def block(self, block: Block, arguments: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """What the end of a block hands on, for these arguments."""

    def call(self, name: str, arguments: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """What a function of the program returns."""


Meaning: TypeAlias = Callable[[Execution, Operation, list[SymbolicValue]], list[SymbolicValue]]


@dataclasses.dataclass(slots=True)
class GivenLoop:
    """A loop of the given program: what it begins with, stands for an iteration, is made by one, and comes out.

    `active` are the numbers of what changes from one iteration to the next.
    """

    machine: Execution
    op: Operation
    initial: list[SymbolicValue]
    leaves: list[SymbolicValue]
    condition: SymbolicValue
    made: list[SymbolicValue]
    results: list[SymbolicValue]
    active: list[int]


class GivenLoops:
    """The loops of the given program, by how many loops are around them.

    Without `are_kept`, those of the given program are run where that can be done: the partitioned one has none.
    """

    def __init__(self, are_kept: bool = True) -> None:
        self.are_kept = are_kept
        self.depth = 0
        self.known: dict[int, list[GivenLoop]] = {}

    def at_depth(self) -> list[GivenLoop]:
        return self.known.setdefault(self.depth, [])

    def forget(self, counts: dict[int, int]) -> None:
        """Keep of every depth only as many as there were."""
        for depth, loops in self.known.items():
            del loops[counts.get(depth, 0) :]

    def counts(self) -> dict[int, int]:
        return {depth: len(loops) for depth, loops in self.known.items()}
