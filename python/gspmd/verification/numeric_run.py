"""Runs a program on numbers: those of all devices, one operation after another.

Operations mean here what they mean in proofs. Each gets operands whose numbers are known, and the terms of its results
are evaluated for all elements (`witness.py`). So computed indices are known, and loops end. What has no terms of its
own is computed on whole operands (`computing.py`).

A run has to choose what a program leaves open: the numbers that are not defined, the order of what may be done in any
order, and how floats are rounded whose bits are taken. A second run chooses otherwise.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops import every_row
from gspmd.verification import numbers
from gspmd.verification.computing import Computing
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.evaluation import Evaluation, Unknown
from gspmd.verification.index_maps import IndexMap, Integers, Label, TooLarge, counted, dim, integer_map, set_numbers
from gspmd.verification.meaning import opaque
from gspmd.verification.meaning.control_flow import check_together
from gspmd.verification.meaning.loops import LOOP, turns_run
from gspmd.verification.meaning.meaning import GivenLoops
from gspmd.verification.not_known import NotKnown
from gspmd.verification.terms import ARGUMENT, CONSTANT, INTEGER, TermTable
from gspmd.verification.values import SymbolicValue
from gspmd.verification.witness import Numbers, Undefined, Uninterpreted, Witness, dtype_of

TRIAL = Label("trial", 0)
_NUMBERS = frozenset({CONSTANT, INTEGER, ARGUMENT})


class NumericRun(Evaluation):
    """A run of a program on the devices of a mesh, for several trials at once: `TRIAL` is a label of its values.

    A value that cannot be computed is an argument without numbers.
    """

    def __init__(
        self, module: Operation, devices: DeviceDigits, trials: int, computing: Computing, otherwise: bool
    ) -> None:
        super().__init__(module, Conditions(TermTable()), devices, GivenLoops(), True)
        self._sizes = {**dict(zip(devices.digits, devices.radices, strict=True)), TRIAL: trials}
        self._computing = computing
        self._otherwise = otherwise
        self._tables: dict[int, Numbers] = {}
        self._names = itertools.count()

    def known(self, element: str, labels: Sequence[Label], table: Numbers, shape: Sequence[int]) -> SymbolicValue:
        """A value with these numbers, with an axis for each label."""
        if numbers.bits_of(element) is not None:
            return self.algebra.number(integer_map(labels, table), element, shape)
        name = next(self._names)
        self._tables[name] = table
        return self._named(name, element, dict(zip(labels, table.shape, strict=True)), shape)

    def _named(self, name: int, element: str, sizes: dict[Label, int], shape: Sequence[int]) -> SymbolicValue:
        term = self.algebra.terms.argument(name, element, len(sizes))
        return self.algebra.value(term, [counted(label, size) for label, size in sizes.items()], shape)

    def unknown(self, element: str, shape: Sequence[int]) -> SymbolicValue:
        """A value of which no number is known."""
        sizes = {**self._sizes, **{dim(d): size for d, size in enumerate(shape)}}
        return self._named(next(self._names), element, sizes, shape)

    def results(self, op: Operation) -> list[SymbolicValue]:
        """As `Evaluation.results`, in numbers."""
        try:
            made = self._looped(op) if op.name == LOOP else super().results(op)
            if not any(value.term.operation in self.algebra.terms.opaque for value in made):
                return list(map(self._settled, made))
        except (Unknown, Uninterpreted, NotKnown, TooLarge):
            pass
        try:
            return self._of_whole_operands(op)
        except (Uninterpreted, NotKnown, TooLarge):
            return [self.unknown(result.type.element, result.type.shape) for result in op.results]

    def _looped(self, op: Operation) -> list[SymbolicValue]:
        """The results of a loop. Raises NotKnown if it does not end soon, or if devices do not meet in it."""
        condition_region, body = op.regions
        values = [self.values[operand] for operand in op.operands]
        for _ in turns_run(op):
            (condition,) = self.block(condition_region, values)
            check_together(op, condition)
            running = self.algebra.known(condition)
            if running is None:
                raise NotKnown("a loop whose end is not known")
            if 1 not in running.taken:
                return values
            made = zip(self.block(body, values), values, strict=True)
            values = [self._settled(self.algebra.choice(running, new, old)) for new, old in made]
        raise NotKnown("a loop of many iterations")

    def _settled(self, value: SymbolicValue) -> SymbolicValue:
        """A value whose elements are all known numbers."""
        if value.term.kind in _NUMBERS and not value.valid and not any(each.has_any for each in value.maps):
            return value
        return self.known(value.element, *self.table(value), value.shape)

    def table(self, value: SymbolicValue) -> tuple[list[Label], Numbers]:
        """The numbers of a value, with an axis for each label on which they depend. Raises Uninterpreted, TooLarge."""
        labels = sorted(value.labels())
        if any(label.kind == "bound" for label in labels):
            raise Uninterpreted
        sizes = [value.shape[label.number] if label.kind == "dim" else self._sizes[label] for label in labels]

        def column(each: IndexMap) -> Integers:
            return np.broadcast_to(each.spread(labels), sizes).reshape(-1)

        columns = [column(set_numbers(each) if each.is_set else each) for each in value.maps]
        rows = np.stack(columns, axis=-1) if columns else np.zeros((math.prod(sizes), 0), np.int64)
        known = functools.reduce(np.logical_and, [column(each) == 1 for each in value.valid], np.full(len(rows), True))
        dtype = np.int64 if numbers.bits_of(value.element) is not None else dtype_of(value.element)
        found = np.full(len(rows), self._otherwise, dtype)  # where it is not defined
        witness = Witness(self._read, self.algebra.terms.opaque, self._computing, self._otherwise)
        for index, part in _defined(lambda index: witness.values(value.term, rows[index]), np.flatnonzero(known)):
            found[index] = part
        return labels, found.reshape(sizes)

    def _read(self, number: int, element: str, index: Integers) -> Numbers:
        if number not in self._tables:
            raise Uninterpreted
        found = self._tables[number][tuple(index.T)]
        return np.array(np.broadcast_to(found, len(index)))

    def _of_whole_operands(self, op: Operation) -> list[SymbolicValue]:
        """The results of a function of arrays, computed for one device after another."""
        inside = {inner.name for inner in op.walk()} & set(every_row())
        if not {op.name, *inside} <= set(opaque.MEANINGS):
            raise Uninterpreted
        values = [self.values[operand] for operand in op.operands]
        tables = [self.table(value) for value in values]
        outer = sorted({label for labels, _ in tables for label in labels if label.kind != "dim"})
        sizes = [self._sizes[label] for label in outer]
        operands = []
        for (labels, table), value in zip(tables, values, strict=True):
            wide = spread(labels, table, [*outer, *dims(value.shape)]).astype(dtype_of(value.element))
            operands.append(np.broadcast_to(wide, (*sizes, *value.shape)))
        made = [
            self._computing.results(op, [operand[place] for operand in operands], self._otherwise)
            for place in np.ndindex(*sizes)
        ]
        found = []
        for number, result in enumerate(op.results):
            shape, element = result.type.shape, result.type.element
            table = np.stack([each[number] for each in made]).reshape((*sizes, *shape))
            wide = table.astype(np.int64) if numbers.bits_of(element) is not None else table
            found.append(self.known(element, [*outer, *dims(shape)], wide, shape))
        return found


def _defined(compute: Callable[[Integers], Numbers], index: Integers) -> list[tuple[Integers, Numbers]]:
    """The numbers of those rows for which they are defined, in parts."""
    try:
        return [(index, compute(index))] if len(index) else []
    except Undefined:
        halves = np.array_split(index, 2) if len(index) > 1 else []
        return [part for half in halves for part in _defined(compute, half)]


def dims(shape: Sequence[int]) -> list[Label]:
    return [dim(d) for d in range(len(shape))]


def spread(labels: Sequence[Label], table: Numbers, wanted: Sequence[Label]) -> Numbers:
    """A table with an axis for each label, with one for each of the wanted labels instead."""
    own = [label for label in wanted if label in labels]
    sizes = dict(zip(labels, table.shape, strict=True))
    found: Numbers = table.transpose([labels.index(label) for label in own])
    return found.reshape([sizes.get(label, 1) for label in wanted])
