"""The notation of reshard steps in programs: one `sdy` collective each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.mesh import Mesh
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
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step import KINDS, ReshardStep
from gspmd.transforms.ir.operations import Operation

STEPS = frozenset(f"sdy.{kind}" for kind in KINDS)
"""The operations of steps."""


class _Attribute(NamedTuple):
    """The attribute of a step besides its result sharding, and the field of the step that it holds."""

    name: str
    field: str
    write: Callable[[Any, Mesh, ir.Context], ir.Attribute]
    read: Callable[[ir.Attribute, Mesh], Any]


ATTRIBUTES = {
    "all_gather": _Attribute("gathering_axes", "dims", write_axis_lists, read_axis_lists),
    "all_slice": _Attribute("slicing_axes", "dims", write_axis_lists, read_axis_lists),
    "reduce_scatter": _Attribute("reduce_scatter_axes", "dims", write_axis_lists, read_axis_lists),
    "all_reduce": _Attribute("reduction_axes", "axes", write_axes, read_axes),
    "all_to_all": _Attribute("params", "moves", write_axis_moves, read_axis_moves),
}
"""By kind; other kinds are determined by the shardings before and after."""


def write_step(step: ReshardStep, codec: SdyCodec) -> tuple[str, dict[str, ir.Attribute]]:
    """The name of a step's operation, and its attributes."""
    context, mesh = codec.context, step.after.mesh
    attributes: dict[str, ir.Attribute] = {_result(step.kind): codec.write(step.after)}
    if step.kind in ATTRIBUTES:
        said = ATTRIBUTES[step.kind]
        attributes[said.name] = said.write(getattr(step, said.field), mesh, context)
    elif step.orders is not None:
        for name, order in zip((SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS), step.orders, strict=True):
            attributes[name] = ir.DenseI64ArrayAttr.get(list(order), context)
    return f"sdy.{step.kind}", attributes


def read_step(op: Operation, codec: SdyCodec) -> ReshardStep:
    """The step of an operation in `STEPS`."""
    kind, attributes = op.name.removeprefix("sdy."), op.attributes
    after = sharding_after(op, codec)
    if kind in ATTRIBUTES:
        said = ATTRIBUTES[kind]
        fields = {said.field: said.read(attributes[said.name], after.mesh)}
        return ReshardStep(kind, after, **fields)
    if SOURCE_DEVICE_IDS not in attributes:
        return ReshardStep(kind, after)
    source, target = (tuple(ir.DenseI64ArrayAttr(attributes[name])) for name in (SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS))
    return ReshardStep(kind, after, orders=(source, target))


def sharding_after(op: Operation, codec: SdyCodec) -> TensorSharding:
    """The result sharding of an operation in `STEPS`."""
    return codec.read(op.attributes[_result(op.name.removeprefix("sdy."))])


def _result(kind: str) -> str:
    """The attribute with the sharding of the result."""
    return "sharding" if kind == "reshard" else "out_sharding"
