"""Device orders: where annotations are over several, each value is in one of them, and permutes lead across.

Until here a program has one order, its mesh's, whatever arguments and results say. In another order the same operations
run on other devices: replica groups and partition ids are renamed, nothing else.
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
from gspmd.transforms.order.placed import PlacedProgram
from gspmd.transforms.order.rewrite import OrderRewriter
from gspmd.transforms.passes import Pass
from gspmd.transforms.preconditions import ONE_MAIN


@dataclasses.dataclass(frozen=True)
class Order(Pass):
    """Bring arguments and results into the device orders they are annotated with, by as few bytes as possible."""

    argument = "gspmd-order"
    summary = "Permute shards between the device orders that annotations were written over"
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
            placed = PlacedProgram(program, signature, boundary, moves)
            labels = choose(placed)
            OrderRewriter(module, placed, labels).run()
            signature = _in_orders(signature, boundary, placed.ends(labels), moves)
        write_signature(module, signature)


def _in_orders(signature: Signature, boundary: BoundaryOrders, ends: Sequence[int], moves: DeviceOrders) -> Signature:
    """The signature with every value in its order."""

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
