"""What the compiler knows of every operation, one file per family, put together in one table."""

from __future__ import annotations

from gspmd.transforms.ops import (
    contraction,
    creation,
    dynamic_slicing,
    elementwise,
    gather,
    layout,
    reduction,
    scatter,
    slicing,
    sorting,
)
from gspmd.transforms.support.op_definition import OpTable

OPS: OpTable = (
    elementwise.OPS
    | creation.OPS
    | layout.OPS
    | contraction.OPS
    | reduction.OPS
    | slicing.OPS
    | dynamic_slicing.OPS
    | gather.OPS
    | scatter.OPS
    | sorting.OPS
)
