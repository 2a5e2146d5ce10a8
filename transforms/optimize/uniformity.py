"""Along which mesh axes devices may have different values, asked of single values of a program that changes."""

from __future__ import annotations

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_sharding
from gspmd.dialect.own_attributes import EXCHANGED, SHARDING
from gspmd.transforms.analysis.divergence import NOWHERE, Names, axes_of_mesh, axes_of_sharding, varying_after
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import CONTROL_FLOW
from gspmd.transforms.ir.signature import MESH_SYMBOL
from gspmd.transforms.parsing.attribute_text import required_text

_MAX_OPERATIONS = 2000  # looked at for one value


class Uniformity:
    """Which values all devices of a mesh, or those along some of its axes, have in common.

    Values are followed back to what they are made of. Answers are remembered, so that operations are looked at once.
    What a branch or a loop makes, or carries, counts as different.
    """

    def __init__(self, module: Operation, mesh: Mesh) -> None:
        self._mesh = mesh
        self._everywhere = axes_of_mesh(mesh)
        self._varying: dict[Value, Names] = {}
        function = main_function(module)
        known: dict[str, Names] = {}  # by what is written, of which many arguments have the same
        entries, meshes = function.attributes.get("arg_attrs", ()), {MESH_SYMBOL: mesh}
        for argument, entry in zip(function.regions[0].arguments, entries, strict=False):
            if SHARDING in entry and EXCHANGED not in entry:
                text = required_text(entry, SHARDING)
                if text not in known:
                    known[text] = axes_of_sharding(parse_sharding(text, meshes)) if '"' in text else NOWHERE
                self._varying[argument] = known[text]

    def on_all(self, value: Value) -> bool:
        """Whether every device certainly has the same value."""
        return not self.varying(value)

    def varying(self, value: Value) -> Names:
        """The mesh axes along which devices may have different values; certainly none along the others."""
        stack, seen = [value], 0
        while stack:
            top = stack[-1]
            if top in self._varying:
                stack.pop()
                continue
            seen += 1
            op = top.op
            if op is None or seen > _MAX_OPERATIONS or op.name in CONTROL_FLOW:
                self._varying[top] = self._everywhere
                continue
            unknown = [operand for operand in op.operands if operand not in self._varying]
            if unknown:
                stack += unknown
                continue
            operands = [self._varying[operand] for operand in op.operands]
            self._varying[top] = varying_after(op, operands, self._mesh)
        return self._varying[value]
