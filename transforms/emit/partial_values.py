"""Partial values as values of one more dimension, whose elements are the summands.

What a program is given or gives unreduced over some axes, each device along them having one summand, is whole between
ingest and localization: its leading dimension counts the summands and is split over those axes. So a partial value that
enters is a value that is summed, and one that leaves is a value that was taken apart, by a custom call of ours of which
only the sum is known.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, canonical
from gspmd.dialect.own_attributes import TAKEN_APART
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.attribute_text import text_of


def apart_sharding(sharding: TensorSharding, axes: Axes) -> TensorSharding:
    """The sharding of the value with summands along `axes`, of one that is split as `sharding` says."""
    dims = (DimSharding(canonical(sharding.mesh.sorted(axes))), *sharding.dims)
    return TensorSharding(sharding.mesh, dims, sharding.replicated)


def partial_sharding(sharding: TensorSharding) -> TensorSharding:
    """The other way round: each device's summand, without the dimension that counts them."""
    first, *rest = sharding.dims
    unreduced = canonical(sharding.mesh.sorted(first.axes))
    return TensorSharding(sharding.mesh, tuple(rest), sharding.replicated, unreduced)


def is_taking_apart(op: Operation | OpInfo) -> bool:
    """Whether an operation is the call that takes a value apart."""
    return bool(op.name == CUSTOM_CALL and text_of(op.attributes["call_target_name"]) == TAKEN_APART)


def summed(build: Builder, value: Value) -> Value:
    """The sum of all summands."""
    return build.sum_over(value, [0])


def taken_apart(build: Builder, value: Value, count: int, sharding: ir.Attribute) -> Value:
    """`count` summands of the value, whichever they are, split as said."""
    type_ = value.type
    return build.op(
        "stablehlo.custom_call",
        [value],
        [TensorType((count, *type_.shape), type_.element)],
        call_target_name=ir.StringAttr.get(TAKEN_APART, build.context),
        **{"sdy.sharding": sharding},
    )
