"""Layouts that an fft can run with.

XLA for CPUs lays out an fft as what stands beside it likes best, such as a gather of another dimension, but runs it
only with its dimensions in order: anything else fails when the program runs (`fft_thunk.cc`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.transforms.support.builder import Builder, read_type

FFT = "stablehlo.fft"
_TARGET = "LayoutConstraint"  # known to XLA on every platform; it computes nothing


def keep_dims_in_order(root: Any) -> None:
    """Ask for the order of dimensions as the layout of what each `stablehlo.fft` in `root` takes and makes."""
    found: list[Any] = []

    def visit(op: Any) -> ir.WalkResult:
        if op.name == FFT:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    with root.context:
        _constrain(found)


def _constrain(transforms: list[Any]) -> None:
    for op in transforms:
        if read_type(op.results[0]).rank < 2:
            continue
        build = Builder(op.context)
        build.location, build.point = op.location, ir.InsertionPoint(op)
        op.operands[0] = _in_order(build, op.operands[0])
        build.point = ir.InsertionPoint.after(op)
        result = op.results[0]
        pinned = _in_order(build, result)
        result.replace_all_uses_except(pinned, pinned.owner.operation)


def _in_order(build: Builder, value: Any) -> Any:
    type_ = read_type(value)
    minor_to_major = np.arange(type_.rank)[::-1].astype(np.int64)
    layout = ir.DenseElementsAttr.get(
        np.ascontiguousarray(minor_to_major), type=ir.IndexType.get(build.context), shape=[type_.rank]
    )
    layouts = ir.ArrayAttr.get([layout], build.context)
    target = ir.StringAttr.get(_TARGET, build.context)
    return build.op(
        "stablehlo.custom_call",
        [value],
        [type_],
        call_target_name=target,
        operand_layouts=layouts,
        result_layouts=layouts,
    )
