"""What the compiler knows of every operation, one file per family, put together in one table."""

from __future__ import annotations

from gspmd.transforms.ops import (
    callbacks,
    communication,
    concatenation,
    contraction,
    convolution,
    creation,
    custom_call,
    dynamic_slicing,
    elementwise,
    gather,
    layout,
    linear_algebra,
    normalization,
    random,
    reduce_window,
    reduction,
    refused,
    scan,
    scatter,
    select_and_scatter,
    slicing,
    sorting,
)
from gspmd.transforms.ops.op_definition import OpTable

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
    | reduce_window.OPS
    | select_and_scatter.OPS
    | convolution.OPS
    | linear_algebra.OPS
    | normalization.OPS
    | random.OPS
    | custom_call.OPS
    | communication.OPS
    | callbacks.OPS
    | refused.OPS
)
