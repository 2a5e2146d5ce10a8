"""Partial values: which operations may leave their results partial, and which accept partial operands."""

from __future__ import annotations

from gspmd.dialect.rule import REDUCTION
from gspmd.transforms.decide.linear import linear_operands
from gspmd.transforms.decide.value_table import Consumer, ValueTable
from gspmd.transforms.emit.partial_values import is_taking_apart
from gspmd.transforms.ir.program import WHILE, Op
from gspmd.transforms.ir.reducers import is_zero


class Sums:
    """The values of a program that may be partial, computed on demand."""

    def __init__(self, places: ValueTable) -> None:
        self._places = places
        self._linear: dict[int, tuple[int, ...]] = {}
        self._comes_apart: dict[int, bool] = {}

    def linear(self, op: Op) -> tuple[int, ...]:
        """The operands that an operation may read as partial values together, producing a partial result."""
        found = self._linear.get(op.index)
        if found is None:
            found = ()
            if len(op.results) == 1 and (not op.ir.regions or op.info.body):
                found = linear_operands(op, self._places.is_free.__getitem__, self._places.assume_finite)
                if not all(self.comes_apart(op.operands[index]) for index in found):
                    found = ()
            self._linear[op.index] = found
        return found

    def comes_apart(self, value: int) -> bool:
        """Whether the producer of a value may leave it partial."""
        value = self._places.carried[value]
        found = self._comes_apart.get(value)
        if found is None:
            found = self._hands_on(value) if value in self._places.names else self._is_made_of_summands(value)
            self._comes_apart[value] = found
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

    def _hands_on(self, value: int) -> bool:
        """Whether a loop may carry, or branches may return, a partial value: from zeros or other partial values.

        A carry is assumed to be partial until a use excludes it.
        """
        places = self._places
        op = places.maker.get(value)
        if op is None or value in places.handed_on:
            return False
        number, known = op.results.index(value), (dict(self._linear), dict(self._comes_apart))
        self._comes_apart[value] = True
        given = [op.operands[number]] if op.info.name == WHILE else []
        returned = [region.returned[number] for region in op.regions[op.info.name == WHILE :]]
        if all(self._is_zero(each) or self.comes_apart(each) for each in (*given, *returned)):
            return True
        self._linear, self._comes_apart = known
        return False

    def _is_zero(self, value: int) -> bool:
        return self._places.is_free[value] and is_zero(self._places.program.value_ir[value])

    def stays_apart(self, value: int) -> bool:
        """Whether all consumers of a value accept it as partial."""
        places = self._places
        if value in places.boundary or value not in places.maker or not self.comes_apart(value):
            return False
        if value in places.names:
            return True
        uses = places.uses[value]
        return value not in places.free_ends and bool(uses) and all(self._takes_summands(use) for use in uses)

    def _takes_summands(self, use: Consumer) -> bool:
        if use.op is None:
            return use.like >= 0 and use.like in self._places.names and self.comes_apart(use.like)
        return bool(self.linear(use.op)) or is_taking_apart(use.op.ir)
