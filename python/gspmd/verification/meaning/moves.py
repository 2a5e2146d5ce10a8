"""Operations that move elements: every element of the result is one of the operand, or a constant."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from gspmd.transforms.ir.operations import Operation
from gspmd.verification import index_maps
from gspmd.verification.algebra import PIECE, PIECES
from gspmd.verification.attributes import integer, ints
from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import IndexMap, Label, counted, dim, integer_map, pointwise
from gspmd.verification.meaning.elementwise import broadcast, described, spread
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.values import SymbolicValue


def _slice(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    shape = op.results[0].type.shape
    rows = zip(ints(op, "start_indices"), ints(op, "strides"), shape, strict=True)
    places = {dim(d): counted(dim(d), size, start, step) for d, (start, step, size) in enumerate(rows)}
    return [machine.algebra.moved(values[0], shape, places)]


def _transpose(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    order = ints(op, "permutation")
    return [
        machine.algebra.relabelled(values[0], op.results[0].type.shape, {old: new for new, old in enumerate(order)})
    ]


def _broadcast(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    shape, targets, (value,) = op.results[0].type.shape, ints(op, "broadcast_dimensions"), values
    return [broadcast(machine, value, shape, targets)]


def _reverse(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    shape = op.results[0].type.shape
    places = {dim(d): counted(dim(d), shape[d], shape[d] - 1, -1) for d in ints(op, "dimensions")}
    return [machine.algebra.moved(values[0], shape, places)]


def _reshape(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return [reshaped(machine, values[0], op.results[0].type.shape)]


def reshaped(machine: Execution, value: SymbolicValue, shape: tuple[int, ...]) -> SymbolicValue:
    """The elements of a value, in the same order, in another shape."""
    if 0 in shape:
        return dataclasses.replace(machine.algebra.zero(value.element, shape))
    places: dict[Label, IndexMap] = {}
    for old, new in _groups(value.shape, shape):
        sizes = [shape[d] for d in new]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        parts = [pointwise(lambda i, s=s: i * s, counted(dim(n), shape[n])) for n, s in zip(new, strides, strict=True)]
        stride = 1
        for d in reversed(old):
            places[dim(d)] = pointwise(lambda *at, d=d, stride=stride: sum(at) // stride % value.shape[d], *parts)
            stride *= value.shape[d]
    return machine.algebra.moved(value, shape, places)


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of adjacent dimensions that have equally many elements in two shapes."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right, of_old, of_new = 1, 1, [], []  # type: int, int, list[int], list[int]
        while not of_old or not of_new or left != right:
            if (left <= right and i < len(old)) or j >= len(new):
                if i >= len(old):
                    break
                of_old.append(i)
                left *= old[i]
                i += 1
            else:
                of_new.append(j)
                right *= new[j]
                j += 1
        groups.append((of_old, of_new))
    return groups


def _concatenate(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return [concatenated(machine, values, integer(op, "dimension"))]


def concatenated(machine: Execution, values: list[SymbolicValue], along: int) -> SymbolicValue:
    """Values, concatenated."""
    algebra = machine.algebra
    total = sum(value.shape[along] for value in values)
    shape = (*values[0].shape[:along], total, *values[0].shape[along + 1 :])
    made: SymbolicValue | None = None
    end = total
    for value in reversed(values):
        begin = end - value.shape[along]
        if begin == end:
            continue
        part = algebra.moved(value, shape, {dim(along): counted(dim(along), total, -begin)})
        if made is None:
            made = part
        else:
            here = integer_map([dim(along)], (np.arange(total) < end).astype(np.int64))
            made = algebra.choice(here, part, made)
        end = begin
    return made if made is not None else spread(values[0], shape)


def _pad(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    value, filling = values
    shape = op.results[0].type.shape
    low, interior = ints(op, "edge_padding_low"), ints(op, "interior_padding")
    return [padded(machine, value, filling, shape, low, interior)]


def padded(
    machine: Execution,
    value: SymbolicValue,
    filling: SymbolicValue,
    shape: tuple[int, ...],
    low: list[int],
    interior: list[int],
) -> SymbolicValue:
    """A value, padded before, after and between its elements."""
    algebra = machine.algebra
    filling = spread(filling, shape)
    if 0 in value.shape:
        return filling
    places: dict[Label, IndexMap] = {}
    masks = []
    for d, size in enumerate(shape):
        at = np.arange(size) - low[d]
        step = interior[d] + 1
        inside = (at >= 0) & (at % step == 0) & (at // step < value.shape[d])
        masks.append(integer_map([dim(d)], inside.astype(np.int64)))
        places[dim(d)] = integer_map([dim(d)], np.where(inside, at // step, ANY))
    made = algebra.moved(value, shape, places)
    for mask in reversed(masks):
        made = algebra.choice(mask, made, filling)
    return made


def clamped(start: IndexMap, size: int, window: int) -> IndexMap:
    """The start of a window, clamped so that it is within the dimension."""
    return pointwise(lambda at: np.clip(at, 0, size - window), start)


def _bitcast(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """The same bits; between types of different widths, a last dimension counts the pieces of the wider one."""
    (value,), type_ = values, op.results[0].type
    algebra, rank = machine.algebra, len(value.shape)
    if rank == type_.rank:
        return [algebra.elementwise(described(op), type_.element, [value])]
    if rank < type_.rank:
        whole = algebra.moved(value, type_.shape, {})
        number = algebra.number(counted(dim(rank), type_.shape[rank]), "i32", type_.shape)
        return [algebra.elementwise((PIECE,), type_.element, [whole, number])]
    last = dim(rank - 1)
    pieces = [algebra.moved(value, type_.shape, {last: index_maps.constant(n)}) for n in range(value.shape[-1])]
    return [algebra.elementwise((PIECES,), type_.element, pieces)]


MEANINGS: dict[str, Meaning] = {
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reverse": _reverse,
    "stablehlo.reshape": _reshape,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
    "stablehlo.bitcast_convert": _bitcast,
}
