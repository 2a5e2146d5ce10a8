"""Divergence: branches and loops of a manual computation whose predicate is not the same on all devices.

Devices that differ along free axes alone never diverge, because what they know of a value inside is one value. Those
that differ along manual axes may, and then take part in collectives in groups along free axes only.
"""

from __future__ import annotations

from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.transforms.ir.collective_notes import axes_of
from gspmd.transforms.ir.manual import ManualRegion, read_region
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL, WHILE
from gspmd.transforms.ops import traits_of_op


def parting_ops(op: Operation, codec: SdyCodec, mesh: Mesh) -> set[Operation]:
    """The control flow that may diverge inside an outermost manual computation that is not localized yet."""
    return _DivergenceWalk(op, codec, mesh).ops


class _DivergenceWalk:
    """`varying` are the values that may differ along manual axes."""

    def __init__(self, op: Operation, codec: SdyCodec, mesh: Mesh) -> None:
        self.ops: set[Operation] = set()
        self._varying: set[Value] = set()
        self._codec = codec
        self._mesh = mesh
        self._manual(op, ())

    def _manual(self, op: Operation, held: Axes) -> None:
        region = read_region(op, self._codec, self._mesh)
        block = op.regions[0]
        for operand, argument, sharding in zip(op.operands, block.arguments, region.in_shardings, strict=True):
            self._mark(argument, operand in self._varying or _is_split(region, sharding.used_axes()))
        self._block(block, held + region.axes)
        for result, value in zip(op.results, _returned(block), strict=True):
            self._mark(result, value in self._varying)

    def _block(self, block: Block, held: Axes) -> None:
        for op in block:
            name = op.name
            if name == MANUAL:
                self._manual(op, held)
            elif name == WHILE:
                self._loop(op, held)
            elif name in CONTROL_FLOW:
                self._branches(op, held)
            else:
                traits = traits_of_op(op)
                varies = traits.diverges or any(value in self._varying for value in op.operands)
                if varies and traits.communicates and not traits.diverges:
                    varies = not self._is_over_all(op, held)
                for result in op.results:
                    self._mark(result, varies)

    def _loop(self, op: Operation, held: Axes) -> None:
        condition, body = op.regions
        carried = [value in self._varying for value in op.operands]
        while True:
            for index, varies in enumerate(carried):
                self._mark(condition.arguments[index], varies)
                self._mark(body.arguments[index], varies)
            self._block(condition, held)
            self._block(body, held)
            parts = _returned(condition)[0] in self._varying
            after = [
                parts or varies or value in self._varying
                for varies, value in zip(carried, _returned(body), strict=True)
            ]
            if after == carried:
                break
            carried = after
        if parts:
            self.ops.add(op)
        for result, varies in zip(op.results, carried, strict=True):
            self._mark(result, varies)

    def _branches(self, op: Operation, held: Axes) -> None:
        parts = op.operands[0] in self._varying
        if parts:
            self.ops.add(op)
        for block in op.regions:
            self._block(block, held)
        for index, result in enumerate(op.results):
            self._mark(result, parts or any(_returned(block)[index] in self._varying for block in op.regions))

    def _is_over_all(self, op: Operation, held: Axes) -> bool:
        """Whether a collective that the user wrote makes values equal along all manual axes."""
        axes = axes_of(op.attributes, self._mesh)
        return axes is not None and all(axis in axes for axis in held)

    def _mark(self, value: Value, varies: bool) -> None:
        if varies:
            self._varying.add(value)


def _is_split(region: ManualRegion, axes: Axes) -> bool:
    return any(overlap([axis], region.axes) for axis in axes)


def _returned(block: Block) -> list[Value]:
    return block.terminator.operands
