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

    def __init__(self, values: ValueTable) -> None:
        self._values = values
        self._linear: dict[int, tuple[int, ...]] = {}
        self._may_be_partial: dict[int, bool] = {}

    def linear(self, op: Op) -> tuple[int, ...]:
        """The operands that an operation may read as partial values together, producing a partial result."""
        found = self._linear.get(op.index)
        if found is None:
            found = ()
            if len(op.results) == 1 and (not op.ir.regions or op.info.body):
                found = linear_operands(op, self._values.is_splittable.__getitem__, self._values.assume_finite)
                if not all(self.may_be_partial(op.operands[index]) for index in found):
                    found = ()
            self._linear[op.index] = found
        return found

    def may_be_partial(self, value: int) -> bool:
        """Whether the producer of a value may leave it partial."""
        value = self._values.carried[value]
        found = self._may_be_partial.get(value)
        if found is None:
            found = self._passes_partial(value) if value in self._values.aliases else self._is_produced_partial(value)
            self._may_be_partial[value] = found
        return found

    def _is_produced_partial(self, value: int) -> bool:
        program = self._values.program
        if program.value_def[value] < 0:
            return False
        op = program.ops[program.value_def[value]]
        if op.index not in self._values.consumers:
            return False
        rule = self._values.rule(op)
        sums = any(kind is REDUCTION and size > 1 for kind, size in zip(rule.kinds, rule.sizes, strict=True))
        return rule.combiner == "add" and (sums or bool(self.linear(op)))

    def _passes_partial(self, value: int) -> bool:
        """Whether a loop may carry, or branches may return, a partial value: from zeros or other partial values.

        A carry is assumed to be partial until a use excludes it.
        """
        values = self._values
        op = values.producer.get(value)
        if op is None or value in values.only_read:
            return False
        number, known = op.results.index(value), (dict(self._linear), dict(self._may_be_partial))
        self._may_be_partial[value] = True
        given = [op.operands[number]] if op.info.name == WHILE else []
        returned = [region.returned[number] for region in op.regions[op.info.name == WHILE :]]
        if all(self._is_zero(each) or self.may_be_partial(each) for each in (*given, *returned)):
            return True
        self._linear, self._may_be_partial = known
        return False

    def _is_zero(self, value: int) -> bool:
        return self._values.is_splittable[value] and is_zero(self._values.program.value_ir[value])

    def stays_partial(self, value: int) -> bool:
        """Whether all consumers of a value accept it as partial."""
        values = self._values
        if value in values.unannotated_arguments or value not in values.producer or not self.may_be_partial(value):
            return False
        if value in values.aliases:
            return True
        uses = values.uses[value]
        return (
            value not in values.returned_unannotated and bool(uses) and all(self._accepts_partial(use) for use in uses)
        )

    def _accepts_partial(self, use: Consumer) -> bool:
        if use.op is None:
            return use.like >= 0 and use.like in self._values.aliases and self.may_be_partial(use.like)
        return bool(self.linear(use.op)) or is_taking_apart(use.op.ir)
