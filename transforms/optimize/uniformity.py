"""Which values are the same on all devices."""

from __future__ import annotations

from typing import Any

from gspmd.dialect.axes import without
from gspmd.dialect.own_attributes import SHARDING
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ops import traits_of_op
from gspmd.transforms.optimize.program import DeviceProgram, LocalCollective
from gspmd.transforms.parsing.attribute_text import required_text

_MAX_OPERATIONS = 2000  # looked at for one value


class Uniformity:
    """Which values are the same on all devices; answers are remembered, so that operations are looked at once."""

    def __init__(self, program: DeviceProgram) -> None:
        self._program = program
        self._known: dict[Any, bool] = {}
        function = main_function(program.module)
        block = function.regions[0]
        attributes = function.attributes
        entries = list(attributes["arg_attrs"]) if "arg_attrs" in attributes else []
        for argument, entry in zip(block.arguments, entries, strict=False):
            if SHARDING in entry:
                text = required_text(entry, SHARDING)
                self._known[argument] = '"' not in text  # no axis is named: every device holds the whole

    def on_all(self, value: Value) -> bool:
        """Whether every device certainly has the same value."""
        stack, seen = [value], 0
        while stack:
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            seen += 1
            made = top.op
            if made is None or seen > _MAX_OPERATIONS or not traits_of_op(made).is_plain:
                self._known[top] = made is not None and self._gathers_all(made)
                continue
            unknown = [operand for operand in made.operands if operand not in self._known]
            if unknown:
                stack += unknown
                continue
            self._known[top] = all(self._known[operand] for operand in made.operands)
        return self._known[value]

    def _gathers_all(self, op: Operation) -> bool:
        """Whether it is a reduction or gather over the whole mesh."""
        kind = op.name.removeprefix("stablehlo.")
        mesh = self._program.mesh
        if kind not in ("all_reduce", "all_gather") or len(op.operands) != 1 or mesh is None:
            return False
        collective = LocalCollective(op, kind, mesh)
        return self._program.is_along_axes(collective) and not without(mesh.all_axes(), collective.axes)
