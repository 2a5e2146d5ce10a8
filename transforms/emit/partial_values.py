"""Partial values, represented with an additional dimension of summands.

An argument or result that is unreduced over some axes has one summand per device along them. Between ingest and
localization it has a leading dimension of summands, split over those axes. A partial argument is summed over it; a
partial result is decomposed by a custom call of gspmd, of which only the sum is specified.
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
    """The sharding with a leading dimension of summands, split over `axes`."""
    dims = (DimSharding(canonical(sharding.mesh.sorted(axes))), *sharding.dims)
    return TensorSharding(sharding.mesh, dims, sharding.replicated)


def partial_sharding(sharding: TensorSharding) -> TensorSharding:
    """The sharding of the summand of each device, without the leading dimension."""
    first, *rest = sharding.dims
    unreduced = canonical(sharding.mesh.sorted(first.axes))
    return TensorSharding(sharding.mesh, tuple(rest), sharding.replicated, unreduced)


def is_taking_apart(op: Operation | OpInfo) -> bool:
    """Whether an operation is the call that decomposes a value into summands."""
    return bool(op.name == CUSTOM_CALL and text_of(op.attributes["call_target_name"]) == TAKEN_APART)


def summed(build: Builder, value: Value) -> Value:
    """The sum of the summands."""
    return build.sum_over(value, [0])


def taken_apart(build: Builder, value: Value, count: int, sharding: ir.Attribute) -> Value:
    """Decompose the value into `count` unspecified summands, with this sharding."""
    type_ = value.type
    return build.op(
        "stablehlo.custom_call",
        [value],
        [TensorType((count, *type_.shape), type_.element)],
        call_target_name=ir.StringAttr.get(TAKEN_APART, build.context),
        **{"sdy.sharding": sharding},
    )
