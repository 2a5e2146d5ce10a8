"""The values of a program that occupy memory, if compilers fuse elementwise operations into their consumers.

A model of XLA's fusion on all platforms: an elementwise or data-movement operation is fused into its consumer if it has
exactly one that supports this. Constants and broadcasts are fused into all consumers. Reshapes are views.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gspmd.transforms.ir.program import BARRIER, Body, Op, Program
from gspmd.transforms.ir.types import element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.traits import Fusion

_FUSED = (Fusion.WITH_USER, Fusion.WITH_ALL_USERS)


class Buffers:
    """The buffers of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._users: dict[int, list[Op | None]] = {}  # None: returned by a block
        self._read_uses(program.body)
        self._virtual: dict[int, bool] = {}
        self._sources: dict[int, frozenset[int]] = {}
        for op in program.ops:  # in program order, so that chains of operations are walked once
            for result in op.results:
                self._sources_of(result)

    def _read_uses(self, block: Body) -> None:
        for op in block.ops:
            for value in op.operands:
                self._users.setdefault(value, []).append(op)
            for region in op.regions:
                self._read_uses(region)
        for value in block.returned:
            self._users.setdefault(value, []).append(None)

    def is_virtual(self, op: Op) -> bool:
        """Whether the result of the operation has no buffer: it is a view, or is fused into its consumer."""
        found = self._virtual.get(op.index)
        if found is None:
            found = self._virtual[op.index] = self._decide(op)
        return found

    def _decide(self, op: Op) -> bool:
        traits = traits_of(op.info.name)
        if traits.view:
            return True
        if traits.fusion not in _FUSED:
            return False
        users = self.final_users(op)
        takes_in = all(user is not None and traits_of(user.info.name).fusion is not None for user in users)
        return takes_in and (traits.fusion is Fusion.WITH_ALL_USERS or len(users) == 1)

    def final_users(self, op: Op) -> list[Op | None]:
        """The consumers; for views, the consumers of the views."""
        found: list[Op | None] = []
        for result in op.results:
            for user in self._users.get(result, []):
                if user is not None and traits_of(user.info.name).view:
                    found += self.final_users(user)
                else:
                    found.append(user)
        return found

    def sources(self, values: Iterable[int]) -> frozenset[int]:
        """The values in memory from which these are computed; a value in memory stands for itself."""
        found: frozenset[int] = frozenset()
        for value in values:
            found |= self._sources_of(value)
        return found

    def _sources_of(self, value: int) -> frozenset[int]:
        found = self._sources.get(value)
        if found is None:
            definer = self.program.value_def[value]
            op = self.program.ops[definer] if definer >= 0 else None
            if op is None or not self.is_virtual(op):
                found = frozenset((value,))
            elif op.info.name == BARRIER:
                found = self._sources_of(op.operands[op.results.index(value)])
            else:
                found = self.sources(op.operands)
            self._sources[value] = found
        return found

    def root(self, value: int) -> int:
        """The value of which this one is a view."""
        definer = self.program.value_def[value]
        while definer >= 0 and traits_of(self.program.ops[definer].info.name).view:
            op = self.program.ops[definer]
            value = op.operands[op.results.index(value)]
            definer = self.program.value_def[value]
        return value


def bytes_of_value(program: Program, value: int) -> int:
    """The bytes of a value; 0 for tokens."""
    type_ = program.value_type[value]
    return math.ceil(math.prod(type_.shape) * element_bytes(type_.element)) if type_.is_tensor else 0


def overwrites(op: Op) -> bool:
    """Whether the operation can write its result into the buffer of an operand of the same size."""
    traits = traits_of(op.info.name)
    return traits.in_place or traits.fusion in _FUSED
