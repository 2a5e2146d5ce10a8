"""What an operation makes of the values of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from gspmd.transforms.ir.operations import Block, Operation
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import Devices
from gspmd.verification.values import Value


class Machine(Protocol):
    """What runs a program: the algebra that its values are of, and the devices that it runs on."""

    @property
    def algebra(self) -> Conditions: ...

    @property
    def devices(self) -> Devices: ...

    def block(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """What the end of a block hands on, for these arguments."""

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """What a function of the program returns."""


Meaning: TypeAlias = Callable[[Machine, Operation, list[Value]], list[Value]]
