"""Runs a program on symbolic values of all devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gspmd.dialect.errors import Error
from gspmd.transforms.ir.modules import codec_of, functions, symbol
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.ir.operations import Value as Name
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.index_maps import TooLarge
from gspmd.verification.meaning import MEANINGS
from gspmd.verification.meaning.meaning import GivenLoops
from gspmd.verification.not_known import NotKnown
from gspmd.verification.values import SymbolicValue


@dataclasses.dataclass(slots=True)
class Unknown(Exception):
    """An operation whose results cannot be expressed, and the reason."""

    op: Operation
    reason: str


class Evaluation:
    """Runs a program on the devices of a mesh."""

    def __init__(
        self, module: Operation, algebra: Conditions, devices: DeviceDigits, loops: GivenLoops, is_partitioned: bool
    ) -> None:
        self.loops = loops
        self.is_partitioned = is_partitioned
        self.algebra = algebra
        self.devices = devices
        self.codec = codec_of(module)
        self._functions = {symbol(function): function for function in functions(module)}
        self.values: dict[Name, SymbolicValue] = {}

    def call(self, name: str, arguments: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """The results of a function."""
        return self.block(self._functions[name].regions[0], arguments)

    def block(self, block: Block, arguments: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """The operands of the block's terminator. Raises Unknown."""
        known = self.values
        known.update(zip(block.arguments, arguments, strict=True))
        for op in block:
            if op is block.last:
                break
            known.update(zip(op.results, self.results(op), strict=True))
        return [known[operand] for operand in block.terminator.operands]

    def results(self, op: Operation) -> list[SymbolicValue]:
        """The results of an operation on the known values. Raises Unknown."""
        meaning = MEANINGS.get(op.name)
        if meaning is None:
            raise Unknown(op, "the verifier does not know this operation")
        try:
            return meaning(self, op, [self.values[operand] for operand in op.operands])
        except NotKnown as error:
            raise Unknown(op, str(error)) from None
        except Error as error:
            raise Unknown(op, error.message) from None
        except TooLarge:
            raise Unknown(op, "the table of its elements' indices would be too large") from None
