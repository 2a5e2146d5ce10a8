"""Collectives that only move data, moved to where there is less of it."""

from __future__ import annotations

import dataclasses

from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.collective_builder import CollectiveBuilder
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective, integers

_MOVING = ("all_gather", "all_to_all", "collective_permute")
_CONVERT, _BROADCAST = "stablehlo.convert", "stablehlo.broadcast_in_dim"
_PAD, _SLICE = "stablehlo.pad", "stablehlo.slice"


@dataclasses.dataclass(frozen=True)
class NarrowCollectives(CollectivePass):
    """Let all-gathers, all-to-alls and permutes move the smaller side of what widens or narrows a value.

    Conversions, broadcasts and pads that widen a value are done after them; conversions and slices that narrow it,
    before.
    """

    argument = "gspmd-narrow-collectives"
    summary = "Let collectives move data before it is widened and after it is narrowed"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        for collective in program.collectives(*_MOVING):
            current: LocalCollective | None = collective
            while current is not None:
                current = _before_widening(program, current) or _after_narrowing(program, current)


# ---- what is before the collective ----------------------------------------------------------------


def _before_widening(program: DeviceProgram, collective: LocalCollective) -> LocalCollective | None:
    """Move the operation that makes the operand behind the collective; the collective in its new place."""
    op = collective.operand.op
    if op is None or op.name not in (_CONVERT, _BROADCAST, _PAD) or op.block != collective.op.block:
        return None
    source = op.operands[0]
    if bytes_of(source.type) >= bytes_of(collective.operand.type) or not source.type.rank:
        return None
    moved = _dims_of_source(collective, op)
    if moved is None:
        return None
    emit = program.emitter(collective.op)
    small = collective.of(emit, source, moved)
    emit.location = op.location
    attributes = dict(op.attributes)
    wide = emit.op(op.name, [small, *list(op.operands)[1:]], [collective.result.type], **attributes)
    collective.result.replace_all_uses_with(wide)
    collective.op.erase()
    if not op.results[0].is_used:
        op.erase()
    program.changed()
    return LocalCollective(small.maker, collective.kind, program.mesh)


def _dims_of_source(collective: LocalCollective, op: Operation) -> dict[int, int] | None:
    """Where the collective's dimensions are in the operand of `op`; None if it cannot be done there."""
    dims = collective.resized_dims
    if op.name == _CONVERT:
        return {dim: dim for dim in dims}
    if op.name == _PAD:
        low, high, inner = (
            integers(op.attributes[name]) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
        )
        if collective.kind == "collective_permute" or any(low[d] or high[d] or inner[d] for d in dims):
            return None  # a device without a sender has zeros, the padding included
        return {dim: dim for dim in dims}
    targets = integers(op.attributes["broadcast_dimensions"])
    small, wide = op.operands[0].type.shape, op.results[0].type.shape
    if any(dim not in targets or small[targets.index(dim)] != wide[dim] for dim in dims):
        return None
    return {dim: targets.index(dim) for dim in dims}


# ---- what is after the collective -----------------------------------------------------------------


def _after_narrowing(program: DeviceProgram, collective: LocalCollective) -> LocalCollective | None:
    """Move the only operation that uses the result before the collective; the collective in its new place."""
    op = collective.result.only_user
    if op is None or op.name not in (_CONVERT, _SLICE):
        return None
    result = op.results[0].type
    if bytes_of(result) >= bytes_of(collective.result.type):
        return None
    what = "done after the narrowing operation that follows"
    if op.block != collective.op.block:
        program.decline(collective.op, what, "that is in a loop or branch")
        return None
    dims, local = collective.resized_dims, collective.operand.type
    emit = program.emitter(collective.op, op.location)
    if op.name == _CONVERT:
        small = emit.convert(collective.operand, result.element)
    else:
        whole = collective.result.type.shape
        if any(result.shape[d] != whole[d] for d in dims):
            if _narrows_elsewhere(result.shape, whole, dims):
                program.decline(collective.op, what, "that also cuts a dimension which the collective changes")
            return None
        small = _slice_others(emit, op, collective.operand, dims, local)
    value = collective.of(emit, small, {dim: dim for dim in dims})
    op.replace([value])
    collective.op.erase()
    program.changed()
    return LocalCollective(value.maker, collective.kind, program.mesh)


def _narrows_elsewhere(shape: tuple[int, ...], whole: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return any(shape[d] != n for d, n in enumerate(whole) if d not in dims)


def _slice_others(
    emit: CollectiveBuilder, op: Operation, value: Value, dims: tuple[int, ...], local: TensorType
) -> Value:
    """The slice on the collective's operand, whole along the dimensions that the collective changes."""
    bounds = {name: list(integers(op.attributes[name])) for name in ("start_indices", "limit_indices", "strides")}
    for dim in dims:
        bounds["limit_indices"][dim] = local.shape[dim]
    shape = tuple(n if d not in dims else local.shape[d] for d, n in enumerate(op.results[0].type.shape))
    attributes = {name: emit.i64s(values) for name, values in bounds.items()}
    return emit.op(_SLICE, [value], [TensorType(shape, local.element)], **attributes)
