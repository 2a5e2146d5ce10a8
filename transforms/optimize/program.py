"""The program of one device for the passes of this folder: its collectives, and a builder."""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.group_axes import names_axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh
from gspmd.dialect.own_attributes import CAUSE, MESH
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.collective_builder import KINDS, Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.collective_groups import pairs_of
from gspmd.transforms.ir.collective_notes import axes_of
from gspmd.transforms.ir.groups import reach_of, run_along
from gspmd.transforms.ir.modules import codec_of, context_of, main_function
from gspmd.transforms.ir.operations import Block, Location, Operation, Point, Value
from gspmd.transforms.ir.program import WHILE
from gspmd.transforms.ir.reducers import combiner_of
from gspmd.transforms.optimize.tidy import tidy
from gspmd.transforms.parsing.attribute_text import required_text, text_of
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.passes import Pass
from gspmd.transforms.preconditions import ONE_MAIN

_TRANSPOSE = "stablehlo.transpose"
_NAMES = {f"stablehlo.{kind}": kind for kind in KINDS}


class LocalCollective:
    """A collective operation with one operand; its attributes are read on demand."""

    __slots__ = ("_mesh", "attributes", "kind", "op")

    def __init__(self, op: Operation, kind: str, mesh: Mesh | None) -> None:
        self.op = op
        self.kind = kind
        self.attributes = op.attributes
        self._mesh = mesh

    @property
    def operand(self) -> Value:
        return self.op.operands[0]

    @property
    def result(self) -> Value:
        return self.op.results[0]

    @property
    def axes(self) -> Axes:
        """The mesh axes it runs over, in the order of its groups; empty if unknown."""
        return () if self._mesh is None else axes_of(self.attributes, self._mesh) or ()

    @property
    def cause(self) -> Cause:
        text = self.attributes[CAUSE] if CAUSE in self.attributes else None  # noqa: SIM401
        return Cause(text_of(text), self.op.location)

    @property
    def groups(self) -> ir.Attribute:
        """The replica groups."""
        permute = self.kind == "collective_permute"
        return self.attributes["source_target_pairs" if permute else "replica_groups"]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Source and target partition ids of a permute."""
        return [(int(s), int(t)) for s, t in pairs_of(self.op)]

    @property
    def reach(self) -> int:
        """The largest distance of a permute's messages along an axis; 1 for other kinds."""
        if self.kind != "collective_permute" or self._mesh is None:
            return 1
        return reach_of(self._mesh, pairs_of(self.op))

    def dimension(self, name: str) -> int:
        return int(ir.IntegerAttr(self.attributes[name]).value)

    @property
    def combiner(self) -> str | None:
        """The combiner of a reduction; None if it is not a single operation on both values."""
        return combiner_of(self.op.regions[0])

    @property
    def bytes(self) -> float:
        """Bytes of the operand."""
        return bytes_of(self.operand.type)

    @property
    def whole_bytes(self) -> float:
        """Bytes of the whole gathered or reduced value, not those of a shard."""
        return max(self.bytes, bytes_of(self.result.type))


class _Found(NamedTuple):
    collectives: list[LocalCollective]
    loops: list[Operation]
    transposes: list[Operation]


class DeviceProgram:
    """A module after `gspmd-localize`. `tell`: whether remarks say why candidates are declined."""

    def __init__(self, module: Operation, tell: bool = True) -> None:
        self.module = module
        self.context = context_of(module)
        self.tell = tell
        self.changes = 0
        self.mesh = _mesh_of(module)
        self._found: _Found | None = None
        self._emit: Emitter | None = None
        self._unchanged: dict[Operation, list[bool]] = {}
        self._told: set[tuple[Operation, str]] = set()

    def collectives(self, *kinds: str) -> list[LocalCollective]:
        """The collectives of these kinds (of all kinds if none is given) with one operand, in program order."""
        return [c for c in self._find().collectives if not kinds or c.kind in kinds]

    def loops(self) -> list[Operation]:
        """The while loops, outer loops first."""
        return self._find().loops

    def transposes(self) -> list[Operation]:
        """The transposes, in program order."""
        return self._find().transposes

    def _find(self) -> _Found:
        if self._found is None:
            found = self._found = _Found([], [], [])
            for op in self.module.walk():
                kind = _NAMES.get(op.name)
                if kind is not None:
                    if len(op.operands) == 1:
                        found.collectives.append(LocalCollective(op, kind, self.mesh))
                elif op.name == WHILE:
                    found.loops.append(op)
                elif op.name == _TRANSPOSE:
                    found.transposes.append(op)
        return self._found

    def before_loop(self, value: Value) -> Value:
        """The initial value of a loop argument that the loop carries unchanged; for other values, the value itself.

        Arguments are those of the loop's body or condition. In nested loops, it is the value before the outermost one.
        """
        while isinstance(value.owner, Block):
            loop = value.owner.owner
            if loop is None or loop.name != WHILE:
                return value
            if loop not in self._unchanged:
                body = loop.regions[1]
                pairs = zip(body.arguments, body.terminator.operands, strict=True)
                self._unchanged[loop] = [argument is given for argument, given in pairs]
            if not self._unchanged[loop][value.index]:
                return value
            value = loop.operands[value.index]
        return value

    def changed(self) -> None:
        """Note that the program has changed; everything found in it is searched again."""
        self.changes += 1
        self._found = None
        self._unchanged = {}

    def decline(self, op: Operation, what: str, why: str) -> None:
        """Tell the user why a rewrite that seems possible is not done: `is not <what> because <why>`."""
        if self.tell and (op, why) not in self._told:
            self._told.add((op, why))
            remark(op, f"is not {what} because {why}")

    def emitter(self, before: Operation, location: Location | None = None) -> Emitter:
        """A builder of operations before `before`, with unused channels for collectives."""
        if self._emit is None:
            assert self.mesh is not None
            limit = 0 if _names_axes(self._find()[0]) else 64
            entry = main_function(self.module).regions[0]
            self._emit = Emitter(self.context, self.mesh, entry, limit)
            self._emit.skip_channels(c.op for c in self.collectives())
        self._emit.point = Point.at(before)
        self._emit.location = before.location if location is None else location
        return self._emit

    def is_along_axes(self, collective: LocalCollective) -> bool:
        """Whether the groups are those of its axes, in their order. Collectives that the user wrote may have others."""
        axes = collective.axes
        if not axes or self.mesh is None or collective.kind == "collective_permute":
            return False
        return run_along(collective.groups, self.mesh, axes, self._meshes)

    @functools.cached_property
    def _meshes(self) -> dict[str, Mesh]:
        """The meshes that groups name; there may be one for each device order."""
        return codec_of(self.module).meshes

    def finish(self) -> None:
        """Erase helper operations of the builder, at the end of a pass."""
        if self._emit is not None:
            self._emit.finish()
            self._emit = None

    def tidy(self) -> None:
        """Merge equal operations and drop unused ones."""
        self.finish()
        tidy(self.module)
        self._found = None
        self._unchanged = {}


def _names_axes(collectives: list[LocalCollective]) -> bool:
    """Whether groups are given by mesh axes, judged by the first collective that has groups."""
    grouped = next((c for c in collectives if c.kind != "collective_permute"), None)
    return grouped is not None and names_axes(grouped.groups)


def _mesh_of(module: Operation) -> Mesh | None:
    """The mesh of a partitioned module, with the name that groups use; if it has none, groups have the mesh inline."""
    if MESH not in module.attributes:
        return None
    mesh = parse_mesh(required_text(module.attributes, MESH), "")
    name = next((name for name, known in codec_of(module).meshes.items() if known == mesh), "")
    return dataclasses.replace(mesh, name=name)


@dataclasses.dataclass(frozen=True)
class CollectivePass(Pass):
    """A pass on the program of one device, which `gspmd-optimize` can run together with others."""

    needs = (ONE_MAIN,)

    def run(self, module: Operation) -> None:
        program = DeviceProgram(module)
        self.apply(program)
        if program.changes:
            program.tidy()
        program.finish()

    @abc.abstractmethod
    def apply(self, program: DeviceProgram) -> None:
        """Transform the program. Equal and unused operations may remain, but no unused collectives."""


# ---- values -------------------------------------------------------------------------------------------


def integers(attribute: ir.Attribute) -> tuple[int, ...]:
    """A dense array or elements attribute of integers."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return tuple(int(n) for n in ir.DenseIntElementsAttr(attribute))
    return tuple(int(n) for n in attribute)
