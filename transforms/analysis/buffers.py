"""Which values of a program are in memory, where compilers fuse elementwise operations with what uses them.

A model of what XLA does on every platform, not of one of its backends: an elementwise operation, or one that only
arranges elements, is computed within its user if it has just one and that can take it in; constants and broadcasts are
made within all of theirs; reshapes are other names.
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
    """What is in memory in a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._users: dict[int, list[Op | None]] = {}  # None: a block returns it
        self._read_uses(program.body)
        self._virtual: dict[int, bool] = {}
        self._sources: dict[int, frozenset[int]] = {}
        for op in program.ops:  # in order, so that no chain of operations is followed far
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
        """Whether what the operation makes has no memory of its own: a view, or fused into what uses it."""
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
        """Users, those of views for the views."""
        found: list[Op | None] = []
        for result in op.results:
            for user in self._users.get(result, []):
                if user is not None and traits_of(user.info.name).view:
                    found += self.final_users(user)
                else:
                    found.append(user)
        return found

    def sources(self, values: Iterable[int]) -> frozenset[int]:
        """The values in memory that these are made from, themselves if they are in memory."""
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
        """The value whose memory this one names."""
        definer = self.program.value_def[value]
        while definer >= 0 and traits_of(self.program.ops[definer].info.name).view:
            op = self.program.ops[definer]
            value = op.operands[op.results.index(value)]
            definer = self.program.value_def[value]
        return value


def bytes_of_value(program: Program, value: int) -> int:
    """Bytes of a value; tokens have none."""
    type_ = program.value_type[value]
    return math.ceil(math.prod(type_.shape) * element_bytes(type_.element)) if type_.is_tensor else 0


def overwrites(op: Op) -> bool:
    """Whether the operation can make its result in the memory of an operand of the same size."""
    traits = traits_of(op.info.name)
    return traits.in_place or traits.fusion in _FUSED
