"""Python callbacks: one device calls with whole values and all get its results, or every device calls with its shard.

In a manual computation, devices that differ along manual axes make separate calls; one device calls for those that
differ only along the other axes.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.own_attributes import CALL_DEVICE
from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.emit.carriers import carried, carriers, delivered
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.callbacks import EACH_CALLS, ONE_CALLS, is_host_transfer
from gspmd.transforms.ir.collective_groups import TRANSFERS
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, RuleFunction, op_table
from gspmd.transforms.ops.rules import whole
from gspmd.transforms.ops.traits import Traits

_CAUSE = "results of a Python callback, which one device calls, are needed on all"


def one_call_rule(info: OpInfo) -> OpShardingRule:
    """Every operand and result is whole."""
    return whole(info)


def each_call_rule(info: OpInfo) -> OpShardingRule:
    """Every device calls with its shard of each operand, except for shards with padding, which has no meaning."""
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results])
    for index, type_ in enumerate(info.operands):
        for dim, size in enumerate(type_.shape):
            only = [dim if other == index else None for other in range(len(info.operands))]
            builder.factor(only, [None] * len(info.results), size, even=True)
    return builder.build()


def transfer_rule(info: OpInfo) -> OpShardingRule:
    """The rule of a callback. Raises Unsupported for transfers to other devices."""
    if not is_host_transfer(info.attributes):
        raise Unsupported(
            "communicates between devices",
            hint="give a program for one device, or put it into a manual computation",
            code=Code.COMMUNICATION,
        )
    return whole(info)


def localize_one_call(op: LocalOp) -> None:
    """A branch that one device of each group of replicas takes; its results are summed with zeros."""
    emit = op.emit
    axes = emit.free_axes()
    device = _device(op.ir)
    if device is not None and emit.held:
        raise Unsupported(
            f"is said to be made by device {device}, but is part of a manual computation, in which every device makes "
            "calls of its own",
            hint="leave the sharding out",
            code=Code.MANUAL,
        )
    if not axes:
        op.keep()
        return
    used = [index for index, result in enumerate(op.ir.results) if result.is_used]
    here = emit.is_first(axes) if emit.held else emit.is_partition(device or 0)
    cause = op.cause(_CAUSE)
    sent = iter([emit.all_reduce(v, axes, "add", cause) if _is_tensor(v) else v for v in _call(op, here, used)])
    replacements: list[Value | None] = [None] * len(op.ir.results)
    for index in used:
        replacements[index] = delivered(emit, sent, op.info.results[index])
    op.replace(replacements)


def _call(op: LocalOp, here: Value, used: list[int]) -> list[Value]:
    """The results as integers, from the device for which `here` is true.

    All other devices have zeros, and the token for which the call waits. XLA refuses branches with only a token: these
    return the condition, too.
    """
    emit = op.emit
    returned = [carrier for index in used for carrier in carriers(op.info.results[index])]
    values = [type_ for type_ in (*returned, *op.info.operands) if type_.is_tensor]
    also = [] if values or not returned else [here]

    def made(_: list[Value]) -> list[Value]:
        results = op.ir.clone().insert(emit.point).results
        return [*(carrier for index in used for carrier in carried(emit, results[index])), *also]

    def nothing(_: list[Value]) -> list[Value]:
        return [*(_nothing(op, type_) for type_ in returned), *also]

    branches = [emit.block([], made), emit.block([], nothing)]
    types = [*returned, *(value.type for value in also)]
    return emit.create("stablehlo.if", [here], types, {}, branches).results[: len(returned)]


def _is_tensor(value: Value) -> bool:
    return value.type.is_tensor


def _device(op: Operation) -> int | None:
    """The partition that the program names for the call."""
    if CALL_DEVICE not in op.attributes:
        return None
    device = int(ir.IntegerAttr(op.attributes[CALL_DEVICE]).value)
    del op.attributes[CALL_DEVICE]
    return device


def _nothing(op: LocalOp, type_: TensorType) -> Value:
    """The value on devices that do not make the call."""
    if type_.is_tensor:
        return op.emit.constant(type_, "zero")
    tokens = [value for value, given in zip(op.operands, op.info.operands, strict=True) if given == type_]
    return tokens[0] if tokens else op.emit.op("stablehlo.after_all", [], [type_])


RULES: dict[str, RuleFunction] = {
    **dict.fromkeys(ONE_CALLS, one_call_rule),
    **dict.fromkeys(EACH_CALLS, each_call_rule),
}
"""The rules of custom calls, by target."""

_TRAITS = Traits(pure=False, effects=True, diverges=True)

OPS = op_table(
    OpDef(name, transfer_rule, localize_one_call, replicable=False, traits=_TRAITS) for name in sorted(TRANSFERS)
)

CALLS = op_table(
    OpDef(name, one_call_rule, localize_one_call, replicable=False, traits=_TRAITS) for name in sorted(ONE_CALLS)
)
"""The localizers of custom calls, by target."""
