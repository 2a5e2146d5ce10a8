"""What the compiler knows of every operation, one file per family, put together in one table."""

from __future__ import annotations

from gspmd.transforms.ops import (
    communication,
    concatenation,
    contraction,
    creation,
    custom_call,
    dynamic_slicing,
    elementwise,
    gather,
    layout,
    linear_algebra,
    normalization,
    random,
    reduction,
    refused,
    scan,
    scatter,
    slicing,
    sorting,
    windows,
)
from gspmd.transforms.support.op_definition import OpTable

OPS: OpTable = (
    elementwise.OPS
    | creation.OPS
    | layout.OPS
    | contraction.OPS
    | reduction.OPS
    | slicing.OPS
    | concatenation.OPS
    | dynamic_slicing.OPS
    | gather.OPS
    | scatter.OPS
    | sorting.OPS
    | scan.OPS
    | windows.OPS
    | linear_algebra.OPS
    | normalization.OPS
    | random.OPS
    | custom_call.OPS
    | communication.OPS
    | refused.OPS
)
