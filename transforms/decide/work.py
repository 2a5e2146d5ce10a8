"""The work of an operation, without reshards of its operands and results."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.errors import Unsupported
from gspmd.dialect.placement import factor_axes
from gspmd.dialect.rule import PERMUTATION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.analysis.buffers import Buffers, bytes_of_value
from gspmd.transforms.emit.counting import Sent
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.local_form import sent_by
from gspmd.transforms.ops.op_definition import OpTable, Shardings, definition_of

CONTRACTIONS = ("dot", "convolution")
"""The kinds of arithmetic that should not be repeated."""


class WorkBook:
    """The arithmetic of operations and the communication of their local forms, memoized."""

    def __init__(self, table: OpTable, context: ir.Context) -> None:
        self.table, self._context = table, context
        self._flops: dict[OpInfo, float] = {}
        self._sent: dict[tuple[OpShardingRule, OpInfo, Shardings, Shardings], tuple[Sent, ...] | None] = {}

    def other_rules(self, info: OpInfo) -> tuple[OpShardingRule, ...]:
        """The rules of an operation besides the one for propagation."""
        definition = definition_of(self.table, info)
        return definition.others(info) if definition is not None and definition.others is not None else ()

    def flops_of(self, info: OpInfo) -> float:
        """The floating-point operations of the unpartitioned operation."""
        found = self._flops.get(info)
        if found is None:
            counted = traits_of(info.name).flops
            found = self._flops[info] = counted.count(info) if counted is not None else 0.0
        return found

    def local_form(
        self,
        rule: OpShardingRule,
        info: OpInfo,
        operands: tuple[TensorSharding, ...],
        results: tuple[TensorSharding, ...],
    ) -> tuple[Sent, ...] | None:
        """The collectives inside the local form, such as halos; None if there is no local form for the shardings."""
        definition = definition_of(self.table, info)
        if definition is None or definition.localize is None:
            return ()
        as_they_are = operands != results and definition.takes_any(info, operands + results)
        if not (_is_moved(rule, operands) or as_they_are):
            return ()
        key = rule, info, operands, results
        if key not in self._sent:
            try:
                self._sent[key] = sent_by(definition.localize, info, rule, operands, results, self._context)
            except Unsupported:
                self._sent[key] = None
        return self._sent[key]


_Bytes = TypeVar("_Bytes", float, npt.NDArray[np.float64])


def touched_bytes(info: OpInfo, held: list[_Bytes], touched: tuple[float, ...]) -> _Bytes | float:
    """The bytes that are read and written, given the bytes of operands and results, for one or all strategies.

    For look-ups and updates, only the accessed part counts. `touched` is the result of `touched_parts`.
    """
    count, traits = len(info.operands), traits_of(info.name)
    if traits.looks_up:
        held[0] = np.minimum(held[0], sum(held[count:]))
    if traits.update is not None:
        part = held[:count][traits.update]
        held[0], held[count] = np.minimum(held[0], part), np.minimum(held[count], part)
    return sum(part * each for part, each in zip(touched, held, strict=True))


def touched_parts(op: Op, buffers: Buffers) -> tuple[float, ...]:
    """The memory that an operation reads or writes for each byte of its operands and results.

    A fused operand counts with the memory of its own operands, each only once. An operation that is fused into its
    consumer reads and writes nothing.
    """
    program = buffers.program
    if buffers.is_virtual(op):
        return (0.0,) * (len(op.operands) + len(op.results))
    read: set[int] = set()
    found = []
    for value in op.operands:
        sources = buffers.sources((value,)) - read
        read |= sources
        whole = bytes_of_value(program, value)
        found.append(sum(bytes_of_value(program, source) for source in sources) / whole if whole else 0.0)
    return (*found, *(1.0 for _ in op.results))


def _is_moved(rule: OpShardingRule, operands: tuple[TensorSharding, ...]) -> bool:
    """Whether an operand is split along a factor that needs elements of other devices."""
    return any(rule.kinds[factor] is PERMUTATION for t, s in enumerate(operands) for factor in factor_axes(rule, t, s))
