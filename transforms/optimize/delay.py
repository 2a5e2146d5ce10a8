"""Reductions moved behind sums and linear operations, so that what is added is reduced once."""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.axes import canonical, overlap
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ops import traits_of
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective, splat_number
from gspmd.transforms.optimize.uniformity import Uniformity
from gspmd.transforms.passes import option

_STEPS = 32  # operations that are looked through behind a reduction


@dataclasses.dataclass(frozen=True)
class DelayReductions(CollectivePass):
    """Add first and all-reduce once where sums over the same devices are added.

    Operations that are linear in the sums may stand in between. A sum that is summed over other axes is reduced over
    both at once.
    """

    argument = "gspmd-delay-reductions"
    summary = "Reduce sums of reductions, and reductions of reductions, once"

    assume_finite: bool = option(False, "take numbers that floats are scaled with for finite, divisors for not zero")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        scales = Scales(program, self.assume_finite)
        work = program.collectives("all_reduce")
        known = {reduce.op: reduce for reduce in work}
        while work:
            reduce = work.pop()
            if not reduce.is_gone:
                made = _delay(program, reduce, known, scales)
                if made is not None:
                    known[made.op] = made
                    work.append(made)


class Scales:
    """Which runtime scalars the sum of addends may be scaled with in place of each addend, or the other way round.

    They must be the same on all devices. With an infinity, a sum that is finite becomes infinite where two addends of
    opposite signs become NaN together: only integers do without `assume_finite`.
    """

    def __init__(self, program: DeviceProgram, assume_finite: bool) -> None:
        self._program, self._assume_finite = program, assume_finite
        self._changes = -1
        self._uniformity: Uniformity | None = None

    def allow(self, factor: Value) -> bool:
        op = factor.op
        spread = op is not None and op.name == "stablehlo.broadcast_in_dim" and not op.operands[0].type.rank
        if not (spread or not factor.type.rank):
            return False
        if not (self._assume_finite or factor.type.element.startswith(("i", "ui"))):
            return False
        program = self._program
        if program.mesh is None:
            return False
        if self._uniformity is None or self._changes != program.changes:
            self._changes, self._uniformity = program.changes, Uniformity(program.module, program.mesh)
        return self._uniformity.on_all(op.operands[0] if op is not None and spread else factor)


def _delay(
    program: DeviceProgram, reduce: LocalCollective, known: dict[Operation, LocalCollective], scales: Scales
) -> LocalCollective | None:
    """The reduction that takes the place of this one and of another, if there is one."""
    path, end = _linear_path(reduce, scales)
    if end is None or (not traits_of(end.name).is_sum and end not in known):
        return None
    if end.block != reduce.op.block or reduce.combiner != "add" or not reduce.axes:
        return None
    if traits_of(end.name).is_sum:
        return _reduce_sum(program, reduce, path, end, known, scales)
    outer = known[end]
    return _reduce_both(program, reduce, outer, known) if outer.combiner == "add" else None


def _linear_path(reduce: LocalCollective, scales: Scales) -> tuple[list[Operation], Operation | None]:
    """Linear operations that alone use the reduction, and what uses the last of them."""
    path: list[Operation] = []
    value = reduce.result
    while len(path) < _STEPS:
        following = value.only_user
        if following is None or not is_linear(following, value, scales):
            return path, following
        path.append(following)
        value = following.results[0]
    return path, None


def is_linear(op: Operation, value: Value, scales: Scales | None = None) -> bool:
    """Whether a unary operation, or a multiplication by a finite number, gives the sum of its results on addends.

    `scales` says for which runtime scalars this may be taken for granted.
    """
    traits = traits_of(op.name)
    if not traits.is_linear_image:
        return False
    if traits.floats_only and not value.type.element.startswith(("f", "bf")):
        return False
    for (index,) in traits.linear:
        others = [other for place, other in enumerate(op.operands) if place != index]
        if op.operands[index] == value and all(other != value and _scales(other, scales) for other in others):
            return True
    return False


def _scales(factor: Value, scales: Scales | None) -> bool:
    number = splat_number(factor)
    if number is not None:
        return math.isfinite(number) and number != 0
    return scales is not None and scales.allow(factor)


def _reduce_sum(
    program: DeviceProgram,
    reduce: LocalCollective,
    path: list[Operation],
    end: Operation,
    known: dict[Operation, LocalCollective],
    scales: Scales,
) -> LocalCollective | None:
    left, right = end.operands
    mine = path[-1].results[0] if path else reduce.result
    if left == right:
        return None  # one reduction already
    other = _reduction_before(right if left == mine else left, known, scales)
    if other is None:
        return None
    if other.groups != reduce.groups or other.combiner != "add":
        program.decline(end, "reduced once", "its operands are reduced over different axes")
        return None
    shared = _shared_between(other, end, scales)
    if shared:
        program.decline(end, "reduced once", shared)
        return None
    for collective in (reduce, other):
        collective.result.replace_all_uses_with(collective.operand)
    value = _reduce_after(program, end, reduce)
    for collective in (reduce, other):
        del known[collective.op]
        collective.erase()
    program.changed()
    return value


def _reduction_before(value: Value, known: dict[Operation, LocalCollective], scales: Scales) -> LocalCollective | None:
    """The reduction that the value is a linear image of."""
    for _ in range(_STEPS):
        op = value.op
        if op is None:
            return None
        if op in known:
            return known[op]
        operand = next((o for o in op.operands if is_linear(op, o, scales)), None)
        if operand is None:
            return None
        value = operand
    return None


def _shared_between(other: LocalCollective, end: Operation, scales: Scales) -> str:
    """Why the other reduction is needed elsewhere; empty if it is not."""
    path, found = _linear_path(other, scales)
    if found is not None and found == end:
        return "" if other.op.block == end.block else "one operand is reduced outside the loop"
    where = path[-1].results[0] if path else other.result
    count = len(where.users)
    return f"one of its operands has {count} users" if count > 1 else "its operands are reduced in different blocks"


def _reduce_after(program: DeviceProgram, end: Operation, reduce: LocalCollective) -> LocalCollective:
    """Reduce what `end` computes from addends."""
    emit = program.emitter(end)
    emit.point = Point.after(end)
    partial = end.results[0]
    value = emit.all_reduce(partial, reduce.axes, "add", reduce.cause)
    partial.replace_all_uses_with(value, [value.op])
    return LocalCollective(value.maker, "all_reduce", program.mesh)


def _reduce_both(
    program: DeviceProgram, reduce: LocalCollective, outer: LocalCollective, known: dict[Operation, LocalCollective]
) -> LocalCollective | None:
    """One reduction over the axes of both; the outer one's other operands are the same everywhere."""
    if overlap(reduce.axes, outer.axes) or not (program.is_along_axes(reduce) and program.is_along_axes(outer)):
        return None
    assert program.mesh is not None
    axes = canonical(program.mesh.sorted(reduce.axes + outer.axes))
    reduce.result.replace_all_uses_with(reduce.operand)
    emit = program.emitter(outer.op)
    value = emit.all_reduce(outer.operand, axes, "add", outer.cause)
    outer.result.replace_all_uses_with(value)
    for collective in (reduce, outer):
        del known[collective.op]
        collective.erase()
    program.changed()
    return LocalCollective(value.maker, "all_reduce", program.mesh)
