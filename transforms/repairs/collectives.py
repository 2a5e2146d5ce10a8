"""Collectives that XLA for CPUs cannot run, made of others: ragged ones, broadcasts, and those of tiny integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxlib.mlir import ir

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.ragged_exchange import as_equal_shares
from gspmd.transforms.ir.collective_groups import COLLECTIVES
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.op_info import InfoReader, reducers
from gspmd.transforms.ir.operations import Block, Operation, Point
from gspmd.transforms.ir.ragged_call import is_ragged
from gspmd.transforms.parsing.mlir import located

_BYTES = {"i2": "i8", "ui2": "ui8"}
_BROADCAST = "stablehlo.collective_broadcast"


def replace_missing(root: Operation, platform: str = "") -> None:
    """Replace in `root`, in place, the collectives that the compiler of a JAX platform lacks; "" stands for any."""
    build = Builder(context_of(root))

    def rewrite(chosen: Callable[[Operation], bool], by: Callable[[Builder, Operation], None]) -> None:
        for op in list(filter(chosen, root.walk())):
            build.location, build.point = op.location, Point.at(op)
            with located(op):
                by(build, op)

    if platform in ("", "cpu"):
        rewrite(is_ragged, _share_equally)
        rewrite(lambda op: op.name == _BROADCAST, _gather_to_broadcast)
    rewrite(lambda op: op.name in COLLECTIVES, _send_as_bytes)


def _share_equally(build: Builder, op: Operation) -> None:
    """Make a ragged all-to-all of collectives in which all devices have the same share."""
    op.replace([as_equal_shares(build, op)])


def _gather_to_broadcast(build: Builder, op: Operation) -> None:
    """Broadcast by taking what the first device of each group has of what all have.

    One whose first device is known only when the program runs stays as it is.
    """
    groups = np.array(op.attributes["replica_groups"])
    if len(op.operands) != 1 or not groups.size:
        return
    value, type_ = op.operands[0], op.result.type
    one = build.reshape(value, (1, *type_.shape))
    kept = {name: attribute for name, attribute in op.attributes.items() if name != "sdy.sharding"}
    gathered = build.op(
        "stablehlo.all_gather",
        [one],
        [type_.of_shape((groups.shape[1], *type_.shape))],
        **kept,
        all_gather_dim=build.i64(0),
        use_global_device_ids=ir.UnitAttr.get(build.context),
    )
    op.replace([build.reshape(build.slice_dim(gathered, 0, 0, 1), type_.shape)])


def _send_as_bytes(build: Builder, op: Operation) -> None:
    """Let a collective of integers of two bits be one of bytes, unless it combines them in a way of its own."""
    types = [value.type for value in op.operands]
    is_own = bool(op.regions) and not reducers(InfoReader()(op, tuple(types)))
    if is_own or not any(type_.element in _BYTES for type_ in types):
        return
    for index, type_ in enumerate(types):
        op.operands[index] = build.convert(op.operands[index], _BYTES.get(type_.element, type_.element))
    for region in op.regions:
        _widen(region)
    build.point = Point.after(op)
    for result in op.results:
        narrow = result.type.element
        if narrow in _BYTES:
            result.type = result.type.of_element(_BYTES[narrow])
            again = build.convert(result, narrow)
            result.replace_all_uses_with(again, [again.op])


def _widen(block: Block) -> None:
    for value in (*block.arguments, *(result for op in block for result in op.results)):
        value.type = value.type.of_element(_BYTES.get(value.type.element, value.type.element))
