"""The collectives of a partitioned module: their kinds, axes, bytes and causes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_bare_axes
from gspmd.dialect.own_attributes import AXES, CAUSE
from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.collective_groups import kind_of, pairs_of
from gspmd.transforms.ir.collective_notes import axes_of
from gspmd.transforms.ir.groups import reach_of
from gspmd.transforms.ir.modules import functions
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.ir.program import CONTROL_FLOW, WHILE
from gspmd.transforms.ir.ragged_call import is_ragged
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.machine.cost import Hardware, collective_time, sent_bytes
from gspmd.transforms.machine.targets import Traffic
from gspmd.transforms.parsing.attribute_text import required_text
from gspmd.transforms.parsing.mlir import source_location


@dataclasses.dataclass(frozen=True, slots=True)
class Collective:
    """A collective of the program.

    `kind` is the name in StableHLO, or `ragged_all_to_all`; `axes` are the mesh axes, written `"x", "y"`; `bytes` is
    the number of bytes that a device sends in one run of a ring algorithm; `count` is the number of runs in one call of
    the program, None if a trip count is unknown; `cause` is the reason for it; `location` is the operation that needs
    it. With `at_most`, the traffic depends on data, and `bytes` is an upper bound of what a device sends on average.
    For a ragged all-to-all whose slices do not overlap, that is the smaller of operand and output.
    """

    kind: str
    axes: str
    bytes: int
    count: int | None
    cause: str
    location: SourceLocation | None
    at_most: bool = False


def collectives_of(module: ir.Module, mesh: Mesh) -> tuple[Collective, ...]:
    """Every collective of a partitioned module, in program order."""
    return tuple(collective for _, collective in collective_operations(model_of(module), mesh))


def collective_operations(module: Operation, mesh: Mesh) -> Iterator[tuple[Operation, Collective]]:
    """The operation and the description of every collective, in program order."""
    for function in functions(module):
        yield from _in_block(function.regions[0], mesh, 1)


def time_of(op: Operation, collective: Collective, mesh: Mesh, hardware: Hardware) -> float:
    """Seconds of one run of a collective."""
    local, axes = _operand_bytes(op), _axes_of(collective, mesh)
    return collective_time(collective.kind, local, size_of(axes), hardware, axes, _reach(op, mesh))


def traffic_of(module: Operation, mesh: Mesh) -> tuple[Traffic, ...]:
    """The traffic of the collectives, equal ones grouped, from which the mesh is placed on a torus."""
    runs: Counter[tuple[str, float, Axes, int]] = Counter()
    for op, collective in collective_operations(module, mesh):
        axes = _axes_of(collective, mesh)
        runs[collective.kind, _operand_bytes(op), axes, _reach(op, mesh)] += collective.count or 1
    return tuple(Traffic(kind, size, axes, count, reach) for (kind, size, axes, reach), count in runs.items())


def _reach(op: Operation, mesh: Mesh) -> int:
    """The distance of a permute's messages along an axis."""
    return reach_of(mesh, pairs_of(op)) if kind_of(op) == "collective_permute" else 1


def _axes_of(collective: Collective, mesh: Mesh) -> Axes:
    return parse_bare_axes(collective.axes, mesh) if collective.axes else mesh.all_axes()


def _operand_bytes(op: Operation) -> float:
    """The operand bytes of a collective on a device; for a ragged one, the size of the smaller buffer."""
    sizes = [bytes_of(operand.type) for operand in op.operands]
    return min(sizes[:2]) if is_ragged(op) else sum(sizes)


def _in_block(block: Block, mesh: Mesh, count: int | None) -> Iterator[tuple[Operation, Collective]]:
    for op in block:
        kind = kind_of(op)
        if kind is not None:
            yield op, _read(op, kind, mesh, count)
        elif op.name in CONTROL_FLOW:
            inner = count
            if op.name == WHILE:
                trips = trip_count(op)
                inner = None if trips is None or count is None else count * trips
            for region in op.regions:
                yield from _in_block(region, mesh, inner)


def _read(op: Operation, kind: str, mesh: Mesh, count: int | None) -> Collective:
    attributes = op.attributes
    axes = axes_of(attributes, mesh) or ()
    local = _operand_bytes(op)
    cause = required_text(attributes, CAUSE) if CAUSE in attributes else ""
    text = required_text(attributes, AXES) if AXES in attributes else ""
    devices = size_of(axes) if axes else mesh.size
    sent = round(sent_bytes(kind, local, devices))
    return Collective(kind, text, sent, count, cause, source_location(op.location), at_most=is_ragged(op))
