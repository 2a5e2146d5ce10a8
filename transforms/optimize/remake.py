"""Permutes of what the receiver can compute as the sender does: it is computed there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gspmd.dialect.mesh import Mesh
from gspmd.transforms.analysis.divergence import Names
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.groups import Ids
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ops import traits_of, traits_of_op
from gspmd.transforms.ops.traits import MOVED
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.uniformity import Uniformity

_MAX_CHAIN = 64  # operations that are looked at for one permute
_PARTITION, _PERMUTE = "stablehlo.partition_id", "stablehlo.collective_permute"
# Memory is some hundred times faster than links. What is computed twice reads and writes no more than this many times
# the bytes that the permute sends.
_WORTH = 8


@dataclasses.dataclass(frozen=True)
class RemakePermuted(CollectivePass):
    """Compute what a permute brings, where the sender makes it of nothing that the receiver lacks.

    That is so if it is made of values that both have and of the partition id: a device then takes the id of the one
    whose shard it gets, and zeros where it gets nothing. So the halo of what all devices have whole is cut from that.
    What other operations use, too, is computed twice if it is small and contracts nothing. If it is made of what was
    permuted before, the two permutes are one, in the place of the first.
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
            uniform = uniform or Uniformity(program.module, mesh)
            chain = _chain(permute.operand, uniform, _moved_along(_or_itself(senders), mesh))
            if (senders < 0).any() and any(op.name == _PERMUTE for op in chain):
                continue
            if chain and _is_worth(chain, permute):
                _remake(program, permute, chain, senders)


def _senders(permute: LocalCollective, mesh: Mesh) -> Ids:
    """By device: whose shard it gets, -1 where it gets nothing."""
    found = np.full(mesh.size, -1)
    for source, target in permute.pairs:
        found[target] = source
    return found


def _or_itself(senders: Ids) -> Ids:
    """The senders, and of a device that gets nothing itself."""
    return np.where(senders >= 0, senders, np.arange(len(senders)))


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

    Permutes are among them, but not what is made for these. None at all where it is made of more, or by too many.
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
        found[op] = None
        if op.name == _PARTITION or op.name == _PERMUTE:
            continue
        if (op.regions and _reads_outside(op)) or not traits_of_op(op).is_plain:
            return []
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
    if any(op.name == _PERMUTE or _contracts(op) for op in twice):
        return False
    return sum(_touched(op, chain) for op in twice) <= _WORTH * permute.bytes


def _touched(op: Operation, chain: list[Operation]) -> float:
    """Bytes that an operation of a chain reads and writes; none if it only cuts a part of which the chain cuts less."""
    if not _cuts(op):
        return sum(bytes_of(value.type) for value in (*op.operands, *op.results) if value.type.is_tensor)
    users = [user for user in op.result.users if user in chain]
    return 0.0 if users and all(_cuts(user) for user in users) else 2 * bytes_of(op.result.type)


def _cuts(op: Operation) -> bool:
    """Whether an operation only takes some of the elements of its operand."""
    if traits_of(op.name).flops is not MOVED or not op.operands or len(op.results) != 1:
        return False
    return bytes_of(op.result.type) < bytes_of(op.operands[0].type)


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
            made[op.result] = emit.partition_named(_or_itself(senders))
        elif op.name == _PERMUTE:
            made[op.result] = _permuted_twice(emit, LocalCollective(op, "collective_permute", emit.mesh), senders)
        else:
            op.clone(made).insert(Point.at(permute.op))
    found = made[permute.operand]
    if (senders < 0).any():
        found = _zero_except(emit, found, senders >= 0)
    permute.result.replace_all_uses_with(found)
    permute.erase()
    for op in reversed(chain):
        if not any(result.is_used for result in op.results):
            op.erase()
    program.changed()


def _zero_except(emit: Emitter, value: Value, devices: npt.NDArray[np.bool_]) -> Value:
    """A value on these devices, and zeros on the others."""
    is_one = emit.partition_named(devices.astype(np.int64))
    test = emit.compare(is_one, "NE", emit.constant(is_one.type, 0))
    return emit.op("stablehlo.select", [test, value, emit.constant(value.type, 0)], [value.type])


def _permuted_twice(emit: Emitter, first: LocalCollective, second: Ids) -> Value:
    """The operand of a permute, permuted so and then so that each device gets what the one in `second` has of it."""
    senders = _senders(first, emit.mesh)[second]
    targets = np.flatnonzero(senders >= 0)
    moved = _moved_along(np.where(senders >= 0, senders, np.arange(len(senders))), emit.mesh)
    if not moved and len(targets) == len(senders):
        return first.operand
    axes = tuple(axis for axis in emit.mesh.all_axes() if axis.name in moved) or first.axes
    return emit.collective_permute(first.operand, np.stack([senders[targets], targets], axis=1), axes, first.cause)
