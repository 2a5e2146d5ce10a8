"""Integers that each device computes from its partition id, worked out for all devices at once.

What a per-device program reads where, such as the start of its own shard, is known exactly this way, however it is
written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gspmd.dialect.axes import Axes, Axis, size_of
from gspmd.dialect.limits import MAX_LISTED_DEVICES
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.evaluation import Integers as Ids
from gspmd.transforms.optimize.program import integers

_MAX_DEPTH = 48
_DTYPES = {f"{sign}i{bits}": f"{'u' if sign else ''}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


class PartitionValues:
    """Values of one element as arrays over partition ids; None for what depends on more than the partition id."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._known: dict[Value, Ids | None] = {}

    def __call__(self, value: Value, depth: int = 0) -> Ids | None:
        if value not in self._known:
            op = value.op
            is_far = depth > _MAX_DEPTH or self._mesh.size > MAX_LISTED_DEVICES
            found = None if op is None or is_far else self._compute(op, value, depth + 1)
            self._known[value] = found
        return self._known[value]

    def _compute(self, op: Operation, value: Value, depth: int) -> Ids | None:
        type_ = value.type
        dtype = "bool" if type_.element == "i1" else _DTYPES.get(type_.element)
        if dtype is None or any(n != 1 for n in type_.shape):
            return None
        name = op.name
        if name == "stablehlo.partition_id":
            return np.arange(self._mesh.size).astype(dtype)
        if name == "stablehlo.constant":
            return np.full(self._mesh.size, integers(op.attributes["value"])[0]).astype(dtype)
        if name == "stablehlo.dynamic_slice":
            return self._look_up(op, depth)
        evaluate = traits_of(name).evaluate
        if evaluate is None:
            return None
        operands = [self(operand, depth) for operand in op.operands]
        known = [operand for operand in operands if operand is not None]
        return evaluate(op, dtype, known) if len(known) == len(operands) else None

    def _look_up(self, op: Operation, depth: int) -> Ids | None:
        """One element of a constant list."""
        table = op.operands[0].op
        if table is None or table.name != "stablehlo.constant" or len(op.operands) != 2:
            return None
        at = self(op.operands[1], depth)
        if at is None:
            return None
        entries = np.array(integers(table.attributes["value"]), _DTYPES[op.operands[0].type.element])
        if len(entries) != op.operands[0].type.shape[0]:
            return entries[np.zeros(len(at), np.int64)]  # a splat
        return entries[np.clip(at.astype(np.int64), 0, len(entries) - 1)]

    # ---- shards ----

    def shard_axes(self, start: Value, size: int, count: int) -> Axes | None:
        """The axes that split a dimension into `count` parts of `size` where each device's part begins at `start`."""
        values = self(start)
        if values is None:
            return None
        offsets = np.clip(values.astype(np.int64), 0, size * (count - 1))
        if (offsets % size).any():
            return None
        return axes_of_index(self._mesh, offsets // size, count)


def axes_of_index(mesh: Mesh, index: Ids, count: int) -> Axes | None:
    """The axes, of `count` shards, along which `index` (over partition ids) is each device's index."""
    ids = np.array(mesh.device_ids, np.int64) if mesh.device_ids else np.arange(mesh.size)
    sizes = [size for _, size in mesh.axes]
    grid = index[ids].reshape(sizes)
    weighted: list[tuple[int, Axis]] = []
    for number, (name, size) in enumerate(mesh.axes):
        line = grid[tuple(slice(None) if n == number else 0 for n in range(len(sizes)))]
        part = _part(name, size, line)
        if part is None:
            return None
        weighted += part
    weighted.sort(key=lambda pair: -pair[0])
    axes = tuple(axis for _, axis in weighted)
    if size_of(axes) != count or (grid != _index_grid(mesh, axes)).any():
        return None
    return axes


def _part(name: str, size: int, line: Ids) -> list[tuple[int, Axis]] | None:
    """The weight and the part of one mesh axis with which the index grows along it."""
    moved = np.flatnonzero(line)
    if line[0] != 0:
        return None
    if not len(moved):
        return []
    run, weight = int(moved[0]), int(line[moved[0]])
    steps = int(line.max()) // weight + 1
    if weight < 0 or size % (run * steps):
        return None
    return [(weight, Axis(name, size // (run * steps), steps))]


def _index_grid(mesh: Mesh, axes: Sequence[Axis]) -> Ids:
    """The index along `axes` at every mesh position."""
    sizes = dict(mesh.axes)
    positions = np.indices([size for _, size in mesh.axes])
    total = np.zeros(positions.shape[1:], np.int64)
    order = [name for name, _ in mesh.axes]
    for axis in axes:
        coordinate = positions[order.index(axis.name)] // (sizes[axis.name] // axis.end) % axis.size
        total = total * axis.size + coordinate
    return total
