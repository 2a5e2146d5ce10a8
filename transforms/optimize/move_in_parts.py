"""Values that all devices along some axes have alike, moved along others in parts, and gathered behind that."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from gspmd.dialect.axes import Axes, overlap, size_of
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import WHILE
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.machine.topology import is_topology
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.products import DOT, ProductDims
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective, dim_after, keeps_elements
from gspmd.transforms.optimize.whole_tiles import stays_scatter
from gspmd.transforms.passes import same_option

_STEPS = 8  # operations that are looked through between the two


@dataclasses.dataclass(frozen=True)
class MoveInParts(CollectivePass):
    """Move a part of a value that devices along other axes have too, and gather it where it arrives.

    An all-to-all or a permute of what was all-reduced or all-gathered over other axes sends the same from every device
    along these. As a reduce-scatter, the move of the shards and an all-gather, the sum sends what it sent before, and
    the move that much less. For example, the output of experts that are split over `y` inside is summed over `y`, and
    brought back to the groups over `x` by an all-to-all: of `f32[8,16,32]` over y=8, each device sends an eighth.
    Transposes and elementwise operations may stand in between, which then work on the shards.
    """

    argument = "gspmd-move-in-parts"
    summary = "Move a part of what was reduced or gathered over other axes, and gather it behind"

    target: str = same_option(CollectiveMatmul, "target")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        moves = program.collectives("all_to_all", "collective_permute")
        hardware = planned_for(self.target if moves else "", program.mesh)
        sources = {each.op: each for each in program.collectives("all_reduce", "all_gather")} if moves else {}
        for move in moves:
            found = _MovedValue.before(program, move, sources)
            if found is None or (is_topology(self.target) and _ends_step(move)):
                continue  # at the end of a step, it is hidden where the next step begins, see `permute_motion.py`
            dim = found.dimension()
            if dim is None or not found.is_faster(hardware, dim) or not _keeps_positions(program, move, found.axes):
                continue
            gather = found.move_in_parts(program, dim)
            sources[gather.op] = gather


@dataclasses.dataclass(frozen=True, slots=True)
class _MovedValue:
    """What was reduced or gathered and is moved, and the operations between, of which each is the only user."""

    collective: LocalCollective
    path: tuple[Operation, ...]
    move: LocalCollective

    @staticmethod
    def before(
        program: DeviceProgram, move: LocalCollective, sources: dict[Operation, LocalCollective]
    ) -> _MovedValue | None:
        """What is moved, if that is a sum or is gathered, as `sources` are, and nothing else uses it whole."""
        path: list[Operation] = []
        value = move.operand
        while len(path) < _STEPS:
            op = value.op
            if op is None or op.block != move.op.block or value.only_user is None:
                return None
            source = sources.get(op)
            if source is not None:
                return _MovedValue(source, tuple(reversed(path)), move) if program.is_along_axes(source) else None
            if len(op.operands) != 1 or not keeps_elements(op, op.operands[0]):
                return None
            path.append(op)
            value = op.operands[0]
        return None

    @property
    def axes(self) -> Axes:
        return self.collective.axes

    def move_in_parts(self, program: DeviceProgram, dim: int) -> LocalCollective:
        """Do so with parts along a dimension of the reduced or gathered value; returns the gather behind."""
        emit = program.emitter(self.move.op, self.collective.op.location)
        part, source = self.collective.operand, self.collective
        if source.kind == "all_reduce":
            assert source.combiner is not None
            part = emit.reduce_scatter(part, dim, source.axes, source.combiner, source.cause)
        for op in self.path:
            part, dim = _on_part(emit, op, part, dim)
        part = self.move.of(emit, part, {each: each for each in self.move.resized_dims})
        emit.location = source.op.location
        whole = emit.all_gather(part, dim, source.axes, source.cause)
        self.move.op.replace([whole])
        for op in reversed((source.op, *self.path)):
            op.erase()
        program.changed()
        return LocalCollective(whole.maker, "all_gather", program.mesh)

    def dimension(self) -> int | None:
        """The dimension of the reduced or gathered value that is taken apart, one that is not moved.

        Of a sum, one is preferred that a dot behind does not sum over, so that its result can be gathered instead.
        """
        move, source, devices = self.move, self.collective, size_of(self.axes)
        moved = move.resized_dims
        if source.kind == "all_gather":
            dim = source.dimension("all_gather_dim")
            return None if self._behind(dim) in moved else dim
        if source.combiner is None:
            return None
        shape = source.result.type.shape
        dims = [d for d, n in enumerate(shape) if n and n % devices == 0 and self._behind(d) not in moved]
        dot = move.result.only_user
        if dot is not None and dot.name == DOT and dot.operands[0] != dot.operands[1]:
            free = ProductDims.of(dot).free[0 if dot.operands[0] == move.result else 1]
            dims.sort(key=lambda dim: self._behind(dim) not in free)
        return dims[0] if dims else None

    def _behind(self, dim: int) -> int:
        """A dimension of the reduced or gathered value, as it is when it is moved."""
        return functools.reduce(lambda at, op: dim_after(op, at), self.path, dim)

    def is_faster(self, hardware: Hardware, dim: int) -> bool:
        """Whether it takes less time: a sum in two collectives, and a move of less."""
        source, move, devices = self.collective, self.move, size_of(self.axes)
        groups = size_of(move.axes)

        def seconds(kind: str, local_bytes: float, count: int, axes: Axes) -> float:
            return collective_time(kind, local_bytes, count, hardware, axes, move.reach)

        whole_bytes = bytes_of(move.result.type)
        part_bytes = whole_bytes / devices
        now = seconds(source.kind, source.bytes, devices, source.axes)
        now += seconds(move.kind, whole_bytes, groups, move.axes)
        then = seconds(move.kind, part_bytes, groups, move.axes)
        then += seconds("all_gather", part_bytes, devices, source.axes)
        if source.kind == "all_reduce":
            type_ = source.result.type
            shape = tuple(n // devices if at == dim else n for at, n in enumerate(type_.shape))
            is_kept = stays_scatter(hardware.scatter_tiles, TensorType(shape, type_.element), dim)
            kind = "reduce_scatter" if is_kept else source.kind
            then += seconds(kind, source.bytes, devices, source.axes)
        return then < now


def _on_part(emit: Emitter, op: Operation, part: Value, dim: int) -> tuple[Value, int]:
    """An operation between the two, on a shard of what it had, and the dimension that the shard is one of."""
    emit.location = op.location
    count, dim, whole = part.type.shape[dim], dim_after(op, dim), op.results[0].type
    shape = tuple(count if at == dim else n for at, n in enumerate(whole.shape))
    return emit.op(op.name, [part], [TensorType(shape, whole.element)], **dict(op.attributes)), dim


def _ends_step(move: LocalCollective) -> bool:
    """Whether what is moved is only handed to the next step of a loop."""
    block = move.op.block
    if block is None or block.owner is None or block.owner.name != WHILE:
        return False
    return move.result.only_user is block.terminator


def _keeps_positions(program: DeviceProgram, move: LocalCollective, axes: Axes) -> bool:
    """Whether what a move brings to devices along these axes is what one set of devices along them has, in order."""
    if move.kind == "all_to_all":
        return program.is_along_axes(move) and not overlap(move.axes, axes)
    assert program.mesh is not None
    groups = replica_groups(program.mesh, axes)
    group, position = np.empty((2, groups.size), np.int64)
    group[groups], position[groups] = np.indices(groups.shape)
    sources, targets = np.array(move.pairs, np.int64).reshape(-1, 2).T
    _, counts = np.unique(np.stack([group[sources], group[targets]]), axis=1, return_counts=True)
    return bool((position[sources] == position[targets]).all() and (counts == groups.shape[1]).all())
