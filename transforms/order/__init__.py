"""Device orders: bring arguments and results to the device orders of their annotations.

In: the per-device program, in one device order. Out: the same program with each value in one of the orders, and
permutes of whole shards between them.

A program does the same in every order, with replica groups and partition ids renamed. So each operation runs in the
order in which the fewest bytes have to be permuted, which is a minimum cut between arguments and results. A device that
keeps its shard sends nothing, and values that are replicated over all devices are never permuted. Weights are therefore
gathered in the order in which they enter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gspmd.transforms.ir.boundary_orders import BoundaryOrders, DeviceIds, take_orders
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.signature import Signature, ValueSignature, read_signature, write_signature
from gspmd.transforms.order.choice import choose
from gspmd.transforms.order.moves import DeviceOrders
from gspmd.transforms.order.placed import OrderGraph
from gspmd.transforms.order.rewrite import OrderRewriter
from gspmd.transforms.passes import Pass
from gspmd.transforms.preconditions import ONE_MAIN


@dataclasses.dataclass(frozen=True)
class Order(Pass):
    """Bring arguments and results into the device orders of their annotations, permuting as few bytes as possible."""

    argument = "gspmd-order"
    summary = "Permute shards between the device orders of annotations"
    needs = (ONE_MAIN,)

    def run(self, module: Operation) -> None:
        boundary = take_orders(main_function(module))
        if boundary is None:
            return
        signature = read_signature(module)
        orders = boundary.distinct(signature.mesh)
        if len(orders) > 1:
            program = Program(module)
            moves = DeviceOrders(signature.mesh, orders)
            placed = OrderGraph(program, signature, boundary, moves)
            labels = choose(placed)
            OrderRewriter(module, placed, labels).run()
            signature = _in_orders(signature, boundary, placed.ends(labels), moves)
        write_signature(module, signature)


def _in_orders(signature: Signature, boundary: BoundaryOrders, ends: Sequence[int], moves: DeviceOrders) -> Signature:
    """The signature, with every value in its device order."""

    def moved(value: ValueSignature, number: int, order: DeviceIds | None, exchanged: bool) -> ValueSignature:
        ids = order if exchanged and order is not None else moves.orders[number]
        mesh = dataclasses.replace(signature.mesh, device_ids=ids)
        return dataclasses.replace(value, sharding=dataclasses.replace(value.sharding, mesh=mesh))

    given, made = boundary.exchanged
    count = len(signature.inputs)
    rows = zip(signature.inputs, ends[:count], boundary.arguments, strict=True)
    inputs = tuple(moved(*row, index in given) for index, row in enumerate(rows))
    rows = zip(signature.outputs, ends[count:], boundary.results, strict=True)
    return Signature(signature.mesh, inputs, tuple(moved(*row, index in made) for index, row in enumerate(rows)))
