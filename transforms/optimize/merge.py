"""Equal collectives of one value, merged: MLIR's own passes do not touch operations that communicate."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Hashable

from gspmd.dialect.own_attributes import AXES, CAUSE
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective

_NOT_COMPARED = {"channel_handle", AXES, CAUSE}


@dataclasses.dataclass(frozen=True)
class MergeCollectives(CollectivePass):
    """Replace a collective that repeats one before it by the result of that one.

    The two have the same operand, or reshapes of one value that move no data. One gather then serves all that use it.
    Collectives without users are dropped.
    """

    argument = "gspmd-merge-collectives"
    summary = "Merge equal collectives of one value"

    def apply(self, program: DeviceProgram) -> None:
        for collective in reversed(program.collectives()):
            if not collective.result.is_used:
                collective.op.erase()
                program.changed()
        while True:
            before = program.changes
            self._round(program)
            if program.changes == before:
                return
            program.tidy()

    def _round(self, program: DeviceProgram) -> None:
        """One walk; what becomes equal only by what is merged here is left to the next."""
        known: dict[tuple[Hashable, ...], list[Operation]] = {}
        collectives = program.collectives()
        sources = [_source(program, collective.operand) for collective in collectives]
        count = Counter(sources)
        for collective, source in zip(collectives, sources, strict=True):
            if count[source] == 1:
                continue
            op = collective.op
            key = _key(program, collective)
            if key is None:
                continue
            others = known.setdefault(key, [])
            other = next((other for other in others if _dominates(other, op)), None)
            if other is None:
                others.append(op)
            else:
                _replace(program, collective, other)
                program.changed()


def _key(program: DeviceProgram, collective: LocalCollective) -> tuple[Hashable, ...] | None:
    """The key that equal collectives share; None for a reduction by an unknown function."""
    reducing = collective.kind in ("all_reduce", "reduce_scatter")
    combiner = collective.combiner if reducing else ""
    if combiner is None:
        return None
    attributes = tuple(
        (n, a) for n, a in ((n, collective.attributes[n]) for n in collective.attributes) if n not in _NOT_COMPARED
    )
    value = collective.operand
    if collective.kind in ("all_reduce", "collective_permute"):
        # These do not care for the shape: equal up to a reshape, they move equal bytes.
        return collective.kind, combiner, attributes, _source(program, value)
    if collective.kind == "all_gather":
        attributes = tuple(pair for pair in attributes if pair[0] != "all_gather_dim")
        shape = value.type.shape
        dim = collective.dimension("all_gather_dim")
        # Gathered shards follow each other after the elements before the dimension.
        return collective.kind, attributes, _source(program, value), math.prod(shape[:dim])
    return collective.kind, combiner, attributes, program.before_loop(value), collective.result.type


def _source(program: DeviceProgram, value: Value) -> Value:
    """The value before reshapes, and before loops that carry it unchanged."""
    value = program.before_loop(value)
    op = value.op
    while op is not None and op.name == "stablehlo.reshape":
        value = program.before_loop(op.operands[0])
        op = value.op
    return value


def _dominates(first: Operation, second: Operation) -> bool:
    """Whether `first`, which stands before `second`, has been executed wherever `second` is."""
    block = first.block
    op: Operation | None = second
    while op is not None:
        if op.block == block:
            return True
        op = op.parent
        if op is None or op.name in ("func.func", "builtin.module"):
            return False
    return False


def _replace(program: DeviceProgram, collective: LocalCollective, other: Operation) -> None:
    value, wanted = other.results[0], collective.result.type
    if value.type != wanted:
        op = collective.op
        value = Operation("stablehlo.reshape", [value], [wanted], {}, op.location).insert(Point.at(op)).result
    collective.result.replace_all_uses_with(value)
    collective.op.erase()
