"""What an operation makes of the values of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.values import SymbolicValue

if TYPE_CHECKING:
    from gspmd.verification.meaning.loops import GivenLoops


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
