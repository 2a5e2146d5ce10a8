"""Products that are summed up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import chlo, stablehlo

from gspmd.transforms.ir.operations import Operation
from gspmd.verification import index_maps, numbers
from gspmd.verification.attributes import notes
from gspmd.verification.blocks import ANY
from gspmd.verification.conditions import Conditions
from gspmd.verification.index_maps import counted, dim, integer_map, pointwise
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.meaning.opaque import opaque
from gspmd.verification.not_known import NotKnown
from gspmd.verification.renewal import renewed
from gspmd.verification.values import SymbolicValue

_DEFAULT = "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"
_Pairs = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
"""The dimensions of both sides that are batch dimensions, and those that are contracted."""


def product(machine: Execution, op: Operation, left: SymbolicValue, right: SymbolicValue) -> SymbolicValue:
    """The product of elements, in the type of the result and with the precision of the operation."""
    algebra, element = machine.algebra, op.results[0].type.element
    sides = [algebra.elementwise(("stablehlo.convert",), element, [side]) for side in (left, right)]
    precision = notes(op, {"precision_config": _DEFAULT, "algorithm": ""})
    if any(text == "[]" for _, text in precision):
        precision = ()
    return algebra.elementwise(("stablehlo.multiply", *precision), element, sides)


def _pairs(dims: Any) -> _Pairs:
    return (
        (list(dims.lhs_batching_dimensions), list(dims.rhs_batching_dimensions)),
        (list(dims.lhs_contracting_dimensions), list(dims.rhs_contracting_dimensions)),
    )


def _dot_general(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    pairs = _pairs(stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"]))
    return [_total(machine, _products(machine, op, values, pairs), len(pairs[1][0]))]


def _dot(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """The product of matrices or vectors: the last dimension of one is contracted with the first of the other."""
    pairs: _Pairs = ([], []), ([len(values[0].shape) - 1], [0])
    return [_total(machine, _products(machine, op, values, pairs), 1)]


def _ragged_dot(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """A product of consecutive groups of rows, each with the matrix of its group on the other side.

    If a contracted dimension is grouped instead, each group has a matrix in the result. Groups of batches change
    nothing.
    """
    algebra, (*sides, sizes) = machine.algebra, values
    dims = chlo.RaggedDotDimensionNumbers(op.attributes["ragged_dot_dimension_numbers"])
    (ragged,), groups = dims.lhs_ragged_dimensions, list(dims.rhs_group_dimensions)
    pairs: _Pairs = _pairs(dims)
    batching, contracted = pairs[0][0], pairs[1][0]
    if len(sizes.shape) > 1:
        return opaque(machine, op, values)
    made = _products(machine, op, sides, pairs, groups)
    if ragged not in batching:
        free = [d for d in range(len(sides[0].shape)) if d not in (*batching, *contracted)]
        rank, last = len(op.results[0].type.shape), len(made.shape) - 1
        row = len(batching) + free.index(ragged) if groups else rank + contracted.index(ragged)
        here = _in_groups(algebra, sizes, sides[0], ragged)
        here = algebra.relabelled(here, made.shape, {0: last if groups else 0, 1: row})
        zero = algebra.zero(made.element, made.shape)
        made = algebra.elementwise(("stablehlo.select",), made.element, [here, made, zero])
    return [_total(machine, made, len(contracted) + len(groups))]


def _in_groups(algebra: Conditions, sizes: SymbolicValue, rows: SymbolicValue, d: int) -> SymbolicValue:
    """Whether the rows along a dimension are in each of the groups, [groups, rows]. Raises NotKnown."""
    count, size = sizes.shape[0], rows.shape[d]
    if size > numbers.range_of_type(sizes.element)[1]:
        raise NotKnown("groups that are larger than the type of their sizes can tell")
    place = counted(dim(1), size)
    for mask in rows.valid:
        if not any(label.kind == "dim" and label != dim(d) for label in mask.labels):
            known = index_maps.composed(mask, {dim(d): counted(dim(1), size)})
            place = pointwise(lambda at, m: np.where(m == 1, at, ANY), place, known)
    ends = dataclasses.replace(_ends(algebra, sizes), shape=(count, size))
    against = algebra.number(place, sizes.element, ends.shape)
    after, before = (
        algebra.elementwise(("stablehlo.compare", direction, sizes.element), "i1", [ends, against])
        for direction in ("LE", "GT")
    )
    previous = integer_map([dim(0)], np.maximum(np.arange(count) - 1, 0))
    first = algebra.number(index_maps.constant(1), "i1", ends.shape)
    is_later = integer_map([dim(0)], (np.arange(count) > 0).astype(np.int64))
    after = algebra.choice(is_later, algebra.moved(after, ends.shape, {dim(0): previous}), first)
    return algebra.elementwise(("stablehlo.and",), "i1", [after, before])


def _ends(algebra: Conditions, sizes: SymbolicValue) -> SymbolicValue:
    """The ends of consecutive groups of these sizes.

    Sizes that are computed as ends minus begins, where each group begins at the end of the previous one, give back
    the ends, as a device computes the sizes of the parts of groups in its shard.
    """
    count, element = sizes.shape[0], sizes.element
    inner = algebra.part(sizes, 0) if sizes.term.kind == "stablehlo.convert" else sizes
    if inner.term.kind == "stablehlo.subtract" and numbers.bits_of(inner.element):
        end, begin = algebra.part(inner, 0), algebra.part(inner, 1)
        first = renewed(algebra, algebra.moved(begin, (1,), {dim(0): index_maps.constant(0)}))
        later = renewed(algebra, algebra.moved(begin, (count - 1,), {dim(0): counted(dim(0), count - 1, 1)}))
        earlier = renewed(algebra, algebra.moved(end, (count - 1,), {dim(0): counted(dim(0), count - 1)}))
        if algebra.is_zero(first) and later.instance == earlier.instance and _is_exact(algebra, end, begin):
            return algebra.elementwise(("stablehlo.convert",), element, [end])
    square = (count, count)
    each = algebra.moved(sizes, square, {dim(0): counted(dim(1), count)})
    kept = integer_map([dim(0), dim(1)], np.tril(np.ones(square, np.int64)))
    return algebra.total("add", algebra.choice(kept, each, algebra.zero(element, square)), 1)


def _is_exact(algebra: Conditions, left: SymbolicValue, right: SymbolicValue) -> bool:
    """Whether the difference of two integers does not wrap around."""
    (low, high), (least, most) = algebra.range_of(left), algebra.range_of(right)
    lowest, highest = numbers.range_of_type(left.element)
    return lowest <= low - most and high - least <= highest


def _products(
    machine: Execution, op: Operation, values: Sequence[SymbolicValue], pairs: _Pairs, groups: Sequence[int] = ()
) -> SymbolicValue:
    """All products of a contraction: [dimensions of the result..., contracted..., groups of the right side...].

    Dimensions of the result before those of the operands are left open.
    """
    result, (batching, contracted) = op.results[0].type.shape, pairs
    apart = [(*batching[side], *contracted[side], *(groups if side else ())) for side in range(2)]
    free = [[d for d in range(len(v.shape)) if d not in apart[side]] for side, v in enumerate(values)]
    leading = len(result) - len(batching[0]) - len(free[0]) - len(free[1])
    begins = leading + len(batching[0]), leading + len(batching[0]) + len(free[0])
    shape = (*result, *(values[0].shape[d] for d in contracted[0]), *(values[1].shape[d] for d in groups))
    sides = []
    for side, value in enumerate(values):
        names = {old: leading + new for new, old in enumerate(batching[side])}
        names |= {old: begins[side] + i for i, old in enumerate(free[side])}
        names |= {old: len(result) + i for i, old in enumerate((*contracted[side], *(groups if side else ())))}
        sides.append(machine.algebra.relabelled(value, shape, names))
    return product(machine, op, *sides)


def _total(machine: Execution, made: SymbolicValue, count: int) -> SymbolicValue:
    """The sum along so many last dimensions."""
    for _ in range(count):
        made = machine.algebra.total("add", made, len(made.shape) - 1)
    return made


MEANINGS: dict[str, Meaning] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "chlo.ragged_dot": _ragged_dot,
}
