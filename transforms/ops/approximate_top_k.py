"""`ApproxTopK`: the custom call that `jax.lax.approx_max_k` and `approx_min_k` make, found again after partitioning.

Arrays of one shape, of which the first is searched, are followed by as many scalars, what stands for "nothing". A
function of the module says of two elements which comes first. Where the dimension searched is split, the same call
searches each shard, and that function puts the best of all in order. What is found is no worse than what one call
finds, as it is approximate within shards only.

Source: XLA's `ApproxTopK` (Chern et al., TPU-KNN: K nearest neighbor search at peak FLOP/s, arXiv 2206.14286).
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.rule import PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.bodies import inline_body, op_with_body
from gspmd.transforms.emit.builder import read_type
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo, TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.parsing.mlir import function_named

APPROXIMATE_TOP_K = "ApproxTopK"
_CONFIG = "mhlo.backend_config"


def _config(info: OpInfo) -> dict[str, Any]:
    """What the call says, by name. Raises AnnotationError for one without the dimension or the number to find."""
    given = info.attributes.get(_CONFIG)
    found = {entry.name: entry.attr for entry in given} if isinstance(given, ir.DictAttr) else {}
    for name in ("reduction_dim", "top_k"):
        if name not in found:
            raise AnnotationError(
                f"calls '{APPROXIMATE_TOP_K}' without '{name}'", hint=f"add it to '{_CONFIG}'", code=Code.OPERATION
            )
    return found


def approximate_top_k_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the one searched pass through; along that, the best of all shards are brought together."""
    count = len(info.results)
    shape = info.operands[0].shape
    searched = int(_config(info)["reduction_dim"].value) % max(len(shape), 1)
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results])
    for dim, size in enumerate(shape):
        operands: list[int | None] = [dim] * count + [None] * count
        if dim == searched:
            builder.factor(operands, [None] * count, size, PERMUTATION)
        else:
            builder.factor(operands, [dim] * count, size)
    return builder.build()


def localize_approximate_top_k(op: LocalOp) -> None:
    """As `chlo.top_k`: the best of each shard are gathered, and the best of these are the result."""
    config = _config(op.info)
    dim = int(config["reduction_dim"].value) % max(op.info.operands[0].rank, 1)
    axes = op.operand_axes(0, dim) if op.info.operands[0].rank else ()
    if not axes:
        op.keep()
        return
    emit, count = op.emit, len(op.info.results)
    nothing = op.operands[count:]
    for index in range(count):
        op.mask_operand(index, dim, nothing[index])
    cause = op.cause(f"'{APPROXIMATE_TOP_K}' searches a split dimension: the best of all shards are compared")
    wanted, local = op.local_result(0).shape[dim], op.local_operand(0).shape[dim]
    best = _search(op, config, dim, min(wanted, local))
    best = [emit.all_gather(value, dim, axes, cause) for value in best]
    types = [read_type(value) for value in best]
    scalars = [TensorType((), t.element) for t in types for _ in range(2)]
    (comparator,) = op.ir.attributes["called_computations"]
    block = function_named(op.ir, comparator.value).regions[0].blocks[0]
    ordered = op_with_body(
        emit,
        "stablehlo.sort",
        best,
        types,
        scalars,
        lambda arguments: inline_body(emit, block, arguments),
        dimension=emit.i64(dim),
        is_stable=ir.BoolAttr.get(True, emit.context),
    )
    op.replace([emit.slice(value, op.local_result(i).shape) for i, value in enumerate(ordered)])


def _search(op: LocalOp, config: dict[str, Any], dim: int, wanted: int) -> list[Any]:
    """The `wanted` best elements of this device's shard, by the call itself; all of them as they are."""
    emit, count = op.emit, len(op.info.results)
    if wanted == op.local_operand(0).shape[dim]:
        return op.operands[:count]
    own = {**config, "top_k": emit.i64(wanted), "aggregate_to_topk": ir.BoolAttr.get(True, emit.context)}
    attributes = {name: op.ir.attributes[name] for name in op.ir.attributes if name != "sdy.sharding"}
    attributes[_CONFIG] = ir.DictAttr.get(own, emit.context)
    results = []
    for index in range(count):
        type_ = op.local_operand(index)
        results.append(type_._replace(shape=(*type_.shape[:dim], wanted, *type_.shape[dim + 1 :])))
    made = emit.op("stablehlo.custom_call", op.operands, results, **attributes)
    return list(made) if count > 1 else [made]


APPROXIMATE_CALLS = op_table([OpDef(APPROXIMATE_TOP_K, approximate_top_k_rule, localize_approximate_top_k)])
