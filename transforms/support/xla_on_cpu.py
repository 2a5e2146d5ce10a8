"""Operations that XLA for CPUs gets wrong, written so that it does not, whatever they stand beside.

An fft is laid out as its neighbours like best, such as a gather of another dimension, but runs only with its
dimensions in order: anything else fails when the program runs (`fft_thunk.cc`). A scatter of several operands
writes to one buffer for all of them that are one value to XLA, as equal constants are. Reductions are taken to
start from identities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.transforms.support.builder import Builder, read_type
from gspmd.transforms.support.initial_values import REDUCE, count_once
from gspmd.transforms.support.op_info import TensorType

FFT, SCATTER = "stablehlo.fft", "stablehlo.scatter"
REPAIRED = frozenset({FFT, SCATTER, REDUCE})
_LAYOUT = "LayoutConstraint"  # a custom call that XLA knows on every platform; it computes nothing
_NUMBER = TensorType((), "i32")


def repair(root: Any) -> None:
    """Rewrite what is concerned in `root`, in place."""
    found: list[Any] = []

    def visit(op: Any) -> ir.WalkResult:
        if op.name in REPAIRED:
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    with root.context, ir.Location.unknown(root.context):
        for op in found:
            build = Builder(op.context)
            build.location, build.point = op.location, ir.InsertionPoint(op)
            if op.name == SCATTER:
                _keep_apart(build, op)
            elif op.name == REDUCE:
                count_once(build, op)
            elif read_type(op.results[0]).rank > 1:
                _keep_dims_in_order(build, op)


def _keep_dims_in_order(build: Builder, op: Any) -> None:
    """Ask for the order of dimensions as the layout of what an fft takes and makes."""
    op.operands[0] = _in_order(build, op.operands[0])
    build.point = ir.InsertionPoint.after(op)
    result = op.results[0]
    pinned = _in_order(build, result)
    result.replace_all_uses_except(pinned, pinned.owner.operation)


def _in_order(build: Builder, value: Any) -> Any:
    type_ = read_type(value)
    minor_to_major = np.arange(type_.rank, dtype=np.int64)[::-1]
    index = ir.IndexType.get(build.context)
    layout = ir.DenseElementsAttr.get(np.ascontiguousarray(minor_to_major), type=index, shape=[type_.rank])
    layouts = ir.ArrayAttr.get([layout], build.context)
    return build.op(
        "stablehlo.custom_call",
        [value],
        [type_],
        call_target_name=ir.StringAttr.get(_LAYOUT, build.context),
        operand_layouts=layouts,
        result_layouts=layouts,
    )


def _keep_apart(build: Builder, op: Any) -> None:
    """Make each operand of a scatter another value to XLA: one selected by what it cannot know to be true."""
    for number in range(1, len(op.results)):
        value = op.operands[number]
        type_ = read_type(value)
        constant = build.constant(_NUMBER, number)
        hidden = build.op("stablehlo.optimization_barrier", [constant], [_NUMBER])
        is_same = build.op(
            "stablehlo.compare",
            [hidden, constant],
            [TensorType((), "i1")],
            comparison_direction=ir.Attribute.parse("#stablehlo<comparison_direction EQ>", build.context),
        )
        opposite = "not" if type_.element.startswith(("i", "ui")) else "negate"
        other = build.op(f"stablehlo.{opposite}", [value], [type_])
        op.operands[number] = build.op("stablehlo.select", [is_same, value, other], [type_])
