"""A per-device program as a graph for choosing device orders: what has one order, and what lies between.

Nodes are arguments, operations of @main's block with all in their regions, and results. A node has one order, in which
it finds what it reads. What is made of constants and the partition's id alone costs nothing to make again in another
order, and is no node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.transforms.analysis.divergence import NOWHERE, replicated_axes
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.boundary_orders import BoundaryOrders, DeviceIds
from gspmd.transforms.ir.callbacks import is_callback
from gspmd.transforms.ir.collective_groups import kind_of, pairs_of
from gspmd.transforms.ir.groups import Ids
from gspmd.transforms.ir.op_info import has_side_effect
from gspmd.transforms.ir.program import Op, Program
from gspmd.transforms.ir.signature import Signature, ValueSignature
from gspmd.transforms.ops import traits_of, traits_of_op
from gspmd.transforms.order.moves import DeviceOrders

FIXED = 0  # the program's own order, of what has effects that other devices would see elsewhere
UNMOVABLE = 1 << 50  # bytes of what cannot be sent


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """A value that one node makes and others read; it is divided over the axes `split`, and copied along all others."""

    value: int
    maker: int
    readers: tuple[int, ...]
    split: Axes
    bytes: int


class PlacedProgram:
    """A per-device program as a graph, and what is known of its nodes before orders are chosen.

    `pinned` has the order of every node that cannot choose, -1 for others. `remade` are the values that are made again
    where they are needed. `permutes` has the senders of collective permutes, by result.
    """

    def __init__(self, program: Program, signature: Signature, boundary: BoundaryOrders, moves: DeviceOrders) -> None:
        self.program = program
        self.moves = moves
        self.split: dict[int, Axes] = {}
        inputs = [
            _everywhere_else(value.sharding) if index in boundary.exchanged[0] else value.sharding
            for index, value in enumerate(signature.inputs)
        ]
        self._equal = replicated_axes(program.body.ir, signature.mesh, inputs)
        body = program.body
        self.remade = self._remade(body.ops)
        self.permutes = {
            op.results[0]: found
            for op in body.ops
            if self.remade.isdisjoint(op.operands) and (found := _senders(op, signature.mesh)) is not None
        }
        self.nodes = [op for op in body.ops if not self.remade.issuperset(op.results) or not op.results]
        self._arguments = len(body.arguments)
        self._results = self._arguments + len(self.nodes)
        came, left = boundary.exchanged
        arguments = self._pins(body.arguments, signature.inputs, boundary.arguments, came)
        results = self._pins(body.returned, signature.outputs, boundary.results, left)
        self.pinned = [*arguments, *(FIXED if _has_effects(op) else -1 for op in self.nodes), *results]
        self.flows = tuple(self._flows())

    def ends(self, labels: Sequence[int]) -> list[int]:
        """The orders of arguments and results among those of all nodes."""
        return [*labels[: self._arguments], *labels[self._results :]]

    def order_of_node(self, labels: Sequence[int], index: int) -> int:
        """The order of an operation that is a node."""
        return labels[self._arguments + index]

    def split_of(self, value: int) -> Axes:
        """The axes, whole or in part, along which a value may differ."""
        if value not in self.split:
            equal = self._equal.get(self.program.value_ir[value], NOWHERE)
            self.split[value] = tuple(axis for axis in self.moves.mesh.all_axes() if axis.name not in equal)
        return self.split[value]

    def _pins(
        self,
        values: Sequence[int],
        signatures: Sequence[ValueSignature],
        orders: Sequence[DeviceIds | None],
        exchanged: frozenset[int],
    ) -> list[int]:
        """The numbers of the orders of arguments or results. Notes what their shardings say of how they differ."""
        found = []
        for index, (value, signature, order) in enumerate(zip(values, signatures, orders, strict=True)):
            if index in exchanged:
                found.append(FIXED)
                continue
            used = signature.sharding.mesh.sorted(signature.sharding.used_axes())
            if size_of(used) < size_of(self.split_of(value)):  # finer than what is found by following values
                self.split[value] = used
            found.append(-1 if order is None else self._pin(order, used))
        return found

    def _pin(self, order: DeviceIds, split: Axes) -> int:
        """The number of an order; the program's own where it places the value alike."""
        number = list(self.moves.orders).index(order)
        return number if self.moves.changed(split, number, FIXED) else FIXED

    def _remade(self, ops: Sequence[Op]) -> set[int]:
        found: set[int] = set()
        for op in ops:
            traits = traits_of_op(op.ir)
            again = traits.pure and not traits.communicates and not op.regions
            if again and found.issuperset(op.operands):
                found.update(op.results)
        return found

    def _flows(self) -> Iterator[Flow]:
        readers: dict[int, dict[int, None]] = {}
        maker = {value: index for index, value in enumerate(self.program.body.arguments)}
        for index, op in enumerate(self.nodes):
            node = self._arguments + index
            maker.update(dict.fromkeys(op.results, node))
            if self.permutes.keys().isdisjoint(op.results):  # a permute may change the order on its way
                for value in read_by(op):
                    readers.setdefault(value, {})[node] = None
        for index, value in enumerate(self.program.body.returned):
            readers.setdefault(value, {})[self._results + index] = None
        for value, found in readers.items():
            if value in maker:
                type_ = self.program.value_type[value]
                size = int(bytes_of(type_)) + 1 if type_.is_tensor else UNMOVABLE
                yield Flow(value, maker[value], tuple(found), self.split_of(value), size)


def _everywhere_else(sharding: TensorSharding) -> TensorSharding:
    """A sharding that says of a value that it differs on all devices."""
    dims = (DimSharding(sharding.mesh.all_axes()), *(DimSharding() for _ in sharding.dims[1:]))
    return TensorSharding(sharding.mesh, dims)


def read_by(op: Op) -> Iterator[int]:
    """All that an operation and those in its regions read, values made inside included."""
    yield from op.operands
    for block in op.regions:
        for inner in block.ops:
            yield from read_by(inner)
        yield from block.returned


def _senders(op: Op, mesh: Mesh) -> Ids | None:
    """By device: whose shard a permute gives it; None for what is no permute of all devices."""
    if kind_of(op.ir) != "collective_permute":
        return None
    pairs = pairs_of(op.ir)
    if len(pairs) != mesh.size:
        return None
    found = np.empty(mesh.size, np.int64)
    found[pairs[:, 1]] = pairs[:, 0]
    return found


def _has_effects(op: Op) -> bool:
    """Whether an operation, or one in its regions, does more than compute its results, or is a device's own to do."""
    if traits_of(op.info.name).effects or is_callback(op.ir) or has_side_effect(op.info.attributes):
        return True
    return any(_has_effects(inner) for block in op.regions for inner in block.ops)
