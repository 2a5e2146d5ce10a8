"""Simplifies shifts to one slice, concatenation or pad, for which a shard sends only the elements that move.

The gradient of a roll or split is a sum of zero-padded values that fill each other's gaps: a concatenation. A slice of
a pad is a pad, possibly negative, and a slice of a slice is a slice. A dynamic slice with constant starts is a slice. A
slice of a concatenation is a concatenation of slices, and a slice of a reversal is the reversal of a slice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from gspmd.transforms.analysis.trip_count import constant_integer
from gspmd.transforms.ingest.edits import constrain_users, create
from gspmd.transforms.ingest.reversals import REVERSE, from_the_end
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.reducers import is_zero
from gspmd.transforms.ir.signature import dictionaries
from gspmd.transforms.ir.types import TensorType

CONCATENATE = "stablehlo.concatenate"
ADD, SLICE, WINDOW = "stablehlo.add", "stablehlo.slice", "stablehlo.reduce_window"
DYNAMIC_SLICE, PAD = "stablehlo.dynamic_slice", "stablehlo.pad"
_SAID = "sdy.sharding"


class _PaddedPart(NamedTuple):
    """A value that occupies `begin` to `end` of one dimension of a padded value."""

    begin: int
    end: int
    value: Value


def join_shifts(main: Operation) -> None:
    """Rewrite the shifts of a function without calls."""
    for op in [op for op in main.walk() if op.name in (SLICE, PAD, ADD, WINDOW, DYNAMIC_SLICE)]:
        if op.name == DYNAMIC_SLICE:
            _cut_where_known(op)
        elif op.name == SLICE:
            _cut(op)
        elif op.name == PAD:
            _pad_again(op)
        elif op.name == WINDOW:
            _window_pads(op)
        elif all(_is_only_padding(operand) for operand in op.operands):
            _join(op)


def _shape(value: Value) -> list[int]:
    return list(value.type.shape)


def _ints(op: Operation, name: str) -> list[int]:
    return [int(n) for n in op.attributes[name]]


def _limits(op: Operation) -> tuple[list[int], list[int], list[int]]:
    """The starts, ends and strides of a slice."""
    return _ints(op, "start_indices"), _ints(op, "limit_indices"), _ints(op, "strides")


def _said(op: Operation) -> dict[str, ir.Attribute]:
    """The annotation of the result of an operation."""
    return {_SAID: op.attributes[_SAID]} if _SAID in op.attributes else {}


def _slice(
    value: Value, starts: list[int], limits: list[int], strides: list[int], before: Operation, said: bool
) -> Operation:
    """A slice of a value for the operation `before`, with its attributes, and with what is `said` of it."""
    attributes = {name: each for name, each in before.attributes.items() if name != "slice_sizes"}
    if not said:
        attributes.pop(_SAID, None)
    for name, numbers in (("start_indices", starts), ("limit_indices", limits), ("strides", strides)):
        attributes[name] = ir.DenseI64ArrayAttr.get(numbers)
    shape = [-(-(limit - start) // step) for start, limit, step in zip(starts, limits, strides, strict=True)]
    return create(SLICE, [value], [value.type.of_shape(tuple(shape))], attributes, before)


# ---- dynamic slices with constant starts ----


def _cut_where_known(op: Operation) -> None:
    """A slice for a dynamic slice with constant starts."""
    value, *indices = op.operands
    starts = [constant_integer(index) for index in indices]
    shape = _shape(op.results[0])
    if not starts or any(start is None or start < 0 for start in starts):
        return
    begins = [min(start or 0, n - kept) for start, n, kept in zip(starts, _shape(value), shape, strict=True)]
    ends = [begin + kept for begin, kept in zip(begins, shape, strict=True)]
    op.replace(_slice(value, begins, ends, [1] * len(shape), op, said=True).results)


# ---- slices of slices and of concatenations ----


def _cut(op: Operation) -> None:
    """Slice the operands of the producer instead, if this is equivalent."""
    op = _cut_once(op)
    parts = _cut_parts(op)
    if parts is None:
        _cut_pad(_cut_reversal(op))
        return
    for part in parts:
        _cut(part)


def _cut_once(op: Operation) -> Operation:
    """One slice for a slice of a slice that has one use and no annotation; returns it."""
    before = op.operands[0].op
    if before is None or before.name != SLICE or _SAID in before.attributes:
        return op
    if not before.result.is_used_once or 0 in _shape(op.result):
        return op
    begins, _, steps = _limits(before)
    starts, limits, strides = _limits(op)
    for dim, kept in enumerate(_shape(op.result)):
        starts[dim] = begins[dim] + starts[dim] * steps[dim]
        strides[dim] *= steps[dim]
        limits[dim] = starts[dim] + (kept - 1) * strides[dim] + 1
    made = _slice(before.operands[0], starts, limits, strides, op, said=True)
    op.replace(made.results)
    before.erase()
    return made


def _cut_parts(op: Operation) -> list[Operation] | None:
    """Slice the operands of a concatenation and concatenate the remaining parts; returns the slices.

    None where the operand is no concatenation, or something is said of it, or several parts are kept with elements left
    out between others, or of what is put together in any case.
    """
    joined = op.operands[0].op
    if joined is None or joined.name != CONCATENATE or _SAID in joined.attributes:
        return None
    dim = int(joined.attributes["dimension"])
    starts, limits, strides = _limits(op)
    begin, kept = 0, list[tuple[Value, int, int]]()
    for value in joined.operands:
        size = _shape(value)[dim]
        low, high = max(starts[dim] - begin, 0), min(limits[dim] - begin, size)
        if low < high:
            kept.append((value, low, high))
        begin += size
    is_put_together = strides[dim] == 1 and all(user.name == SLICE for user in joined.result.users)
    if not kept or (len(kept) > 1 and not is_put_together):
        return None
    made: list[Operation] = []
    parts: list[Value] = []
    for value, low, high in kept:
        starts[dim], limits[dim] = low, high
        cut = _slice(value, starts, limits, strides, op, said=len(kept) == 1)
        if _shape(cut.result) == _shape(value) and not _said(op):
            cut.erase()
            parts.append(value)
        else:
            made.append(cut)
            parts.append(cut.result)
    if len(parts) > 1:
        put = {"dimension": joined.attributes["dimension"], **_said(op)}
        parts = [create(CONCATENATE, parts, [op.result.type], put, op).result]
    op.replace(parts)
    if not joined.result.is_used:
        joined.erase()
    return made


# ---- slices of reversals ----


def _cut_reversal(op: Operation) -> Operation:
    """Slice before the reversal; returns the slice."""
    value = op.operands[0]
    reversal = value.op
    if reversal is None or reversal.name != REVERSE or _SAID in reversal.attributes or not value.is_used_once:
        return op
    starts, limits, strides = _limits(op)
    for dim in _ints(reversal, "dimensions"):
        size, made = _shape(value)[dim], _shape(op.result)[dim]
        starts[dim], limits[dim] = from_the_end(size, starts[dim], made, strides[dim])
    cut = _slice(reversal.operands[0], starts, limits, strides, op, said=False)
    again = {**reversal.attributes, **_said(op)}
    op.replace(create(REVERSE, cut.results, [cut.result.type], again, op).results)
    reversal.erase()
    return cut


# ---- slices of pads ----


def _cut_pad(op: Operation) -> None:
    """One pad for a pad and the slice of it."""
    if all(step == 1 for step in _ints(op, "strides")):
        rest = [n - limit for n, limit in zip(_shape(op.operands[0]), _ints(op, "limit_indices"), strict=True)]
        _pad_once(op, [-start for start in _ints(op, "start_indices")], [-n for n in rest])


def _pad_again(op: Operation) -> None:
    """One pad for two with the same padding value."""
    pad = op.operands[0].op
    if pad is None or pad.name != PAD or any(_ints(op, "interior_padding")):
        return
    if _is_one_constant(pad.operands[1], op.operands[1]):
        _pad_once(op, _ints(op, "edge_padding_low"), _ints(op, "edge_padding_high"))


def _pad_once(op: Operation, low: list[int], high: list[int]) -> None:
    """Merge `op` into the pad that produces its operand: it pads `low` and `high` more, or less.

    The annotation of the value between the two moves to the result, if that has none.
    """
    between = op.operands[0].op
    pad = between
    if between is not None and between.name == CONSTRAINT and (_is_annotated(op.result) or _is_like(between, op)):
        pad = between.operands[0].op if between.operands[0].is_used_once else None
    if pad is None or pad.name != PAD or _SAID in pad.attributes or not op.operands[0].is_used_once:
        return
    size, before = _shape(pad.operands[0]), (_ints(pad, "edge_padding_low"), _ints(pad, "edge_padding_high"))
    edges = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(before, (low, high), strict=True)]
    refills = any(a < 0 < b for a, b in zip((*before[0], *before[1]), (*low, *high), strict=True))
    if (
        refills
        or any(_ints(pad, "interior_padding"))
        or any(min(a, b) <= -n for a, b, n in zip(*edges, size, strict=True))
    ):
        return  # the elements differ from those of one pad
    attributes = dict(pad.attributes)
    attributes["edge_padding_low"], attributes["edge_padding_high"] = map(ir.DenseI64ArrayAttr.get, edges)
    if _SAID in op.attributes:
        attributes[_SAID] = op.attributes[_SAID]
    made = create(PAD, pad.operands, [op.result.type], attributes, op)
    if between is not pad and between is not None and not _is_annotated(op.result):
        constrain_users(op.result, between.attributes["sharding"], op)
    op.replace(made.results)
    if between is not pad and between is not None:
        between.erase()
    pad.erase()


def _is_annotated(value: Value) -> bool:
    """Whether a value has an annotation: its own, a constraint, or that of a result of @main."""
    user = value.only_user
    if user is None or value.op is None or _SAID in value.op.attributes:
        return user is not None
    if user.name == CONSTRAINT:
        return True
    function = user.parent
    if user is not value.block.last or function is None or "res_attrs" not in function.attributes:
        return False
    entries = dictionaries(function, "res_attrs", len(user.operands))
    return all(_SAID in entries[index] for index, each in enumerate(user.operands) if each is value)


def _is_like(value: Operation, made: Operation) -> bool:
    """Whether two results have similar sizes, so that the annotation of one is useful for the other."""
    return all(n <= 2 * kept for n, kept in zip(_shape(value.result), _shape(made.result), strict=True))


def _is_one_constant(one: Value, other: Value) -> bool:
    """Whether two values are equal constants."""
    ops = (one.op, other.op)
    found = [op.attributes["value"] for op in ops if op is not None and op.name == "stablehlo.constant"]
    return len(found) == 2 and bool(found[0] == found[1])


# ---- pads before window reductions ----


def _window_pads(op: Operation) -> None:
    """Merge a pad with the initial value into the window reduction that reads it."""
    if len(op.operands) != 2:
        return
    pad = op.operands[0].op
    if pad is None or pad.name != PAD or _SAID in pad.attributes or not op.operands[0].is_used_once:
        return
    edges = [_ints(pad, name) for name in ("edge_padding_low", "edge_padding_high")]
    if not _is_one_constant(op.operands[1], pad.operands[1]) or min(map(min, edges), default=0) < 0:
        return
    rank = len(edges[0])
    dilations = _ints(op, "base_dilations") if "base_dilations" in op.attributes else [1] * rank
    attribute: ir.Attribute | None = op.attributes.get("padding", None)
    given = [0] * (2 * rank) if attribute is None else [int(n) for n in ir.DenseIntElementsAttr(attribute)]
    padding = [given[2 * dim + side] + edges[side][dim] * dilations[dim] for dim in range(rank) for side in range(2)]
    wider = [d * (between + 1) for d, between in zip(dilations, _ints(pad, "interior_padding"), strict=True)]
    type_ = ir.RankedTensorType.get([rank, 2], ir.IntegerType.get_signless(64))
    op.attributes["padding"] = ir.DenseIntElementsAttr.get(np.array(padding, np.int64).reshape(rank, 2), type=type_)
    op.attributes["base_dilations"] = ir.DenseI64ArrayAttr.get(wider)
    op.operands[0] = pad.operands[0]
    pad.erase()


# ---- sums of padded values ----


def _is_only_padding(value: Value) -> bool:
    """Whether the value is a zero pad with this sum as its only user."""
    pad = value.op
    if pad is None or pad.name != PAD or _SAID in pad.attributes or not value.is_used_once:
        return False
    edges = (*_ints(pad, "edge_padding_low"), *_ints(pad, "edge_padding_high"))
    return not any(_ints(pad, "interior_padding")) and min(edges) >= 0 and is_zero(pad.operands[1])


def _join(op: Operation) -> None:
    """One concatenation for the sum, if two padded values fill one dimension."""
    pads = [operand.maker for operand in op.operands]
    element = op.results[0].type.element
    if pads[0] is pads[1] or element == "i1":
        return
    shape = _shape(op.results[0])
    padded = [
        [d for d, (n, given) in enumerate(zip(shape, _shape(p.operands[0]), strict=True)) if n != given] for p in pads
    ]
    if padded[0] != padded[1] or len(padded[0]) != 1:
        return
    (dim,) = padded[0]
    begins = [_ints(pad, "edge_padding_low")[dim] for pad in pads]
    parts = [
        _PaddedPart(begin, begin + _shape(pad.operands[0])[dim], pad.operands[0])
        for begin, pad in zip(begins, pads, strict=True)
    ]
    first, second = sorted(parts, key=lambda part: part.begin)
    if (first.begin, first.end, second.end) != (0, second.begin, shape[dim]):
        return
    type_ = op.results[0].type
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)
    value = create(CONCATENATE, [first.value, second.value], [type_], {"dimension": number}, op).results[0]
    said = _said(op)
    if not element.startswith(("i", "ui")):
        value = create(ADD, [value, _zeros(pads[0].operands[1], type_, op)], [type_], said, op).results[0]
    elif said and value.op is not None:
        value.op.attributes[_SAID] = said[_SAID]
    op.replace([value])
    for pad in pads:
        pad.erase()


def _zeros(zero: Value, type_: TensorType, before: Operation) -> Value:
    """The padding value, broadcast: adding it turns -0.0 into 0.0, as the sum did."""
    dims = ir.DenseI64ArrayAttr.get([])
    return create("stablehlo.broadcast_in_dim", [zero], [type_], {"broadcast_dimensions": dims}, before).results[0]
