"""The interface between operations' meanings and the evaluation of a program."""

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
    """Runs a program: the algebra of its values, and its devices."""

    @property
    def algebra(self) -> Conditions: ...

    @property
    def devices(self) -> DeviceDigits: ...

    is_partitioned: bool
    """Whether the program is the partitioned one, not the given one."""

    @property
    def loops(self) -> GivenLoops:
        """The loops of the given program."""

    @property
    def codec(self) -> SdyCodec:
        """The codec for the shardings of the program."""

    def block(self, block: Block, arguments: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """The operands of a block's terminator, for these arguments."""

    def call(self, name: str, arguments: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """The results of a function of the program."""


Meaning: TypeAlias = Callable[[Execution, Operation, list[SymbolicValue]], list[SymbolicValue]]


@dataclasses.dataclass(slots=True)
class GivenLoop:
    """A loop of the given program: its initial values, symbols and results of an iteration, and its final values.

    `active` are the numbers of the values that change from one iteration to the next.
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
    """The loops of the given program, by nesting depth.

    Without `are_kept`, loops of the given program are run if they can be: the partitioned program has none.
    """

    def __init__(self, are_kept: bool = True) -> None:
        self.are_kept = are_kept
        self.depth = 0
        self.known: dict[int, list[GivenLoop]] = {}

    def at_depth(self) -> list[GivenLoop]:
        return self.known.setdefault(self.depth, [])

    def forget(self, counts: dict[int, int]) -> None:
        """At every depth, keep only as many loops as there were."""
        for depth, loops in self.known.items():
            del loops[counts.get(depth, 0) :]

    def counts(self) -> dict[int, int]:
        return {depth: len(loops) for depth, loops in self.known.items()}
