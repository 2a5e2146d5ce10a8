"""Steps of reshards in programs: one `sdy` collective each."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS
from gspmd.dialect.sdy_attrs import (
    SdyCodec,
    read_axes,
    read_axis_lists,
    read_axis_moves,
    write_axes,
    write_axis_lists,
    write_axis_moves,
)
from gspmd.transforms.exchange.step import KINDS, ReshardStep
from gspmd.transforms.ir.operations import Operation

STEPS = frozenset(f"sdy.{kind}" for kind in KINDS)
"""The operations that steps are written as."""

_DIMENSION_AXES = {
    "all_gather": "gathering_axes",
    "all_slice": "slicing_axes",
    "reduce_scatter": "reduce_scatter_axes",
}
"""The attributes that list axes for each dimension."""


def write_step(step: ReshardStep, codec: SdyCodec) -> tuple[str, dict[str, ir.Attribute]]:
    """The name of a step's operation, and its attributes."""
    context, mesh = codec.context, step.after.mesh
    attributes: dict[str, Any] = {_result(step.kind): codec.write(step.after)}
    if step.kind in _DIMENSION_AXES:
        attributes[_DIMENSION_AXES[step.kind]] = write_axis_lists(step.dims, mesh, context)
    elif step.kind == "all_reduce":
        attributes["reduction_axes"] = write_axes(step.axes, mesh, context)
    elif step.kind == "all_to_all":
        attributes["params"] = write_axis_moves(step.moves, mesh, context)
    elif step.orders is not None:
        for name, order in zip((SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS), step.orders, strict=True):
            attributes[name] = ir.DenseI64ArrayAttr.get(list(order), context)
    return f"sdy.{step.kind}", attributes


def read_step(op: Operation, codec: SdyCodec) -> ReshardStep:
    """The step that an operation of `STEPS` stands for."""
    kind, attributes = op.name.removeprefix("sdy."), op.attributes
    after = sharding_after(op, codec)
    if kind in _DIMENSION_AXES:
        return ReshardStep(kind, after, dims=read_axis_lists(attributes[_DIMENSION_AXES[kind]], after.mesh))
    if kind == "all_reduce":
        return ReshardStep(kind, after, axes=read_axes(attributes["reduction_axes"], after.mesh))
    if kind == "all_to_all":
        return ReshardStep(kind, after, moves=read_axis_moves(attributes["params"], after.mesh))
    if SOURCE_DEVICE_IDS not in attributes:
        return ReshardStep(kind, after)
    source, target = (tuple(ir.DenseI64ArrayAttr(attributes[name])) for name in (SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS))
    return ReshardStep(kind, after, orders=(source, target))


def sharding_after(op: Operation, codec: SdyCodec) -> Any:
    """The sharding that an operation of `STEPS` leaves."""
    return codec.read(op.attributes[_result(op.name.removeprefix("sdy."))])


def _result(kind: str) -> str:
    """The attribute that says how the result is split."""
    return "sharding" if kind == "reshard" else "out_sharding"
