"""Permutes of what the receiver can compute as the sender does: it is computed there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from gspmd.dialect.mesh import Mesh
from gspmd.transforms.analysis.divergence import Names
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.groups import Ids
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ops import traits_of, traits_of_op
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.uniformity import Uniformity

_MAX_CHAIN = 64  # operations that are looked at for one permute
_PARTITION = "stablehlo.partition_id"
# Memory is some hundred times faster than links. What is computed twice reads and writes no more than this many times
# the bytes that the permute sends.
_WORTH = 8


@dataclasses.dataclass(frozen=True)
class RemakePermuted(CollectivePass):
    """Compute what a permute brings, where the sender makes it of nothing that the receiver lacks.

    That is so if it is made of values that both have and of the partition id: a device then takes the id of the one
    whose shard it gets. What other operations use, too, is computed twice if it is small and contracts nothing.
    """

    argument = "gspmd-remake-permuted"
    summary = "Compute on the receiver what a permute brings, where all that it is made of is there"

    def apply(self, program: DeviceProgram) -> None:
        mesh = program.mesh
        permutes = program.collectives("collective_permute") if mesh is not None else []
        uniform: Uniformity | None = None
        for permute in permutes:
            assert mesh is not None
            senders = _senders(permute, mesh)
            if senders is None:
                continue
            uniform = uniform or Uniformity(program.module, mesh)
            chain = _chain(permute.operand, uniform, _moved_along(senders, mesh))
            if chain and _is_worth(chain, permute):
                _remake(program, permute, chain, senders)


def _senders(permute: LocalCollective, mesh: Mesh) -> Ids | None:
    """By device: whose shard it gets; None where some get nothing."""
    pairs = permute.pairs
    if len(pairs) != mesh.size:
        return None
    found = np.empty(mesh.size, np.int64)
    for source, target in pairs:
        found[target] = source
    return found


def _moved_along(senders: Ids, mesh: Mesh) -> Names:
    """The mesh axes along which a device and the one whose shard it gets are at different places."""
    ids = np.array(mesh.device_ids, np.int64) if mesh.device_ids else np.arange(mesh.size)
    positions = np.empty(mesh.size, np.int64)
    positions[ids] = np.arange(mesh.size)
    places = np.unravel_index(positions, [size for _, size in mesh.axes])
    return frozenset(
        name for (name, _), place in zip(mesh.axes, places, strict=True) if (place != place[senders]).any()
    )


def _chain(value: Value, uniform: Uniformity, axes: Names) -> list[Operation]:
    """The operations, in their order, that make a value of what does not vary along these axes and of partition ids.

    None at all where it is made of more, or by too many.
    """
    found: dict[Operation, None] = {}
    pending = [value]
    while pending:
        each = pending.pop()
        op = each.op
        if op in found or uniform.varying(each).isdisjoint(axes):
            continue
        if op is None or op.block is not value.block or len(found) == _MAX_CHAIN:
            return []
        if op.name != _PARTITION and (op.regions and _reads_outside(op) or not traits_of_op(op).is_plain):
            return []
        found[op] = None
        pending += op.operands
    value.block.number()
    return sorted(found, key=lambda op: op.number)


def _reads_outside(op: Operation) -> bool:
    """Whether what is in the regions of an operation reads values around it."""
    blocks = list(op.regions)
    return any(
        operand.block not in blocks or inner.regions
        for block in blocks
        for inner in block
        for operand in inner.operands
    )


def _is_worth(chain: list[Operation], permute: LocalCollective) -> bool:
    """Whether what is computed twice, as others use it, costs little beside what the permute sends."""
    twice = set(_kept(chain, permute))
    if any(_contracts(op) for op in twice):
        return False
    touched = sum(bytes_of(value.type) for op in twice for value in (*op.operands, *op.results) if value.type.is_tensor)
    return touched <= _WORTH * permute.bytes


def _kept(chain: list[Operation], permute: LocalCollective) -> Iterator[Operation]:
    """The operations of a chain that are needed without the permute, too."""
    gone = {permute.op}
    for op in reversed(chain):
        if any(user not in gone for result in op.results for user in result.users):
            yield op
        else:
            gone.add(op)


def _contracts(op: Operation) -> bool:
    counted = traits_of(op.name).flops
    return counted is not None and counted.kind not in ("elementwise", "reduction")


def _remake(program: DeviceProgram, permute: LocalCollective, chain: list[Operation], senders: Ids) -> None:
    emit = program.emitter(permute.op)
    made: dict[Value, Value] = {}
    for op in chain:
        if op.name == _PARTITION:
            made[op.result] = emit.partition_named(senders)
        else:
            op.clone(made).insert(Point.at(permute.op))
    permute.result.replace_all_uses_with(made[permute.operand])
    permute.erase()
    program.changed()
