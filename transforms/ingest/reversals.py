"""Reversals that undo each other, with elementwise operations and reductions between them, are taken out.

The gradient of a reversal is one: what is made of reversed values element by element is reversed again, and what is
summed up along a reversed dimension is the same in either order. Where the dimension is split, a device would exchange
its shard with the one at the other end twice.

    r = reverse(a)          |
    loss = sum(r * r)       |  loss = sum(a * a)
    result = reverse(2 * r) |  result = 2 * a
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.reducers import REDUCER_OF
from gspmd.transforms.ops import traits_of

REVERSE = "stablehlo.reverse"
_SAID = "sdy.sharding"
_REDUCE, _BROADCAST, _CONSTANT = "stablehlo.reduce", "stablehlo.broadcast_in_dim", "stablehlo.constant"


def cancel_reversals(main: Operation) -> None:
    """Take out the reversals of a function, without calls, of which nothing is left at the ends."""
    for op in [op for op in main.walk() if op.name == REVERSE]:
        if op.block is None:
            continue  # taken out with another one
        found = _Reversed(frozenset(int(n) for n in op.attributes["dimensions"]))
        if found.reach(op.result) and found.ends:
            for reversal in (*found.begins, *found.ends):
                reversal.replace(list(reversal.operands))


class _Reversed:
    """The values that are reversed along `dims` together, from the reversals `begins` to the reversals `ends`."""

    def __init__(self, dims: frozenset[int]) -> None:
        self.dims = dims
        self.begins: dict[Operation, None] = {}
        self.ends: dict[Operation, None] = {}

    def reach(self, start: Value) -> bool:
        """Follow a reversed value both ways; returns whether no end needs it reversed."""
        seen, pending = {start}, [start]
        while pending:
            value = pending.pop()
            maker = value.op
            if maker is None:
                return False
            if self._is_reversal(maker):
                self.begins[maker] = None
                around = []
            elif self._is_elementwise(maker):
                around = [each for each in maker.operands if each.type.shape and not self._is_symmetric(each)]
            else:
                return False
            for user in value.users:
                if self._is_reversal(user):
                    self.ends[user] = None
                elif self._is_elementwise(user):
                    around += [*user.results, *(v for v in user.operands if v.type.shape and not self._is_symmetric(v))]
                elif self._is_summed(user):
                    count = len(user.results)
                    around += [each for each in user.operands[:count] if not self._is_symmetric(each)]
                else:
                    return False
            fresh = [each for each in dict.fromkeys(around) if each not in seen]
            seen.update(fresh)
            pending += fresh
        return not self.begins.keys() & self.ends.keys()

    def _is_reversal(self, op: Operation) -> bool:
        return (
            op.name == REVERSE
            and _SAID not in op.attributes
            and self.dims == {int(n) for n in op.attributes["dimensions"]}
        )

    @staticmethod
    def _is_elementwise(op: Operation) -> bool:
        if op.name == CONSTRAINT:
            return True
        shapes = {value.type.shape for value in (*op.operands, *op.results)} - {()}
        return traits_of(op.name).elementwise and bool(op.operands) and len(shapes) == 1

    def _is_summed(self, op: Operation) -> bool:
        """Whether the values are reduced along all that is reversed, in whatever order."""
        if op.name != _REDUCE or not self.dims <= {int(n) for n in op.attributes["dimensions"]}:
            return False
        operations = list(op.regions[0])
        return len(operations) == 2 and operations[0].name in REDUCER_OF

    def _is_symmetric(self, value: Value) -> bool:
        """Whether a value is the same reversed: it has one element along each dimension, or equal ones."""
        shape, maker = value.type.shape, value.op
        if all(shape[dim] <= 1 for dim in self.dims):
            return True
        if maker is None:
            return False
        if maker.name == _CONSTANT:
            attribute = maker.attributes["value"]
            return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
        if maker.name == _BROADCAST:
            (source,) = maker.operands
            placed = [int(n) for n in maker.attributes["broadcast_dimensions"]]
            return all(dim not in self.dims or size == 1 for dim, size in zip(placed, source.type.shape, strict=True))
        return False
