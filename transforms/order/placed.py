"""A per-device program as a graph for the choice of device orders.

Nodes are arguments, operations in the block of @main with their regions, and results. A node has one order, that of all
its operands. Values computed only from constants and the partition id are recomputed in each order, and are not nodes.
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

FIXED = 0  # the order of the program, for operations with side effects
UNMOVABLE = 1 << 50  # the bytes of values that cannot be sent


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """A value with its producer and consumers; it is split over the axes `split`, and replicated along all others."""

    value: int
    maker: int
    readers: tuple[int, ...]
    split: Axes
    bytes: int


class OrderGraph:
    """A per-device program as a graph, with the known orders of nodes.

    `pinned` has the order of every node without a choice, -1 for others. `remade` are the values that are recomputed in
    each order. `permutes` has the senders of collective permutes, by result.
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
        """The orders of arguments and results, from those of all nodes."""
        return [*labels[: self._arguments], *labels[self._results :]]

    def order_of_node(self, labels: Sequence[int], index: int) -> int:
        """The order of an operation, which must be a node."""
        return labels[self._arguments + index]

    def split_of(self, value: int) -> Axes:
        """The axes or sub-axes along which a value may differ."""
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
        """The orders of arguments or results. Also records along which axes their shardings split them."""
        found = []
        for index, (value, signature, order) in enumerate(zip(values, signatures, orders, strict=True)):
            if index in exchanged:
                found.append(FIXED)
                continue
            used = signature.sharding.mesh.sorted(signature.sharding.used_axes())
            if size_of(used) < size_of(self.split_of(value)):  # more precise than the divergence analysis
                self.split[value] = used
            found.append(-1 if order is None else self._pin(order, used))
        return found

    def _pin(self, order: DeviceIds, split: Axes) -> int:
        """The number of an order; that of the program if both place the value in the same way."""
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
    """A sharding over all axes, for a value that differs on all devices."""
    dims = (DimSharding(sharding.mesh.all_axes()), *(DimSharding() for _ in sharding.dims[1:]))
    return TensorSharding(sharding.mesh, dims)


def read_by(op: Op) -> Iterator[int]:
    """All values read by an operation and its regions, including those defined inside."""
    yield from op.operands
    for block in op.regions:
        for inner in block.ops:
            yield from read_by(inner)
        yield from block.returned


def _senders(op: Op, mesh: Mesh) -> Ids | None:
    """For each device: the sender of a permute; None unless the operation permutes all devices."""
    if kind_of(op.ir) != "collective_permute":
        return None
    pairs = pairs_of(op.ir)
    if len(pairs) != mesh.size:
        return None
    found = np.empty(mesh.size, np.int64)
    found[pairs[:, 1]] = pairs[:, 0]
    return found


def _has_effects(op: Op) -> bool:
    """Whether an operation, or one in its regions, has side effects or must run on a certain device."""
    if traits_of(op.info.name).effects or is_callback(op.ir) or has_side_effect(op.info.attributes):
        return True
    return any(_has_effects(inner) for block in op.regions for inner in block.ops)
