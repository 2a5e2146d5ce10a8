"""Collectives that XLA for CPUs cannot run, made of others: ragged ones, broadcasts, and those of tiny integers."""

from __future__ import annotations

import itertools
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
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_BYTES = {"i2": "i8", "ui2": "ui8"}
_BROADCAST, _ROOT = "stablehlo.collective_broadcast", "has_dynamic_root"


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
    """Broadcast by taking, of what all devices of a group have, the part of the first, or of the one that is named.

    Which one that is may be an operand: one for each value, behind all of these.
    """
    groups = np.array(op.attributes["replica_groups"])
    if not groups.size:  # of all devices, however many there are
        return
    size = groups.shape[1]
    kept = {name: attribute for name, attribute in op.attributes.items() if name not in ("sdy.sharding", _ROOT)}
    kept |= {"all_gather_dim": build.i64(0), "use_global_device_ids": ir.UnitAttr.get(build.context)}
    found = []
    for value, root in itertools.zip_longest(op.operands[: len(op.results)], op.operands[len(op.results) :]):
        shape = value.type.shape
        one = build.reshape(value, (1, *shape))
        all_ = build.op("stablehlo.all_gather", [one], [value.type.of_shape((size, *shape))], **kept)
        if root is None:
            part = build.slice_dim(all_, 0, 0, 1)
        else:
            zero = build.constant(TensorType((), root.type.element), 0)
            part = build.dynamic_slice(all_, [build.reshape(root, ()), *[zero] * len(shape)], (1, *shape))
        found.append(build.reshape(part, shape))
    op.replace(found)


def _send_as_bytes(build: Builder, op: Operation) -> None:
    """Let a collective of integers of two bits be one of bytes, unless it combines them in a way of its own."""
    types = [value.type for value in op.operands]
    if not any(type_.element in _BYTES for type_ in types):
        return
    if op.regions and not reducers(InfoReader()(op, tuple(types))):
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
