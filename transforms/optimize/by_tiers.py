"""Reductions and gathers over devices of several slices or hosts, in steps inside each and steps across."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.axes import Axes, size_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware, collective_time, tiers
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram, LocalCollective
from gspmd.transforms.optimize.whole_tiles import stays_scatter
from gspmd.transforms.passes import same_option

_DIMENSION = {"reduce_scatter": "scatter_dimension", "all_gather": "all_gather_dim"}


@dataclasses.dataclass(frozen=True)
class CollectByTiers(CollectivePass):
    """Reduce and gather in two steps what crosses the network between slices or hosts: inside each of them, and across.

    A reduction is a reduce-scatter inside, after which each device has a part, and only that goes over the slow
    network. An all-reduce then gathers the parts inside. A gather is one across of each device's own part, and then one
    inside. That takes less time where the network is slow enough and the value large enough.
    """

    argument = "gspmd-collect-by-tiers"
    summary = "Reduce and gather over fast links and over the network between slices or hosts in steps of their own"

    target: str = same_option(CollectiveMatmul, "target")

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        candidates = program.collectives("all_reduce", *_DIMENSION)
        hardware = planned_for(self.target if candidates else "", program.mesh)
        for candidate in candidates:
            found = _InTiers.of(program, candidate, hardware)
            if found is None:
                continue
            if found.dim is None:
                why = f"no dimension is a multiple of the {size_of(found.inside)} devices of a domain"
                program.decline(candidate.op, "reduced in tiers", why)
            elif found.seconds(hardware) < _seconds(candidate.kind, candidate.bytes, candidate.axes, hardware):
                emit = program.emitter(candidate.op)
                candidate.op.replace([found.emitted(emit)])
                program.changed()


@dataclasses.dataclass(frozen=True, slots=True)
class _InTiers:
    """A collective over axes inside domains and outside.

    `dim` is the dimension that is scattered or gathered inside; None where an all-reduce has none that divides.
    """

    collective: LocalCollective
    inside: Axes
    outside: Axes
    dim: int | None

    @staticmethod
    def of(program: DeviceProgram, collective: LocalCollective, hardware: Hardware) -> _InTiers | None:
        """The axes of a collective; None if all are inside, or all outside, or if its groups are not axes."""
        inside, outside = tiers(collective.axes, hardware)
        if not (inside and outside) or not program.is_along_axes(collective):
            return None
        kind = collective.kind
        if kind != "all_gather" and collective.combiner is None:
            return None
        if kind == "all_reduce":
            return _InTiers(collective, inside, outside, _dim(collective.operand.type, inside, hardware))
        return _InTiers(collective, inside, outside, collective.dimension(_DIMENSION[kind]))

    def seconds(self, hardware: Hardware) -> float:
        """The seconds of all its steps."""
        assert self.dim is not None
        whole, kind = self.collective.bytes, self.collective.kind
        moving_s = 2 * self.collective.whole_bytes / hardware.memory_bytes_per_s if self._moves else 0.0
        if kind == "all_gather":
            row = whole * size_of(self.outside)
            return moving_s + _seconds(kind, whole, self.outside, hardware) + _seconds(kind, row, self.inside, hardware)
        part, type_ = whole / size_of(self.inside), self.collective.operand.type
        scatter = "reduce_scatter" if _is_kept(type_, self.dim, self.inside, hardware) else "all_reduce"
        found = _seconds(scatter, whole, self.inside, hardware) + _seconds(kind, part, self.outside, hardware)
        return found + (_seconds("all_gather", part, self.inside, hardware) if kind == "all_reduce" else moving_s)

    def emitted(self, emit: Emitter) -> Value:
        """The result, by its steps."""
        assert self.dim is not None
        value, dim, cause = self.collective.operand, self.dim, self.collective.cause
        if self.collective.kind == "all_reduce":
            combiner = self._combiner
            part = emit.reduce_scatter(value, dim, self.inside, combiner, cause)
            part = emit.all_reduce(part, self.outside, combiner, cause)
            return emit.all_gather(part, dim, self.inside, cause)
        return self._gathered(emit, dim) if self.collective.kind == "all_gather" else self._scattered(emit, dim)

    def _gathered(self, emit: Emitter, dim: int) -> Value:
        """Both tiers are a dimension before the one that is gathered, and their parts are put in order behind."""
        value, cause = self.collective.operand, self.collective.cause
        before, behind = value.type.shape[:dim], value.type.shape[dim:]
        value = emit.reshape(value, (*before, *(1 for _ in self._tiers), *behind))
        for tier in (self.outside, self.inside):
            value = emit.all_gather(value, dim + self._tiers.index(tier), tier, cause)
        value = emit.reshape(value, (*before, *(part.size for tier in self._tiers for part in tier), *behind))
        order = [self._by_tier.index(part) for part in self._in_order]
        return emit.reshape(_transposed(emit, value, dim, order), self.collective.result.type.shape)

    def _scattered(self, emit: Emitter, dim: int) -> Value:
        """The inverse of it."""
        value, cause, result = self.collective.operand, self.collective.cause, self.collective.result.type.shape
        before, behind = result[:dim], result[dim:]
        value = emit.reshape(value, (*before, *(part.size for part in self._in_order), *behind))
        order = [self._in_order.index(part) for part in self._by_tier]
        value = emit.reshape(_transposed(emit, value, dim, order), (*before, *map(size_of, self._tiers), *behind))
        for tier in (self.inside, self.outside):
            value = emit.reduce_scatter(value, dim + self._tiers.index(tier), tier, self._combiner, cause)
        return emit.reshape(value, result)

    @property
    def _in_order(self) -> Axes:
        """The parts of either tier, in the order of the collective's axes."""
        parts = (*self.inside, *self.outside)
        return tuple(part for axis in self.collective.axes for part in sorted(p for p in parts if p.overlaps(axis)))

    @property
    def _tiers(self) -> tuple[Axes, Axes]:
        """First the one that the collective's axes begin with."""
        is_outside_first = self._in_order[0] in self.outside
        return (self.outside, self.inside) if is_outside_first else (self.inside, self.outside)

    @property
    def _by_tier(self) -> Axes:
        return (*self._tiers[0], *self._tiers[1])

    @property
    def _moves(self) -> bool:
        """Whether parts that are sent together do not lie together."""
        return self.collective.kind != "all_reduce" and self._in_order != self._by_tier

    @property
    def _combiner(self) -> str:
        assert self.collective.combiner is not None
        return self.collective.combiner


def _transposed(emit: Emitter, value: Value, dim: int, order: list[int]) -> Value:
    """The dimensions from `dim` on in another order."""
    if order == sorted(order):
        return value
    rank, behind = len(value.type.shape), dim + len(order)
    return emit.transpose(value, [*range(dim), *(dim + place for place in order), *range(behind, rank)])


def _dim(type_: TensorType, inside: Axes, hardware: Hardware) -> int | None:
    """A dimension to scatter over `inside`: of those that divide, the first along which compilers keep it."""
    dims = [dim for dim, n in enumerate(type_.shape) if n and n % size_of(inside) == 0]
    return min(dims, key=lambda dim: not _is_kept(type_, dim, inside, hardware), default=None)


def _is_kept(type_: TensorType, dim: int, axes: Axes, hardware: Hardware) -> bool:
    """Whether a reduce-scatter along a dimension stays one."""
    shape = tuple(n // size_of(axes) if at == dim else n for at, n in enumerate(type_.shape))
    return stays_scatter(hardware.scatter_tiles, TensorType(shape, type_.element), dim)


def _seconds(kind: str, local_bytes: float, axes: Axes, hardware: Hardware) -> float:
    return collective_time(kind, local_bytes, size_of(axes), hardware, axes)
