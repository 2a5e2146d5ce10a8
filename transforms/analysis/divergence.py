"""Divergence: the mesh axes along which a value of the program may differ between devices.

An operation on equal values has equal results; an all-gather or all-reduce makes values equal; `partition_id` differs
everywhere. Any other dependence on the device counts as different along all axes, so the result is conservative. For
example, over x=2 and y=4, if `%a` varies along x and `%b` along y, `add(%a, %b)` varies along both, its all-reduce over
x along y, and a loop that runs while that is positive makes all its variables vary along y.

Three analyses use this: over which axes memory is replicated, at which branches and loops of a manual computation
control flow may diverge, and whether all devices have the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import overlap, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.collective_notes import axes_of
from gspmd.transforms.ir.manual import read_region
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.program import CONTROL_FLOW, MANUAL, WHILE
from gspmd.transforms.ops import traits_of_op

Names = frozenset[str]
"""Mesh axes with more than one device."""

NOWHERE: Names = frozenset()


def axes_of_mesh(mesh: Mesh) -> Names:
    """All axes along which values can vary."""
    return frozenset(name for name, size in mesh.axes if size > 1)


def axes_of_sharding(sharding: TensorSharding) -> Names:
    """The axes along which the shards of a value vary."""
    return frozenset(axis.name for axis in sharding.used_axes())


def varying_after(op: Operation, operands: Iterable[Names], mesh: Mesh) -> Names:
    """The axes along which the results of an operation vary, given those of its operands; not for control flow."""
    traits, every = traits_of_op(op), axes_of_mesh(mesh)
    if traits.diverges and not traits.communicates:
        return every
    given = NOWHERE.union(*operands)
    if not traits.communicates:
        return given
    axes = axes_of(op.attributes, mesh)
    if traits.diverges:
        return given | (every if axes is None else frozenset(axis.name for axis in axes))
    return given - _joined_axes(op, mesh)


def _joined_axes(op: Operation, mesh: Mesh) -> Names:
    """The axes over which all devices take part in the collective; groups in manual computations may have fewer."""
    axes = axes_of(op.attributes, mesh) or ()
    groups = op.attributes["replica_groups"]
    if isinstance(groups, ir.DenseElementsAttr):
        ids = np.array(ir.DenseIntElementsAttr(groups), np.int64)
        if ids.size and (ids.min() < 0 or ids.size != mesh.size or ids.shape[-1] != size_of(axes)):
            return NOWHERE
    return frozenset(axis.name for axis in axes if mesh.is_full(axis))


class Divergence:
    """The axes along which values vary, for all values of the blocks given to `block` or `manual`.

    Manual computations exist only before localization, and need the `codec` of their shardings. `control_flow` has the
    branches and loops at which control flow may diverge.
    """

    def __init__(self, mesh: Mesh, codec: SdyCodec | None = None) -> None:
        self.varying: dict[Value, Names] = {}
        self.control_flow: set[Operation] = set()
        self._mesh = mesh
        self._codec = codec

    def block(self, block: Block) -> None:
        """Analyze a block with known arguments."""
        for op in block:
            if op.name == MANUAL:
                self.manual(op)
            elif op.name == WHILE:
                self._loop(op)
            elif op.name in CONTROL_FLOW:
                self._branches(op)
            else:
                found = varying_after(op, self._of(op.operands), self._mesh)
                self.varying.update(dict.fromkeys(op.results, found))

    def manual(self, op: Operation) -> None:
        """Analyze a manual computation.

        Inside, values vary along its manual axes only: along free axes, the program still has one global value.
        """
        assert self._codec is not None, "only localized programs are analyzed without one"
        region = read_region(op, self._codec, self._mesh)
        block = op.regions[0]
        for argument, given, sharding in zip(block.arguments, self._of(op.operands), region.in_shardings, strict=True):
            held = [axis.name for axis in sharding.used_axes() if overlap([axis], region.axes)]
            self.varying[argument] = given.union(held)
        self.block(block)
        self.varying.update(zip(op.results, self._of(block.terminator.operands), strict=True))

    def _of(self, values: Iterable[Value]) -> list[Names]:
        """The axes of the operands; values from outside the analyzed blocks vary along none."""
        return [self.varying.get(value, NOWHERE) for value in values]

    def _loop(self, op: Operation) -> None:
        """The least fixed point: a loop variable varies along an axis initially, or after some iteration."""
        carry = self._of(op.operands)
        condition, body = op.regions
        while True:
            for region in (condition, body):
                self.varying.update(zip(region.arguments, carry, strict=True))
                self.block(region)
            (runs,) = self._of(condition.terminator.operands)  # diverging control flow affects all results
            after = [
                mine | theirs | runs for mine, theirs in zip(carry, self._of(body.terminator.operands), strict=True)
            ]
            if after == carry:
                break
            carry = after
        if runs:
            self.control_flow.add(op)
        self.varying.update(zip(op.results, carry, strict=True))

    def _branches(self, op: Operation) -> None:
        chosen = NOWHERE.union(*self._of(op.operands))
        if chosen:
            self.control_flow.add(op)
        found = [chosen] * len(op.results)
        for region in op.regions:
            self.varying.update(dict.fromkeys(region.arguments, chosen))
            self.block(region)
            found = [mine | theirs for mine, theirs in zip(found, self._of(region.terminator.operands), strict=True)]
        self.varying.update(zip(op.results, found, strict=True))


def diverging_control_flow(op: Operation, codec: SdyCodec, mesh: Mesh) -> set[Operation]:
    """The branches and loops at which control flow may diverge, in an outermost manual computation before localization.

    Collectives inserted there use groups along free axes only.
    """
    divergence = Divergence(mesh, codec)
    divergence.manual(op)
    return divergence.control_flow


def replicated_axes(block: Block, mesh: Mesh, arguments: Sequence[TensorSharding]) -> dict[Value, Names]:
    """The axes along which each value of a per-device program is equal."""
    divergence = Divergence(mesh)
    divergence.varying.update(zip(block.arguments, map(axes_of_sharding, arguments), strict=True))
    divergence.block(block)
    every = axes_of_mesh(mesh)
    return {value: every - varying for value, varying in divergence.varying.items()}
