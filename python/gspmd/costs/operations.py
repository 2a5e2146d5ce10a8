"""The arithmetic of single operations: floating-point or integer operations, by kind.

A multiply-add counts as two. Every elementwise operation counts as one per element.
"""

from __future__ import annotations

from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops import traits_of_op


def flops_of(info: OpInfo) -> tuple[str, float] | None:
    """The kind of an operation and its number of arithmetic operations; None if unknown.

    Kinds are `dot`, `convolution`, `fft`, `linear algebra`, `reduction`, `sort` and `elementwise`; data movement is
    `elementwise` with 0.
    """
    flops = traits_of_op(info).flops
    return None if flops is None else (flops.kind, flops.count(info))
