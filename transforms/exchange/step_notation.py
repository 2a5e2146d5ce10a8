"""The notation of reshard steps in programs: one `sdy` collective each."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step import ATTRIBUTES, KINDS, ReshardStep
from gspmd.transforms.ir.operations import Operation

STEPS = frozenset(f"sdy.{kind}" for kind in KINDS)
"""The operations of steps."""


def write_step(step: ReshardStep, codec: SdyCodec) -> tuple[str, dict[str, ir.Attribute]]:
    """The name of a step's operation, and its attributes."""
    context, mesh = codec.context, step.after.mesh
    attributes: dict[str, ir.Attribute] = {_result(step.kind): codec.write(step.after)}
    if step.kind in ATTRIBUTES:
        attribute = ATTRIBUTES[step.kind]
        attributes[attribute.name] = attribute.write(getattr(step, attribute.field), mesh, context)
    elif step.orders is not None:
        for name, order in zip((SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS), step.orders, strict=True):
            attributes[name] = ir.DenseI64ArrayAttr.get(list(order), context)
    return f"sdy.{step.kind}", attributes


def read_step(op: Operation, codec: SdyCodec) -> ReshardStep:
    """The step of an operation in `STEPS`."""
    kind, attributes = op.name.removeprefix("sdy."), op.attributes
    after = sharding_after(op, codec)
    if kind in ATTRIBUTES:
        attribute = ATTRIBUTES[kind]
        fields = {attribute.field: attribute.read(attributes[attribute.name], after.mesh)}
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
