"""The interpreter of StableHLO as a second opinion where XLA on one device is known to be wrong (docs/xla.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.runtime import executable_module
from gspmd.runtime.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]
# It ends the process at operations that it does not know, and at some without elements.
_UNKNOWN = ("fft", "rng", "cholesky", "triangular_solve", "batch_norm", "custom_call", "convolution", "chlo.",
            "composite", "sdy.", "ragged")  # fmt: skip


def interpreted(text: str, inputs: Sequence[Array]) -> list[Array]:
    """What the program computes on one device. Raises LookupError for operations that it does not know."""
    body = text.partition("func.func")[2].replace("sdy.sharding", "")
    if re.search(r"[<x]0x", body) or any(f'"stablehlo.{name}' in body or f'"{name}' in body for name in _UNKNOWN):
        raise LookupError("the interpreter does not know an operation of this program")
    module, signature = executable_module.read_unpartitioned(text)
    if unreadable := [
        v.element_type for v in signature.outputs if v.element_type.startswith(("complex", "bf16", "f16"))
    ]:
        raise LookupError(f"the bindings cannot read values of '{unreadable[0]}'")
    with module.context, ir.Location.unknown():
        arguments = [_attribute(array, v.element_type) for array, v in zip(inputs, signature.inputs, strict=True)]
        results = stablehlo.eval_module(module, arguments)
        return [_array(r, v.shape, v.element_type) for r, v in zip(results, signature.outputs, strict=True)]


def _attribute(array: Array, element: str) -> ir.Attribute:
    type_ = ir.RankedTensorType.get(array.shape, ir.Type.parse(element))
    if not array.size:
        return ir.Attribute.parse(f"dense<> : {type_}")
    if element == "i1":
        return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(b)) for b in array.flat], type_)
    digits = f"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"
    return ir.Attribute.parse(f'dense<"{digits}"> : {type_}')


def _array(attribute: Any, shape: tuple[int, ...], element: str) -> Array:
    dtype = numpy_dtype(element)
    if not all(shape):
        return np.zeros(shape, dtype)
    found = ir.DenseElementsAttr(attribute)
    flat = np.array(found) if not found.is_splat else np.full(shape, np.array(found).flat[0])
    return np.asarray(flat).reshape(shape).astype(dtype)
