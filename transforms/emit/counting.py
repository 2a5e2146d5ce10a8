"""Building a program only to count its communication."""

from __future__ import annotations

import functools
from typing import NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, overlap, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.collective_builder import Participants
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.groups import reach_of
from gspmd.transforms.ir.operations import Attribute, Block, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware, collective_time, sent_bytes
from gspmd.transforms.parsing.mlir import new_context


class Sent(NamedTuple):
    """A collective: its name in StableHLO, the bytes of its operand, and its axes.

    `reach` is the distance of a permute along an axis.
    """

    kind: str
    local_bytes: float
    axes: Axes
    reach: int = 1

    @property
    def devices(self) -> int:
        """The number of devices in a group."""
        return size_of(self.axes)

    @property
    def bytes(self) -> float:
        """The bytes sent per device."""
        return sent_bytes(self.kind, self.local_bytes, self.devices)

    def time_s(self, hardware: Hardware) -> float:
        """The time in seconds."""
        return collective_time(self.kind, self.local_bytes, self.devices, hardware, self.axes, self.reach)


@functools.lru_cache(maxsize=4096)
def mesh_along(mesh: Mesh, used: Axes) -> Mesh:
    """The mesh of these axes only: devices along the others do the same."""
    return Mesh(tuple((axis.name, axis.size) for axis in mesh.all_axes() if overlap([axis], used)))


@functools.cache
def counting_context() -> ir.Context:
    """A context for operations outside any program."""
    return new_context()


class CountingEmitter(Emitter):
    """An emitter that records the traffic of collectives in `sent` instead of building them."""

    def __init__(self, context: ir.Context, mesh: Mesh, entry: Block) -> None:
        super().__init__(context, mesh, entry)
        self.sent: list[Sent] = []

    def _send(
        self, kind: str, value: Value, result: TensorType, who: Participants, **attributes: Attribute | None
    ) -> Value:
        reach = 1 if who.pairs is None else reach_of(self.mesh, who.pairs)
        self.sent.append(Sent(kind, bytes_of(value.type), who.axes, reach))
        return self.create(f"stablehlo.{kind}", [value], [result], {}).result
