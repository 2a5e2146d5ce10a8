"""Which operations devices meet in or depend on, and where each of them names the devices that take part.

StableHLO has no operation for a ragged all-to-all: it is a custom call with the groups in its configuration.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.ragged_call import CONFIG, GROUPS, RAGGED, is_ragged, ragged_config

FLAGGED = {"stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.reduce_scatter"}
COLLECTIVES = FLAGGED | {
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
}
PARTITION_ID = "stablehlo.partition_id"
DEVICE_IDS = frozenset({PARTITION_ID, "stablehlo.replica_id"})
"""What differs by device."""
TRANSFERS = frozenset({"stablehlo.send", "stablehlo.recv"})
"""What moves a value between two devices, or between a device and the host, as JAX writes callbacks for TPUs."""
_PAIRS, _CHANNEL = "source_target_pairs", "channel_handle"


def is_collective(op: Operation) -> bool:
    """Whether an operation is a collective."""
    return op.name in COLLECTIVES or is_ragged(op)


def kind_of(op: Operation) -> str | None:
    """The name of a collective in StableHLO, or the target of its call; None for any other operation."""
    if op.name in COLLECTIVES:
        return op.name.removeprefix("stablehlo.")
    return RAGGED if is_ragged(op) else None


def groups_of(op: Operation) -> ir.Attribute:
    """The groups of a collective, or the pairs of a permute.

    Raises AnnotationError for a ragged all-to-all without groups.
    """
    attributes = op.attributes
    if is_ragged(op):
        return ragged_config(attributes)[GROUPS]
    return attributes[_PAIRS if _PAIRS in attributes else GROUPS]


def pairs_of(op: Operation) -> npt.NDArray[np.int64]:
    """The source and target partition ids of a permute, `[pairs, 2]`."""
    return np.array(ir.DenseIntElementsAttr(op.attributes[_PAIRS]), np.int64).reshape(-1, 2)


def set_groups(op: Operation, groups: ir.Attribute) -> None:
    """Replace the groups of a collective. Errors: those of `groups_of`."""
    attributes = op.attributes
    if is_ragged(op):
        attributes[CONFIG] = ir.DictAttr.get(ragged_config(attributes) | {GROUPS: groups})
    else:
        attributes[_PAIRS if _PAIRS in attributes else GROUPS] = groups


def has_channel(op: Operation) -> bool:
    """Whether the groups of a collective are of partitions, not of replicas."""
    attributes = op.attributes
    if is_ragged(op):
        channel = ragged_config(attributes).get("channel_id")
        return isinstance(channel, ir.IntegerAttr) and channel.value > 0
    return channel_of(op) > 0


def channel_of(op: Operation) -> int:
    """The channel number of a collective; 0 for none."""
    return stablehlo.ChannelHandle(op.attributes[_CHANNEL]).handle if _CHANNEL in op.attributes else 0
