"""Operations without operands: constants, iota, tokens. Each device computes its own shard."""

from __future__ import annotations

import re

from jaxlib.mlir import ir

from gspmd.dialect.rule import OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import MOVED, Fusion, Traits


def creation_rule(info: OpInfo) -> OpShardingRule:
    """One factor per dimension, with any sharding."""
    builder = RuleBuilder([], [info.results[0].shape], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(info.results[0].shape):
        builder.factor([], [dim], size)
    return builder.build()


def token_rule(info: OpInfo) -> OpShardingRule:
    """Tokens have no dimensions."""
    return RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results]).build()


def localize_constant(op: LocalOp) -> None:
    """A uniform constant gets a smaller type; any other is created whole on every device and sliced."""
    if op.info.results[0].element.startswith("complex<"):
        op.replace([_complex_constant(op)])
        return
    value = op.ir.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        local = op.local_result(0)
        splat = ir.DenseElementsAttr.get_splat(op.emit.mlir_type(local), value.get_splat_value())
        op.replace([op.emit.op("stablehlo.constant", [], [op.local_result(0)], value=splat)])
        return
    whole = op.emit.op("stablehlo.constant", [], [op.info.results[0]], value=value)
    op.replace([op.emit.shard(whole, op.result_shardings[0])])


_UNIFORM_COMPLEX = re.compile(r"dense<\(([^,()]+),([^,()]+)\)>")


def _complex_constant(op: LocalOp) -> Value:
    """The same without the attribute, which the bindings cannot represent."""
    local = op.local_result(0)
    uniform = _UNIFORM_COMPLEX.search(str(op.ir.attributes["value"]))
    if uniform is None:
        whole = op.ir.clone().insert(op.emit.point).results[0]
        return op.emit.shard(whole, op.result_shardings[0])
    part = TensorType(local.shape, local.element[len("complex<") : -1])
    values = [ir.Attribute.parse(f"dense<{text}> : {part.text}", op.emit.context) for text in uniform.groups()]
    parts = [op.emit.op("stablehlo.constant", [], [part], value=value) for value in values]
    return op.emit.op("stablehlo.complex", parts, [local])


def localize_iota(op: LocalOp) -> None:
    """Count from the shard's offset along the iota dimension.

    Positions are added as integers and converted once, because a short float type would round both terms.
    """
    dim = op.info.integer("iota_dimension")
    result, axes = op.local_result(0), op.result_shardings[0].dims[dim].axes
    counted = TensorType(result.shape, "i32") if axes and not _is_integer(result.element) else result
    local = op.emit.op("stablehlo.iota", [], [counted], iota_dimension=op.ir.attributes["iota_dimension"])
    if axes:
        offset = op.emit.shard_offset(axes, result.shape[dim], counted.element)
        local = op.emit.binary("add", local, op.emit.broadcast_scalar(offset, counted))
    op.replace([op.emit.convert(local, result.element)])


def _is_integer(element: str) -> bool:
    return element.lstrip("su").startswith("i")


_MADE_ANYWHERE = Traits(flops=MOVED, fusion=Fusion.WITH_ALL_USERS)

OPS = op_table(
    [
        OpDef("stablehlo.constant", creation_rule, localize_constant, traits=_MADE_ANYWHERE),
        OpDef("stablehlo.iota", creation_rule, localize_iota, traits=_MADE_ANYWHERE),
        OpDef("stablehlo.after_all", token_rule, traits=Traits(flops=MOVED)),
    ]
)
