"""Rings of devices: shards that travel from neighbour to neighbour, in steps that are unrolled or looped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType


class Ring:
    """The devices along `axes`, each with its index among them; other axes have rings of their own."""

    def __init__(self, emit: Emitter, axes: Axes, cause: Cause) -> None:
        self.emit = emit
        self.count = size_of(axes)
        self._axes = axes
        self._cause = cause
        self._groups = replica_groups(emit.mesh, axes)

    def shift(self, value: Value, by: int) -> Value:
        """The value of the device whose index is this one's plus `by`."""
        pairs = np.stack([np.roll(self._groups, -by, axis=1).reshape(-1), self._groups.reshape(-1)], axis=1)
        location = self.emit.location
        moved = self.emit.collective_permute(value, pairs, self._axes, self._cause)
        self.emit.location = location
        return moved

    def start(self, step: int | Value, sign: int, size: int) -> Value:
        """The start of the shard of the device `sign * step` further, in shards of `size`: a scalar.

        `step` is a number from 0 to the number of devices, or a value of that range.
        """
        emit = self.emit
        if not isinstance(step, Value):
            step = emit.constant(INDEX, step)
        index = emit.shard_index(self._axes)
        if sign > 0:
            index = emit.binary("add", index, step)
        else:
            index = emit.binary("subtract", emit.binary("add", index, emit.constant(INDEX, self.count)), step)
        index = emit.binary("remainder", index, emit.constant(INDEX, self.count))
        return emit.binary("multiply", index, emit.constant(INDEX, size))

    def repeat(self, first: int, last: int, carried: Sequence[Value], body: Step, unroll: bool) -> list[Value]:
        """Do `body` for every step from `first` to below `last`, which gives the new values of what is carried."""
        if unroll or last - first < 2:
            values = list(carried)
            for step in range(first, last):
                values = body(step, values)
            return values
        return self._loop(first, last, carried, body)

    def _loop(self, first: int, last: int, carried: Sequence[Value], body: Step) -> list[Value]:
        emit = self.emit
        initial = [emit.constant(INDEX, first), *carried]
        types = [value.type for value in initial]
        limit, one = emit.constant(INDEX, last), emit.constant(INDEX, 1)

        def condition(values: list[Value]) -> list[Value]:
            return [emit.compare(values[0], "LT", limit)]

        def iteration(values: list[Value]) -> list[Value]:
            step, *others = values
            made = body(step, others)
            return [emit.binary("add", step, one), *made]

        blocks = [emit.block(types, condition), emit.block(types, iteration)]
        return emit.create("stablehlo.while", initial, types, {}, blocks).results[1:]


Step = Callable[[int | Value, list[Value]], list[Value]]


def cut(emit: Emitter, value: Value, dim: int, start: Value, size: int) -> Value:
    """`size` elements of one dimension from `start` on."""
    type_ = value.type
    zero = emit.constant(INDEX, 0)
    shape = tuple(size if d == dim else n for d, n in enumerate(type_.shape))
    starts = [start if d == dim else zero for d in range(type_.rank)]
    return emit.op(
        "stablehlo.dynamic_slice", [value, *starts], [TensorType(shape, type_.element)], slice_sizes=emit.i64s(shape)
    )


def paste(emit: Emitter, whole: Value, part: Value, dim: int, start: Value) -> Value:
    """`whole` with `part` at `start` of one dimension."""
    type_ = whole.type
    zero = emit.constant(INDEX, 0)
    starts = [start if d == dim else zero for d in range(type_.rank)]
    return emit.op("stablehlo.dynamic_update_slice", [whole, part, *starts], [type_])
