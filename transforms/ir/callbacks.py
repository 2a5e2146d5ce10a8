"""Python callbacks: the operations, and the devices that run them.

A callback of one device takes whole operands and runs once; others run on every device with its shards.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.transforms.ir.collective_groups import TRANSFERS
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Attribute, Operation
from gspmd.transforms.parsing.attribute_text import text_of

_PLATFORMS = ("cpu", "gpu")
ONE_CALLS = frozenset(
    {f"{kind}_python_{platform}_callback" for kind in ("xla_ffi", "xla", "xla_buffer") for platform in _PLATFORMS}
    | {"xla_buffer_python_gpu_callback_cmd_buffer"}
)
"""Targets of custom calls that run on one device."""

EACH_CALLS = frozenset(f"xla_ffi_partitioned_python_{platform}_callback" for platform in _PLATFORMS)
"""Targets of custom calls that run on every device, with its shards of the operands."""


def is_callback(op: Operation) -> bool:
    """Whether an operation is a Python callback, or a part of one."""
    return is_one_call(op) or (op.name == CUSTOM_CALL and target_of(op) in EACH_CALLS)


def is_one_call(op: Operation) -> bool:
    """Whether an operation is, or is part of, a callback that runs on one device with whole operands."""
    return op.name in TRANSFERS or (op.name == CUSTOM_CALL and target_of(op) in ONE_CALLS)


def target_of(op: Operation | OpInfo) -> str:
    """The target of a custom call."""
    return text_of(op.attributes["call_target_name"])


def is_host_transfer(attributes: Mapping[str, Attribute]) -> bool:
    """Whether a send or receive is between a device and the host."""
    key = "is_host_transfer"
    return key in attributes and bool(ir.BoolAttr(attributes[key]).value)
