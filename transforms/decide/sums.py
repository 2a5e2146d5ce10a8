"""Where sums over devices may still be open: what makes summands, and which operations take them as they are."""

from __future__ import annotations

from gspmd.dialect.rule import REDUCTION
from gspmd.transforms.ir.program import Op
from gspmd.transforms.refine.places import ValuePlaces
from gspmd.transforms.reshard.linear import linear_operands


class Sums:
    """What of a program may be left as summands, worked out when it is asked for."""

    def __init__(self, places: ValuePlaces) -> None:
        self._places = places
        self._linear: dict[int, tuple[int, ...]] = {}
        self._comes_apart: dict[int, bool] = {}

    def linear(self, op: Op) -> tuple[int, ...]:
        """The operands that an operation may take as summands, all of them together, and leave the sum open."""
        found = self._linear.get(op.index)
        if found is None:
            found = ()
            if len(op.results) == 1 and (not op.ir.regions or op.info.body):
                found = linear_operands(op, self._places.is_free.__getitem__)
                if not all(self.comes_apart(op.operands[index]) for index in found):
                    found = ()
            self._linear[op.index] = found
        return found

    def comes_apart(self, value: int) -> bool:
        """Whether what makes a value may leave it as summands."""
        found = self._comes_apart.get(value)
        if found is None:
            self._comes_apart[value] = False
            found = self._comes_apart[value] = self._is_made_of_summands(value)
        return found

    def _is_made_of_summands(self, value: int) -> bool:
        program = self._places.program
        if program.value_def[value] < 0:
            return False
        op = program.ops[program.value_def[value]]
        if op.index not in self._places.place:
            return False
        rule = self._places.rule(op)
        sums = any(kind is REDUCTION and size > 1 for kind, size in zip(rule.kinds, rule.sizes, strict=True))
        return rule.combiner == "add" and (sums or bool(self.linear(op)))

    def stays_apart(self, value: int) -> bool:
        """Whether a value may be summands for all that take it."""
        places = self._places
        if value in places.needs or value in places.names or value in places.boundary:
            return False
        if value not in places.maker or not self.comes_apart(value):
            return False
        users = [use.op for use in places.uses[value]]
        return bool(users) and all(user is not None and self.linear(user) for user in users)
