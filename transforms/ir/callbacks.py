"""Calls of Python from a program: which operations they are, and what is said of the device that makes them.

Those of one device want whole operands and are made once; the others are made by every device on its part.
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
"""Targets of custom calls that one device makes for all."""

EACH_CALLS = frozenset(f"xla_ffi_partitioned_python_{platform}_callback" for platform in _PLATFORMS)
"""Targets of custom calls that every device makes with its own part of the operands."""


def is_callback(op: Operation) -> bool:
    """Whether an operation is a call of Python, or a part of one."""
    return is_one_call(op) or (op.name == CUSTOM_CALL and target_of(op) in EACH_CALLS)


def is_one_call(op: Operation) -> bool:
    """Whether an operation is a call, or a part of one, that one device makes with whole operands."""
    return op.name in TRANSFERS or (op.name == CUSTOM_CALL and target_of(op) in ONE_CALLS)


def target_of(op: Operation | OpInfo) -> str:
    """The target of a custom call."""
    return text_of(op.attributes["call_target_name"])


def is_host_transfer(attributes: Mapping[str, Attribute]) -> bool:
    """Whether a send or receive is one between a device and the host, not between devices."""
    key = "is_host_transfer"
    return key in attributes and bool(ir.BoolAttr(attributes[key]).value)
