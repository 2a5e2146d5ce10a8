"""`ApproxTopK`, the custom call of `jax.lax.approx_max_k` and `approx_min_k`, which is kept on shards.

Its operands are arrays of one shape, of which the first is searched, and a neutral scalar for each. A function of the
module compares two elements. If the searched dimension is split, the same call searches each shard, and the function
orders the best of all shards. The result is at least as good as that of one call, since only the searches within shards
are approximate.

Source: XLA's `ApproxTopK` (Chern et al., TPU-KNN: K nearest neighbor search at peak FLOP/s, arXiv 2206.14286).
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.rule import PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.bodies import inline_body, op_with_body
from gspmd.transforms.emit.builder import Body
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.modules import function_block
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Block, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.parsing.attribute_text import as_dictionary

APPROXIMATE_TOP_K = "ApproxTopK"
_CONFIG, _COMPARATOR = "mhlo.backend_config", "called_computations"


def _config(info: OpInfo) -> dict[str, ir.Attribute]:
    """The configuration of the call. Raises AnnotationError if it is incomplete."""
    given = info.attributes.get(_CONFIG)
    found = as_dictionary(given) if isinstance(given, ir.DictAttr) else {}
    for name in ("reduction_dim", "top_k"):
        if not isinstance(found.get(name), ir.IntegerAttr):
            raise AnnotationError(
                f"calls '{APPROXIMATE_TOP_K}' without '{name}'", hint=f"add it to '{_CONFIG}'", code=Code.OPERATION
            )
    called = info.attributes.get(_COMPARATOR)
    if not isinstance(called, ir.ArrayAttr) or len(called) != 1:
        raise AnnotationError(
            f"calls '{APPROXIMATE_TOP_K}' without a function that compares",
            hint=f"name one in '{_COMPARATOR}'",
            code=Code.OPERATION,
        )
    return found


def _searched(info: OpInfo, config: dict[str, ir.Attribute]) -> int:
    """The searched dimension; negative ones count from the last.

    Raises AnnotationError for an invalid dimension, and for operands and results that do not match.
    """
    rank = info.operands[0].rank if info.operands else 0
    dim = int(config["reduction_dim"].value)
    if not -rank <= dim < rank:
        raise AnnotationError(
            f"calls '{APPROXIMATE_TOP_K}' along dimension {dim} of {rank}",
            hint="give a dimension of the first operand",
            code=Code.OPERATION,
        )
    dim %= rank
    _check_types(info, dim)
    return dim


def _check_types(info: OpInfo, dim: int) -> None:
    """Raises AnnotationError unless the arrays, the neutral scalars and the results match."""
    shape, elements = info.operands[0].shape, [type_.element for type_ in info.results]
    taken = [*((shape, element) for element in elements), *(((), element) for element in elements)]
    found = info.results[0].shape if info.results else ()
    fits = (
        [(type_.shape, type_.element) for type_ in info.operands] == taken
        and len(found) == len(shape)
        and found == (*shape[:dim], min(found[dim], shape[dim]), *shape[dim + 1 :])
        and all(type_.shape == found for type_ in info.results)
    )
    if not fits:
        operands, results = (", ".join(type_.text for type_ in types) for types in (info.operands, info.results))
        raise AnnotationError(
            f"calls '{APPROXIMATE_TOP_K}' of ({operands}) for ({results}), which do not fit each other",
            hint="give it arrays of one shape and a scalar of each, for results that differ only in the dimension "
            "searched",
            code=Code.OPERATION,
        )


def _comparator(op: LocalOp) -> Block:
    """The block that compares two elements of each array. Raises AnnotationError if there is none."""
    (called,) = op.ir.attributes[_COMPARATOR]
    block = function_block(op.ir, called.value) if isinstance(called, ir.FlatSymbolRefAttr) else None
    expected = [type_.element for type_ in op.info.results for _ in range(2)]
    if block is None or [a.type.text for a in block.arguments] != [f"tensor<{e}>" for e in expected]:
        raise AnnotationError(
            f"{called} does not compare two elements of each of the {len(op.info.results)} arrays searched",
            hint="give it two scalars of each array's type",
            code=Code.OPERATION,
        )
    return block


def _order(op: LocalOp) -> Body:
    """Whether one element comes before another; any order if there is no module, as for counting."""
    emit = op.emit
    if op.ir.parent is None:
        return lambda arguments: [emit.compare(arguments[0], "LT", arguments[1])]
    block = _comparator(op)
    return lambda arguments: inline_body(emit, block, arguments)


def approximate_top_k_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions except the searched one pass through; along that, the best of all shards are gathered."""
    count = len(info.results)
    shape = info.operands[0].shape
    searched = _searched(info, _config(info))
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results])
    for dim, size in enumerate(shape):
        operands: list[int | None] = [dim] * count + [None] * count
        if dim == searched:
            builder.factor(operands, [None] * count, size, PERMUTATION)
        else:
            builder.factor(operands, [dim] * count, size)
    return builder.build()


def localize_approximate_top_k(op: LocalOp) -> None:
    """As for `chlo.top_k`: the best of each shard are gathered, and the best of these are the result."""
    config = _config(op.info)
    dim = _searched(op.info, config)
    axes = op.operand_axes(0, dim)
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
    types = [value.type for value in best]
    scalars = [TensorType((), t.element) for t in types for _ in range(2)]
    ordered = op_with_body(
        emit,
        "stablehlo.sort",
        best,
        types,
        scalars,
        _order(op),
        dimension=emit.i64(dim),
        is_stable=ir.BoolAttr.get(True, emit.context),
    )
    op.replace([emit.slice(value, op.local_result(i).shape) for i, value in enumerate(ordered)])


def _search(op: LocalOp, config: dict[str, ir.Attribute], dim: int, wanted: int) -> list[Value]:
    """The `wanted` best elements of this device's shard, found by the call itself; the whole shard if it is smaller."""
    emit, count = op.emit, len(op.info.results)
    if wanted == op.local_operand(0).shape[dim]:
        return op.operands[:count]
    own = {**config, "top_k": emit.i64(wanted), "aggregate_to_topk": ir.BoolAttr.get(True, emit.context)}
    attributes = {name: op.ir.attributes[name] for name in op.ir.attributes if name != "sdy.sharding"}
    attributes[_CONFIG] = ir.DictAttr.get(own, emit.context)
    results = []
    for index in range(count):
        type_ = op.local_operand(index)
        results.append(type_.of_shape((*type_.shape[:dim], wanted, *type_.shape[dim + 1 :])))
    return emit.ops("stablehlo.custom_call", op.operands, results, **attributes)


APPROXIMATE_CALLS = op_table([OpDef(APPROXIMATE_TOP_K, approximate_top_k_rule, localize_approximate_top_k)])
