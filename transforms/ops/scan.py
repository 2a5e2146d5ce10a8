"""scan: a computation along one dimension, slice by slice."""

from __future__ import annotations

from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.elementwise import OPS as ELEMENTWISE
from gspmd.transforms.ops.op_definition import OpDef, op_table

# These would change shapes inside the body, or have regions.
_NOT_IN_BODY = {"stablehlo.map", "stablehlo.bitcast_convert"}


def scan_rule(info: OpInfo) -> OpShardingRule:
    """If the body is elementwise, all dimensions except the scanned one pass through.

    Other bodies, and slices of different shapes, are not split.
    """
    scanned = info.integer("dimension")
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)
    rank = max((len(shape) for shape in operands), default=0)
    if not _is_pointwise(info, rank, scanned):
        return builder.build()

    def places(shapes: list[tuple[int, ...]], dim: int) -> list[int | None]:
        """The dimension of whole tensors in these, some of which are slices, which lack the scanned one."""
        return [dim if len(shape) == rank else dim - (dim > scanned) for shape in shapes]

    whole = next(shape for shape in operands if len(shape) == rank)
    for dim, size in enumerate(whole):
        if dim != scanned:
            builder.factor(places(operands, dim), places(results, dim), size)
    return builder.build()


def _is_pointwise(info: OpInfo, rank: int, scanned: int) -> bool:
    shapes = {t.shape if t.rank < rank else (*t.shape[:scanned], *t.shape[scanned + 1 :]) for t in info.operands}
    computed = set(info.body) - {"stablehlo.return", "..."}
    return len(shapes) == 1 and rank > 0 and computed <= ELEMENTWISE.keys() - _NOT_IN_BODY


def localize_scan(op: LocalOp) -> None:
    """The body's values have the type of a slice, global before and per device after."""
    op.keep()
    scanned, rank = op.info.integer("dimension"), max(t.rank for t in op.info.operands)
    local = op.local_operand(0)
    shape = local.shape if local.rank < rank else (*local.shape[:scanned], *local.shape[scanned + 1 :])
    if not any(op.operand_axes(i, d) for i, t in enumerate(op.info.operands) for d in range(t.rank)):
        return
    for region in op.ir.regions:
        inner = [value for inside in region for value in inside.results]
        for value in [*region.arguments, *inner]:
            value.type = value.type.of_shape(shape)


OPS = op_table([OpDef("chlo.scan", scan_rule, localize_scan)])
