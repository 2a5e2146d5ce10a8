"""Over which mesh axes all devices hold the same value: memory that a better sharding would save, or nothing to send.

Found by following values through a per-device program: what is computed from equal values is equal, an all-gather or an
all-reduce makes equal, `partition_id` differs everywhere. What depends on a device's position in any other way counts
as different along all axes, so that no value is called replicated that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.collective_notes import axes_of
from gspmd.transforms.ir.program import WHILE, Body, Op, Program
from gspmd.transforms.ops import traits_of_op

Names = frozenset[str]


def replicated_axes(program: Program, mesh: Mesh, arguments: Sequence[TensorSharding]) -> dict[int, Names]:
    """The axes, of more than one device, that each value is the same along."""
    finder = _AxesFinder(program, mesh)
    for value, sharding in zip(program.body.arguments, arguments, strict=True):
        used = {axis.name for axes in sharding.dim_axes() for axis in axes}
        finder.equal[value] = finder.all - used
    finder.block(program.body)
    return finder.equal


class _AxesFinder:
    def __init__(self, program: Program, mesh: Mesh) -> None:
        self.program = program
        self.mesh = mesh
        self.all: Names = frozenset(name for name, size in mesh.axes if size > 1)
        self.equal: dict[int, Names] = {}

    def block(self, block: Body) -> None:
        for op in block.ops:
            if op.info.name == WHILE:
                self._loop(op)
            elif op.regions:
                self._branches(op)
            else:
                found = self._result(op)
                for result in op.results:
                    self.equal[result] = found

    def _of(self, values: Iterable[int]) -> list[Names]:
        return [self.equal[value] for value in values]

    def _result(self, op: Op) -> Names:
        traits = traits_of_op(op.ir)
        if traits.diverges and not traits.communicates:
            return frozenset()
        common = self.all.intersection(*self._of(op.operands))
        if not traits.communicates:
            return common
        return common - self._axes(op) if traits.diverges else common | self._full_axes(op)

    def _axes(self, op: Op) -> Names:
        """The axes that a collective runs over, all if it does not say."""
        axes = axes_of(op.ir.attributes, self.mesh)
        return self.all if axes is None else frozenset(axis.name for axis in axes)

    def _full_axes(self, op: Op) -> Names:
        """The axes that a collective runs over as a whole; groups that users wrote may be of some devices only."""
        axes = axes_of(op.ir.attributes, self.mesh) or ()
        groups = op.ir.attributes["replica_groups"]
        if isinstance(groups, ir.DenseElementsAttr):
            ids = np.array(ir.DenseIntElementsAttr(groups), np.int64)
            if ids.size and (ids.min() < 0 or ids.size != self.mesh.size or ids.shape[-1] != size_of(axes)):
                return frozenset()
        return frozenset(axis.name for axis in axes if self.mesh.is_full(axis))

    def _loop(self, op: Op) -> None:
        """The largest solution: a carry is equal along an axis if it is so at first and after every round."""
        carry = self._of(op.operands)
        condition, body = op.regions
        while True:
            for region in (condition, body):
                self.equal.update(zip(region.arguments, carry, strict=True))
                self.block(region)
            runs = self.equal[condition.returned[0]]  # devices that differ here differ in everything after
            after = [mine & theirs & runs for mine, theirs in zip(carry, self._of(body.returned), strict=True)]
            if after == carry:
                break
            carry = after
        self.equal.update(zip(op.results, carry, strict=True))

    def _branches(self, op: Op) -> None:
        chosen = self.all.intersection(*self._of(op.operands))
        found = [chosen] * len(op.results)
        for region in op.regions:
            self.equal.update(dict.fromkeys(region.arguments, chosen))
            self.block(region)
            found = [mine & theirs for mine, theirs in zip(found, self._of(region.returned), strict=True)]
        self.equal.update(zip(op.results, found, strict=True))
