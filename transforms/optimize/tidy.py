"""Merge equal operations, join reshapes, and drop unused operations.

As in MLIR's `cse`, an operation without side effects is equal to an earlier one in scope with the same name, operands,
attributes, types and regions. Here, commutative operations may also have their operands in another order. Allocations
stay apart: a shared one would have to be copied before each use but the last.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from gspmd.transforms.analysis.unused import PlainOps, is_used
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ops import traits_of_op

_MODULE, _FUNCTION = "builtin.module", "func.func"

_Scope: TypeAlias = dict[tuple[Hashable, ...], list[Operation]]
"""Operations by their names and operands, or without operands by their attributes."""


def tidy(top: Operation) -> None:
    """Merge and drop operations inside an operation."""
    tidier = _Tidier()
    for region in top.regions:
        tidier.block(region, [])


class _Tidier:
    def __init__(self) -> None:
        self._plain = PlainOps()
        self._commuting: dict[str, bool] = {}
        self._reshaping: dict[str, bool] = {}

    def block(self, block: Block, seen: list[_Scope]) -> None:
        """Tidy a block. `seen` are the operations in scope, those of outer blocks first."""
        own: _Scope = {}
        scopes = [*seen, own]
        last = None if block.owner is not None and block.owner.name == _MODULE else block.last
        for op in block:
            if op is last:
                break
            plain = self._plain.has(op)
            if plain and op.results and not is_used(op):
                op.erase()
                continue
            if op.regions:
                inner = [] if op.name == _FUNCTION else scopes
                for region in op.regions:
                    self.block(region, inner)
            if plain and self._reshapes(op) and self._join(op):
                continue
            if plain and not (op.name == CUSTOM_CALL and traits_of_op(op).allocates):
                self._merge(op, scopes, own)
        left = None if last is None else last.previous
        while left is not None:  # dropping an operation may leave its operands unused
            before = left.previous
            if left.results and not is_used(left) and self._plain.has(left):
                left.erase()
            left = before

    def _join(self, op: Operation) -> bool:
        """Let a reshape read what an earlier one reads; returns whether it is not needed."""
        value = op.operands[0]
        while value.op is not None and self._reshapes(value.op):
            value = value.op.operands[0]
        op.operands[0] = value
        if value.type == op.results[0].type:
            op.replace([value])
            return True
        return False

    def _reshapes(self, op: Operation) -> bool:
        known = self._reshaping.get(op.name)
        if known is None:
            traits = traits_of_op(op)
            known = self._reshaping[op.name] = traits.view and traits.rearranges
        return known

    def _merge(self, op: Operation, scopes: list[_Scope], own: _Scope) -> None:
        """Replace an operation by an equal earlier one, if there is one."""
        operands = op.operands
        key: tuple[Hashable, ...]
        if not operands:
            key = (op.name, frozenset(op.attributes.items()))
        elif len(operands) > 1 and self._commutes(op):
            key = (op.name, *sorted(operands, key=id))
        else:
            key = (op.name, *operands)
        for scope in scopes:
            for known in scope.get(key, ()):
                if _are_equal(op, known, {}):
                    op.replace(known.results)
                    return
        own.setdefault(key, []).append(op)

    def _commutes(self, op: Operation) -> bool:
        known = self._commuting.get(op.name)
        if known is None:
            known = self._commuting[op.name] = traits_of_op(op).commutes
        return known


def _are_equal(op: Operation, other: Operation, inside: dict[Value, Value]) -> bool:
    """Whether two operations of the same name and operands have the same attributes, types and regions.

    `inside` maps the values of the regions of the first to those of the second.
    """
    if len(op.results) != len(other.results) or len(op.regions) != len(other.regions):
        return False
    if any(mine.type != its.type for mine, its in zip(op.results, other.results, strict=True)):
        return False
    return op.attributes == other.attributes and all(
        _regions_equal(region, its, inside) for region, its in zip(op.regions, other.regions, strict=True)
    )


def _regions_equal(region: Block, other: Block, inside: dict[Value, Value]) -> bool:
    mine, its = list(region), list(other)
    if len(mine) != len(its) or [a.type for a in region.arguments] != [a.type for a in other.arguments]:
        return False
    inside.update(zip(region.arguments, other.arguments, strict=True))
    for op, twin in zip(mine, its, strict=True):
        operands = [inside.get(value, value) for value in op.operands]
        if op.name != twin.name or not _match(operands, list(twin.operands), traits_of_op(op).commutes):
            return False
        if not _are_equal(op, twin, inside):
            return False
        inside.update(zip(op.results, twin.results, strict=True))
    return True


def _match(operands: list[Value], others: list[Value], commutes: bool) -> bool:
    return operands == others or (commutes and sorted(operands, key=id) == sorted(others, key=id))
