"""Building a program that nobody keeps, to know what it sends."""

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
    """One collective: its name in StableHLO, the bytes of its operand, and the axes it runs over.

    `reach` is how far the messages of a permute go along an axis.
    """

    kind: str
    local_bytes: float
    axes: Axes
    reach: int = 1

    @property
    def devices(self) -> int:
        """The devices of a group."""
        return size_of(self.axes)

    @property
    def bytes(self) -> float:
        """Bytes that a device sends."""
        return sent_bytes(self.kind, self.local_bytes, self.devices)

    def time_s(self, hardware: Hardware) -> float:
        """Seconds that it takes."""
        return collective_time(self.kind, self.local_bytes, self.devices, hardware, self.axes, self.reach)


@functools.lru_cache(maxsize=4096)
def mesh_along(mesh: Mesh, used: Axes) -> Mesh:
    """The mesh of the axes that these are of: devices along all others do the same, and need not be counted."""
    return Mesh(tuple((axis.name, axis.size) for axis in mesh.all_axes() if overlap([axis], used)))


@functools.cache
def counting_context() -> ir.Context:
    """A context for what is counted apart from any program."""
    return new_context()


class CountingEmitter(Emitter):
    """Builds as any emitter does, but keeps of collectives only what they send, in `sent`."""

    def __init__(self, context: ir.Context, mesh: Mesh, entry: Block) -> None:
        super().__init__(context, mesh, entry)
        self.sent: list[Sent] = []

    def _send(
        self, kind: str, value: Value, result: TensorType, who: Participants, **attributes: Attribute | None
    ) -> Value:
        reach = 1 if who.pairs is None else reach_of(self.mesh, who.pairs)
        self.sent.append(Sent(kind, bytes_of(value.type), who.axes, reach))
        return self.create(f"stablehlo.{kind}", [value], [result], {}).result
