"""Collective permutes that do nothing, follow each other, or could be one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gspmd.transforms.ir.groups import Ids
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.uniformity import Uniformity

Pairs = Sequence[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class SimplifyPermutes(CollectivePass):
    """Remove, compose and merge collective permutes.

    Permutes that keep every shard in place, that no device receives, or of values that are the same on all devices go.
    One permute after another becomes their composition, and sums of permutes of one value from and to different devices
    become one permute.
    """

    argument = "gspmd-simplify-permutes"
    summary = "Remove, compose and merge collective permutes"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        permutes = program.collectives("collective_permute")
        known = {permute.result: permute for permute in permutes}
        uniform = Uniformity(program.module, program.mesh) if permutes else None
        for permute in permutes:
            if uniform is not None and not permute.is_gone:
                _simplify(program, permute, known, uniform)


def _simplify(
    program: DeviceProgram, permute: LocalCollective, known: dict[Value, LocalCollective], uniform: Uniformity
) -> None:
    devices = program.mesh.size if program.mesh else 0
    before = known.get(permute.operand)
    if before is not None:
        if before.result.only_user is permute.op:
            del known[before.result]
            permute = _again(program, permute, before.operand, compose(before.pairs, permute.pairs), known)
            before.erase()
            program.changed()
        else:
            program.decline(permute.op, "composed with the permute before", "that one's result is used elsewhere too")
    pairs = permute.pairs
    if not pairs:
        emit = program.emitter(permute.op)
        _replace(program, permute, emit.constant(permute.result.type, "zero"), known)
    elif _moves_nothing(pairs, devices) or (len(pairs) == devices and uniform.on_all(permute.operand)):
        _replace(program, permute, permute.operand, known)
    else:
        _merge(program, permute, known)


def compose(first: Pairs, second: Pairs) -> list[tuple[int, int]]:
    """The pairs of two permutes, one after the other.

    A device that has no source in the first one holds zeros, so what it sends in the second becomes no pair.
    """
    source_of = {target: source for source, target in first}
    return [(source_of[via], target) for via, target in second if via in source_of]


def _moves_nothing(pairs: Pairs, devices: int) -> bool:
    return len(pairs) == devices and all(source == target for source, target in pairs)


def _again(
    program: DeviceProgram, permute: LocalCollective, value: Value, pairs: Pairs, known: dict[Value, LocalCollective]
) -> LocalCollective:
    emit = program.emitter(permute.op)
    made = emit.collective_permute(value, _table(pairs), permute.axes, permute.cause)
    _replace(program, permute, made, known)
    created = known[made] = LocalCollective(made.maker, "collective_permute", program.mesh)
    return created


def _replace(
    program: DeviceProgram, permute: LocalCollective, value: Value, known: dict[Value, LocalCollective]
) -> None:
    permute.result.replace_all_uses_with(value)
    del known[permute.result]
    permute.erase()
    program.changed()


def _merge(program: DeviceProgram, permute: LocalCollective, known: dict[Value, LocalCollective]) -> None:
    """One permute for the sum of two of one value, where no device sends or receives twice."""
    add = permute.result.only_user
    if add is None or add.name != "stablehlo.add" or add.operands[0] == add.operands[1]:
        return
    other = known.get(add.operands[1] if add.operands[0] == permute.result else add.operands[0])
    if other is None or other.operand != permute.operand or other.op.block != permute.op.block:
        return
    what = "merged with the permute that is added to it"
    if other.result.only_user is not add:
        program.decline(permute.op, what, "that one's result is used elsewhere too")
        return
    both = sorted(permute.pairs + other.pairs)
    if any(len({pair[end] for pair in both}) < len(both) for end in (0, 1)):
        program.decline(permute.op, what, "a device would send or receive twice")
        return
    emit = program.emitter(add)
    made = emit.collective_permute(permute.operand, _table(both), permute.axes, permute.cause)
    known[made] = LocalCollective(made.maker, "collective_permute", program.mesh)
    add.replace([made])
    for collective in (permute, other):
        del known[collective.result]
        collective.erase()
    program.changed()


def _table(pairs: Pairs) -> Ids:
    return np.array(pairs, np.int64).reshape(-1, 2)
