"""Collectives with groups of one device, as in programs for one device, are erased.

A program has one replica, so a collective between replicas sends nothing and the replica id is 0. The same holds for
partitions in a program that was written for one, outside manual computations.
"""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.emit.ragged_exchange import as_equal_shares
from gspmd.transforms.ingest.edits import constrain_users
from gspmd.transforms.ir.collective_groups import FLAGGED, groups_of, has_channel, is_collective
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import MANUAL
from gspmd.transforms.ir.ragged_call import is_ragged
from gspmd.transforms.parsing.mlir import located

REPLICA, PARTITION = "stablehlo.replica_id", "stablehlo.partition_id"
_PERMUTE = "stablehlo.collective_permute"


def dissolve_lone(main: Operation, one_partition: bool) -> None:
    """Replace collectives with groups of one device by their operands, and the device id by 0.

    `one_partition` says that the module is for one partition, so that its collectives name only that one.
    """
    _dissolve_inside(main, one_partition, in_manual=False)


def _dissolve_inside(op: Operation, one_partition: bool, in_manual: bool) -> None:
    for region in op.regions:
        for inner in region:
            name = inner.name
            values = None
            if is_collective(inner):
                with located(inner):
                    values = _alone(inner, name, one_partition, in_manual)
            elif name == REPLICA or (name == PARTITION and one_partition and not in_manual):
                values = _zeros(inner)
            if values is not None:
                _replace(inner, values)
            elif inner.regions and not is_collective(inner):
                _dissolve_inside(inner, one_partition, in_manual or name == MANUAL)


def _alone(op: Operation, name: str, one_partition: bool, in_manual: bool) -> list[Value] | None:
    """The results of a collective with groups of one device; None for any other."""
    attributes = op.attributes
    is_permute = name == _PERMUTE
    groups = groups_of(op)
    ids = np.array(groups) if isinstance(groups, ir.DenseElementsAttr) else np.zeros((0, 0))
    names_others = bool((ids > 0).any())
    alone = (not has_channel(op) or (one_partition and not in_manual)) and not names_others
    if is_permute:
        return (list(op.operands) if len(ids) else _zeros(op)) if alone else None
    names_partitions = name not in FLAGGED or "use_global_device_ids" in attributes
    if not in_manual and names_partitions and ids.size:
        alone |= bool(((ids >= 0).sum(axis=-1) == 1).all())
    if alone and is_ragged(op):
        return [as_equal_shares(_builder_at(op), op)]
    return list(op.operands) if alone else None


def _builder_at(op: Operation) -> Builder:
    build = Builder(context_of(op))
    build.point, build.location = Point.at(op), op.location
    return build


def _zeros(op: Operation) -> list[Value]:
    build = _builder_at(op)
    return [build.constant(value.type, "zero") for value in op.results]


def _replace(op: Operation, values: list[Value]) -> None:
    """Replace the results by the values, constrained to the annotations of the operation."""
    if "sdy.sharding" in op.attributes:
        shardings = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings
        for value, sharding in zip(op.results, shardings, strict=True):
            constrain_users(value, sharding, op)
    op.replace(values)
