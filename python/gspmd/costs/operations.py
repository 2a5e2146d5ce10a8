"""What single operations compute: floating-point (or integer) operations, by kind.

A multiplication and an addition count as two. Every elementwise operation counts as one an element, whatever it is.
"""

from __future__ import annotations

from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops import traits_of_op


def flops_of(info: OpInfo) -> tuple[str, float] | None:
    """The kind of an operation and how many arithmetic operations it does; None where that is not known.

    Kinds are `dot`, `convolution`, `fft`, `linear algebra`, `reduction`, `sort` and `elementwise`; what only moves data
    is `elementwise` with 0.
    """
    flops = traits_of_op(info).flops
    return None if flops is None else (flops.kind, flops.count(info))
