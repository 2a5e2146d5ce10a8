"""batch_norm_inference, batch_norm_training, batch_norm_grad: statistics of every feature over all other dimensions."""

from __future__ import annotations

import math

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits


def batch_norm_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions pass through; the local form sums statistics over devices."""
    rank = info.operands[0].rank
    feature = info.integer("feature_index")
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)

    def places(dim: int, shapes: list[tuple[int, ...]], whole: tuple[int, ...]) -> list[int | None]:
        """The feature dimension in whole tensors and in vectors."""
        vector = 0 if dim == feature else None
        return [dim if index in whole else vector for index in range(len(shapes))]

    inference = info.name == "stablehlo.batch_norm_inference"
    whole = (0,) if rank == 1 or len(operands) == 3 or inference else (0, 4)
    for dim, size in enumerate(info.operands[0].shape):
        kind = PASS_THROUGH if dim == feature or inference else PERMUTATION
        builder.factor(places(dim, operands, whole), places(dim, results, (0,)), size, kind)
    return builder.build()


class _Statistics:
    """Sums over all dimensions except features and over all devices, in at least f32."""

    def __init__(self, op: LocalOp) -> None:
        self.op, self.emit = op, op.emit
        self.shape = op.info.operands[0].shape
        self.feature = op.info.integer("feature_index")
        self.dims = [d for d in range(len(self.shape)) if d != self.feature]
        self.axes: Axes = tuple(axis for dim in self.dims for axis in op.operand_axes(0, dim))
        self.count = math.prod(self.shape[d] for d in self.dims)
        self.given = op.info.operands[0].element
        self.element = "f64" if self.given == "f64" else "f32"
        self.epsilon = float(op.info.attributes["epsilon"].value)

    def wide(self, index: int) -> Value:
        """An operand, converted for the computation."""
        return self.emit.convert(self.op.operands[index], self.element)

    def narrow(self, value: Value) -> Value:
        return self.emit.convert(value, self.given)

    def masked(self, value: Value) -> Value:
        """A whole tensor with padding set to zero."""
        for dim in self.dims:
            axes = self.op.operand_axes(0, dim)
            if axes:
                value = self.emit.mask(value, dim, axes, self.shape[dim], "zero")
        return value

    def spread(self, vector: Value) -> Value:
        """A vector over features, broadcast to whole tensors."""
        type_ = TensorType(self.op.local_operand(0).shape, self.element)
        dims = self.emit.i64s([self.feature])
        return self.emit.op("stablehlo.broadcast_in_dim", [vector], [type_], broadcast_dimensions=dims)

    def sums(self, values: list[Value]) -> list[Value]:
        """The sums of whole tensors for every feature, in one all-reduce."""
        emit = self.emit
        features = TensorType((self.op.local_operand(0).shape[self.feature],), self.element)
        cause = self.op.cause(f"'{self.op.info.name}' takes statistics over a split dimension")
        rows = [emit.reshape(emit.sum_over(value, self.dims), (1, *features.shape)) for value in values]
        if len(rows) == 1:
            return [emit.reshape(emit.all_reduce(rows[0], self.axes, "add", cause), features.shape)]
        table = TensorType((len(rows), *features.shape), self.element)
        joint = emit.op("stablehlo.concatenate", rows, [table], dimension=emit.i64(0))
        summed = emit.all_reduce(joint, self.axes, "add", cause)
        return [self._row(summed, index) for index in range(len(rows))]

    def _row(self, table: Value, index: int) -> Value:
        type_ = table.type
        row = self.emit.op(
            "stablehlo.slice",
            [table],
            [type_.of_shape((1, type_.shape[1]))],
            start_indices=self.emit.i64s([index, 0]),
            limit_indices=self.emit.i64s([index + 1, type_.shape[1]]),
            strides=self.emit.i64s([1, 1]),
        )
        return self.emit.reshape(row, type_.shape[1:])

    def mean(self, total: Value) -> Value:
        return self.emit.binary("divide", total, self.emit.constant(total.type, float(self.count)))

    def shifted(self, variance: Value) -> Value:
        """The variance and epsilon."""
        return self.emit.binary("add", variance, self.emit.constant(variance.type, self.epsilon))

    def inverse_root(self, shifted: Value) -> Value:
        """The reciprocal of the standard deviation, from `shifted`."""
        return self.emit.op("stablehlo.rsqrt", [shifted], [shifted.type])


def localize_batch_norm_training(op: LocalOp) -> None:
    """The mean over all devices, then the variance about it."""
    s = _Statistics(op)
    if not s.axes:
        op.keep()
        return
    emit, value = op.emit, s.wide(0)
    (total,) = s.sums([s.masked(value)])
    mean = s.mean(total)
    centered = emit.binary("subtract", value, s.spread(mean))
    (squares,) = s.sums([s.masked(emit.binary("multiply", centered, centered))])
    variance = s.mean(squares)
    factor = emit.binary("multiply", s.wide(1), s.inverse_root(s.shifted(variance)))
    normal = emit.binary("multiply", centered, s.spread(factor))
    normal = emit.binary("add", normal, s.spread(s.wide(2)))
    op.replace([s.narrow(normal), s.narrow(mean), s.narrow(variance)])


def localize_batch_norm_grad(op: LocalOp) -> None:
    """Gradients from two sums, of the gradient and of its products with the centered operand.

    Products and quotients have the order of the StableHLO specification, so that they overflow in the same cases.
    """
    s = _Statistics(op)
    if not s.axes:
        op.keep()
        return
    emit, value, scale, gradient = op.emit, s.wide(0), s.wide(1), s.wide(4)
    centered = emit.binary("subtract", value, s.spread(s.wide(2)))
    variance = s.shifted(s.wide(3))
    inverse = s.inverse_root(variance)
    products = emit.binary("multiply", centered, gradient)
    offset, moment = s.sums([s.masked(gradient), s.masked(products)])
    along = emit.binary("multiply", s.spread(moment), centered)
    along = emit.binary("divide", along, s.spread(variance))
    whole = emit.binary("multiply", gradient, emit.constant(gradient.type, float(s.count)))
    rest = emit.binary("subtract", emit.binary("subtract", whole, s.spread(offset)), along)
    factor = s.mean(emit.binary("multiply", scale, inverse))
    made = emit.binary("multiply", s.spread(factor), rest)
    op.replace([s.narrow(made), s.narrow(emit.binary("multiply", moment, inverse)), s.narrow(offset)])


def normalization_flops(info: OpInfo) -> float:
    return 5.0 * math.prod(info.operands[0].shape)


_TRAITS = Traits(flops=Flops("elementwise", normalization_flops))

OPS = op_table(
    [
        OpDef("stablehlo.batch_norm_inference", batch_norm_rule, traits=_TRAITS),
        OpDef("stablehlo.batch_norm_training", batch_norm_rule, localize_batch_norm_training, traits=_TRAITS),
        OpDef("stablehlo.batch_norm_grad", batch_norm_rule, localize_batch_norm_grad, traits=_TRAITS),
    ]
)
