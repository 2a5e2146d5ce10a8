"""Small collectives over the same devices, combined into one: where latency is what they cost."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from gspmd.dialect.axes import size_of
from gspmd.transforms.optimize.program import Collective, CollectivePass, DeviceProgram
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.collective_builder import Cause, CollectiveBuilder
from gspmd.transforms.support.op_info import TensorType
from gspmd.transforms.support.passes import option

_KINDS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclasses.dataclass(frozen=True)
class CombineCollectives(CollectivePass):
    """Small all-reduces, all-gathers or reduce-scatters over the same groups become one, of the concatenated values.

    It stands where the last of them stood, so it has to stand before the first use of any of them.
    """

    argument = "gspmd-combine-collectives"
    summary = "Combine small collectives over the same devices into one"
    details = ("What is sent stays the same; the values are copied once more before and after.",)

    combine_up_to_bytes: int = option(64 << 10, "bytes of all operands of a combined collective together")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        batches: list[_Batch] = []
        open_: dict[Any, _Batch] = {}
        for collective in program.collectives(*_KINDS):
            if collective.bytes > self.combine_up_to_bytes or not program.is_along_axes(collective):
                continue
            key = _key(collective)
            if key is None:
                continue
            batch = open_.get(key)
            refused = None if batch is None else batch.refuses(collective, self.combine_up_to_bytes)
            if batch is None or refused:
                if refused:
                    program.decline(collective.op, "combined with the ones before", refused)
                batch = open_[key] = _Batch()
                batches.append(batch)
            batch.add(collective)
        for batch in batches:
            if len(batch.members) > 1:
                _combine(program, batch.members)


def _key(collective: Collective) -> Any:
    combiner = collective.combiner if collective.kind != "all_gather" else ""
    if combiner is None:
        return None
    element = read_type(collective.operand).element
    return collective.kind, combiner, element, collective.groups, collective.op.block


class _Batch:
    """Collectives that can be one, at the place of the last."""

    def __init__(self) -> None:
        self.members: list[Collective] = []
        self._bytes = 0.0
        self._first_use: Any = None

    def add(self, collective: Collective) -> None:
        self.members.append(collective)
        self._bytes += collective.bytes
        for use in _users_in_block(collective):
            if self._first_use is None or use.is_before_in_block(self._first_use):
                self._first_use = use

    def refuses(self, collective: Collective, limit: int) -> str:
        """Why the collective, which stands after the members, cannot join them; nothing if it can."""
        if self._bytes + collective.bytes > limit:
            return f"together they would have more than {limit} bytes"
        first = self._first_use
        if first is not None and (first == collective.op or first.is_before_in_block(collective.op)):
            return "a result of these is used before"
        return ""


def _users_in_block(collective: Collective) -> list[Any]:
    """The operations of the collective's block that use its result, themselves or in their regions."""
    block, found = collective.op.block, []
    for use in collective.result.uses:
        op = use.owner.operation
        while op.block != block:
            op = op.parent.operation
        found.append(op)
    return found


def _combine(program: DeviceProgram, members: list[Collective]) -> None:
    last = members[-1]
    emit = program.emitter(last.op)
    count = size_of(last.axes)
    rows = [_row(emit, member, count) for member in members]
    sizes = [read_type(row).shape[-1] for row in rows]
    joined = _concatenate(emit, rows, sum(sizes))
    causes = dict.fromkeys(member.cause.text for member in members)
    cause = Cause("; ".join(causes), last.op.location)
    if last.kind == "all_gather":
        made = emit.all_gather(joined, 0, last.axes, cause)
    elif last.kind == "all_reduce":
        made = emit.all_reduce(joined, last.axes, last.combiner or "add", cause)
    else:
        made = emit.reduce_scatter(joined, 0, last.axes, last.combiner or "add", cause)
    start = 0
    for member, size in zip(members, sizes, strict=True):
        part = _columns(emit, made, start, size)
        member.result.replace_all_uses_with(_restore(emit, member, part, count))
        start += size
    for member in members:
        member.op.erase()
    program.changed()


def _row(emit: CollectiveBuilder, member: Collective, count: int) -> Any:
    """The operand as `[1, elements]`, or as `[devices, elements of a shard]` if it will be scattered."""
    value = member.operand
    shape = read_type(value).shape
    if member.kind != "reduce_scatter":
        return emit.reshape(value, (1, math.prod(shape)))
    dim = member.dimension("scatter_dimension")
    value = emit.reshape(value, (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :]))
    order = [dim, *(d for d in range(len(shape) + 1) if d != dim)]
    return emit.reshape(emit.transpose(value, order), (count, math.prod(shape) // count))


def _restore(emit: CollectiveBuilder, member: Collective, part: Any, count: int) -> Any:
    """From `[1, elements]`, or `[devices, elements]` if it was gathered, to the member's result."""
    shape = read_type(member.result).shape
    if member.kind != "all_gather":
        return emit.reshape(part, shape)
    dim = member.dimension("all_gather_dim")
    local = read_type(member.operand).shape
    part = emit.reshape(part, (count, *local))
    order = [*range(1, dim + 1), 0, *range(dim + 1, len(local) + 1)]
    return emit.reshape(emit.transpose(part, order), shape)


def _concatenate(emit: CollectiveBuilder, rows: list[Any], columns: int) -> Any:
    type_ = read_type(rows[0])
    result = TensorType((type_.shape[0], columns), type_.element)
    return emit.op("stablehlo.concatenate", rows, [result], dimension=emit.i64(1))


def _columns(emit: CollectiveBuilder, value: Any, start: int, size: int) -> Any:
    type_ = read_type(value)
    rows = type_.shape[0]
    return emit.op(
        "stablehlo.slice",
        [value],
        [TensorType((rows, size), type_.element)],
        start_indices=emit.i64s([0, start]),
        limit_indices=emit.i64s([rows, start + size]),
        strides=emit.i64s([1, 1]),
    )
