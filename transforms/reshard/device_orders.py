"""Reshards at an end of the program that has a device order of its own: one exchange to other tiles and devices.

Elsewhere one order is as good as another, and `gspmd-order` permutes shards between them. If a value is resharded
anyway, right before it leaves or right after it enters, devices may be sent directly what they lack there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from jaxlib.mlir import ir

from gspmd.dialect.axes import size_of
from gspmd.dialect.notation import print_dims
from gspmd.dialect.own_attributes import CAUSE
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.exchange.blocks import exchange_between_orders
from gspmd.transforms.exchange.step import REDUCTIONS, ReshardStep
from gspmd.transforms.exchange.step_notation import STEPS, sharding_after, write_step
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.boundary_orders import DeviceIds, mark_exchanged, read_orders
from gspmd.transforms.ir.modules import context_of, main_function
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import ANYWHERE, collective_time
from gspmd.transforms.paths.planner import Planner

# The steps of reshards that one exchange can take the place of.
_MOVES = STEPS - {f"sdy.{kind}" for kind in REDUCTIONS}


@dataclasses.dataclass(frozen=True, slots=True)
class _CollectiveChain:
    """Consecutive collectives, each the only user of the one before; the first reads `value`."""

    value: Value
    ops: tuple[Operation, ...]
    source: DeviceIds
    target: DeviceIds
    cause: str


def exchange_at_ends(module: Operation, planner: Planner) -> None:
    """Replace reshards of arguments and results in other device orders where that sends less."""
    function = main_function(module)
    ends = read_orders(function)
    orders = ends.distinct(planner.mesh)
    if len(orders) < 2:
        return
    own = orders[0]
    annotated = AnnotatedModule(module)
    block = function.regions[0]
    last = block.terminator
    arguments, results = set[int](), set[int]()
    for index, order in enumerate(ends.results):
        chain = _behind(last.operands[index], index, ends.arguments, order or own, own)
        if chain is not None and _exchange(annotated, planner, chain):
            results.add(index)
            if chain.value.op is None:
                arguments.add(chain.value.index)
    for index, order in enumerate(ends.arguments):
        if index not in arguments and order is not None and order != own:
            chain = _ahead(block.arguments[index], index, order, own)
            if chain is not None and _exchange(annotated, planner, chain):
                arguments.add(index)
    mark_exchanged(function, arguments, results, own)


def _behind(
    value: Value, index: int, arguments: Sequence[DeviceIds | None], order: DeviceIds, own: DeviceIds
) -> _CollectiveChain | None:
    """The chain that ends in a result; None if there is none, or both of its ends are in the program's order."""
    ops: list[Operation] = []
    while value.op is not None and value.op.name in _MOVES and value.is_used_once:
        ops.insert(0, value.op)
        value = ops[0].operands[0]
    source = own
    if value.op is None and value.is_used_once:
        source = arguments[value.index] or own
    if not ops or (source == own and order == own):
        return None
    return _CollectiveChain(value, tuple(ops), source, order, f"result {index}")


def _ahead(value: Value, index: int, order: DeviceIds, own: DeviceIds) -> _CollectiveChain | None:
    """The chain that begins with an argument; None if there is none."""
    ops: list[Operation] = []
    end = value
    while end.is_used_once and (user := end.users[0]).name in _MOVES:
        ops.append(user)
        end = user.result
    return _CollectiveChain(value, tuple(ops), order, own, f"argument {index}") if ops else None


def _exchange(annotated: AnnotatedModule, planner: Planner, chain: _CollectiveChain) -> bool:
    """Replace the chain by one exchange if that takes less time; returns whether it did."""
    last = chain.ops[-1]
    type_ = chain.value.type
    before, after = _sharding_of(annotated, chain.value), sharding_after(last, annotated.codec)
    parts = [size_of(sharding.used_axes()) for sharding in (before, after)]
    if before.unreduced or after.unreduced or parts[1] == 1:  # what is gathered is alike in every order
        return False
    exchange = exchange_between_orders(
        planner.mesh, type_.shape, before.dim_axes(), after.dim_axes(), chain.source, chain.target
    )
    if exchange is None:
        return False
    element = bytes_of(TensorType((), type_.element))
    devices, axes = planner.mesh.size, planner.mesh.all_axes()

    def time(elements: float) -> float:
        return collective_time("collective_permute", elements * element, devices, planner.hardware, axes, ANYWHERE)

    ends = min(bytes_of(type_) / element / count if count > 1 else 0 for count in parts)
    steps = planner.plan(type_, before, after).time_s + (time(ends) if ends else 0.0)
    if exchange.messages * time(math.prod(exchange.block)) >= steps:
        return False
    context = context_of(annotated.module)
    cause = f"{chain.cause} is in another device order, and is needed as {print_dims(after)}"
    step = ReshardStep("reshard", after, orders=(tuple(chain.source), tuple(chain.target)))
    name, attributes = write_step(step, annotated.codec)
    attributes[CAUSE] = ir.StringAttr.get(cause, context)
    made = Operation(name, [chain.value], [last.result.type], attributes, last.location).insert(Point.at(last))
    last.result.replace_all_uses_with(made.result)
    for op in reversed(chain.ops):
        op.erase()
    return True


def _sharding_of(annotated: AnnotatedModule, value: Value) -> TensorSharding:
    """The sharding of a value of @main's block."""
    rank = value.type.rank
    if value.op is None:
        return annotated.arguments[value.index] or replicated(annotated.mesh, rank)
    attributes, codec = value.op.attributes, annotated.codec
    for name in ("out_sharding", "sharding"):
        if name in attributes:
            return codec.read(attributes[name])
    for name in ("out_shardings", "sdy.sharding"):
        if name in attributes:
            found: TensorSharding = codec.read_list(attributes[name])[value.index]
            return found
    return replicated(annotated.mesh, rank)
