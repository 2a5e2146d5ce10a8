"""An operation during its rewrite to the local form."""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.reducers import Fill
from gspmd.transforms.ir.types import TensorType


class LocalOp:
    """The input of a localizer.

    `ir` is the operation; its operands are shards already. `info` describes it globally, `rule` is its sharding rule,
    `operand_shardings` and `result_shardings` fit that rule, and `emit` builds before it. A localizer ends with
    `keep()` or `replace()`.
    """

    def __init__(
        self,
        ir_op: Operation,
        info: OpInfo,
        rule: OpShardingRule,
        operand_shardings: tuple[TensorSharding, ...],
        result_shardings: tuple[TensorSharding, ...],
        emit: Emitter,
    ) -> None:
        self.ir = ir_op
        self.info = info
        self.rule = rule
        self.operand_shardings = operand_shardings
        self.result_shardings = result_shardings
        self.emit = emit
        self.operands = list(ir_op.operands)
        self.replaced: Sequence[Value | None] | None = None

    # ---- shapes ----

    def local_operand(self, index: int) -> TensorType:
        return local_type(self.info.operands[index], self.operand_shardings[index])

    def local_result(self, index: int) -> TensorType:
        return local_type(self.info.results[index], self.result_shardings[index])

    # ---- factors ----

    def reduction_factors(self) -> list[int]:
        """The factors over which the result is partial."""
        return [f for f, kind in enumerate(self.rule.kinds) if kind is REDUCTION]

    def operand_dim(self, operand: int, factor: int) -> int | None:
        """The dimension of an operand that consists of this factor alone, or None."""
        for dim, factors in enumerate(self.rule.operands[operand]):
            if factors == (factor,):
                return dim
        return None

    def operand_axes(self, operand: int, dim: int) -> Axes:
        return self.operand_shardings[operand].dims[dim].axes

    def mask_operand(self, operand: int, dim: int, fill: Fill) -> None:
        """Replace the padding of an operand along `dim` by `fill` (see `Emitter.mask`)."""
        axes = self.operand_axes(operand, dim)
        if axes:
            size = self.info.operands[operand].shape[dim]
            self.operands[operand] = self.emit.mask(self.operands[operand], dim, axes, size, fill)

    def cause(self, text: str) -> Cause:
        return Cause(text, self.ir.location)

    # ---- ending ----

    def keep(self) -> None:
        """Keep the operation, with local types and the current operands."""
        for index, operand in enumerate(self.operands):
            self.ir.operands[index] = operand
        for index, result in enumerate(self.ir.results):
            result.type = self.local_result(index)

    def replace(self, values: Sequence[Value | None]) -> None:
        """Replace the results by other values and erase the operation. None is for a result without uses."""
        given = {*self.ir.operands}
        self.replaced = values = [v if v is None or v not in given else self.emit.alias(v) for v in values]
        for result, value in zip(self.ir.results, values, strict=True):
            if value is not None:
                result.replace_all_uses_with(value)
        self.ir.erase()


def local_type(type_: TensorType, sharding: TensorSharding) -> TensorType:
    """The per-device type of a value."""
    return TensorType(sharding.local_shape(type_.shape), type_.element, type_.is_tensor)
