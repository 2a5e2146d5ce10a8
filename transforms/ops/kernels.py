"""Opaque custom calls, such as kernels: why they cannot be split, and their own cost estimates."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ir.op_info import OpInfo, has_side_effect
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.parsing.attribute_text import text_of

# Kernels of Mosaic and Triton, and cuDNN's graphs, which are compiled for fixed shapes.
_COMPILED = ("tpu_custom_call", "mosaic_gpu", "__gpu$xla.gpu.triton", "triton_kernel_call", "__cudnn$")
# Attributes that may contain an estimate: JAX puts that of a Pallas kernel for TPUs into the first, under its own key.
_CARRIERS = ("backend_config", "mhlo.backend_config", "mhlo.frontend_attributes")
_ESTIMATE, _NESTED = "cost_estimate", "custom_call_config"


def is_compiled_for_shapes(target: str) -> bool:
    """Whether the target is a kernel that accepts only the shapes for which it was compiled."""
    return target.startswith(_COMPILED)


def unknown_call(info: OpInfo) -> Unsupported:
    """The reason why a custom call cannot be split, and the hint."""
    target = info.text("call_target_name")
    ways = ["compute it in a manual computation"]
    if info.calls_functions:
        message = f"calls '{target}', which calls functions of the module"
    elif is_compiled_for_shapes(target):
        message = f"calls '{target}', a kernel compiled for the shapes that it is given"
    else:
        message = f"calls '{target}', which has no sharding rule"
        ways.insert(0, "give it one with --custom-rule")
    if not has_side_effect(info.attributes):
        ways.append("whole on every device with --replicate-unsupported")
    *first, last = ways
    hint = f"{', '.join(first)}, or {last}" if len(ways) > 2 else " or ".join(ways)
    return Unsupported(message, hint=hint, code=Code.CUSTOM_CALL)


@dataclasses.dataclass(frozen=True, slots=True)
class KernelEstimate:
    """A kernel's estimate of one call: arithmetic operations, bytes of memory traffic, and bytes sent."""

    flops: float
    traffic_bytes: float
    sent_bytes: float


def kernel_estimate(op: Operation) -> KernelEstimate | None:
    """The cost estimate of a custom call; None if it has none that can be read.

    Transcendental functions count as one operation each. Source: `pallas.CostEstimate` of JAX, as Pallas lowers it.
    """
    for name in _CARRIERS:
        found = _estimate_in(op.attributes[name]) if name in op.attributes else None
        if found is not None:
            flops, traffic, sent = (
                sum(float(found.get(key, 0)) for key in keys)
                for keys in (("flops", "transcendentals"), ("bytes_accessed",), ("remote_bytes_transferred",))
            )
            return KernelEstimate(flops, traffic, sent)
    return None


def _estimate_in(attribute: ir.Attribute) -> dict[str, Any] | None:
    """The estimate in an attribute of a call: JSON, or a dictionary of JSON or numbers."""
    if isinstance(attribute, ir.DictAttr):
        estimate = next((entry.attr for entry in attribute if entry.name == _ESTIMATE), None)
        if isinstance(estimate, ir.DictAttr):
            return _numbers({entry.name: getattr(entry.attr, "value", None) for entry in estimate})
        return None if estimate is None else _numbers(_json(text_of(estimate)))
    config = _json(text_of(attribute))
    inner = config.get(_NESTED)
    return _numbers((inner if isinstance(inner, dict) else config).get(_ESTIMATE))


def _numbers(found: Any) -> dict[str, Any] | None:
    """The dictionary, if it is an estimate: numbers by name."""
    plain = isinstance(found, dict) and all(isinstance(value, int | float) and value >= 0 for value in found.values())
    return found if plain and "flops" in found else None


def _json(text: str) -> dict[str, Any]:
    """The JSON object in a text; an empty one for any other text."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
