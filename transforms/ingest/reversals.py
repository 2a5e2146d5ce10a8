"""Erases reversals that cancel each other, and reverses the operations between them.

The gradient of a reversal is a reversal, and a sum along a reversed dimension is the same in either order. If the
dimension is split, each reversal exchanges shards between opposite ends.

    r = reverse(a)          |
    loss = sum(r * r)       |  loss = sum(a * a)
    p = pad(r, low=1)       |  p = pad(a, high=1)
    result = reverse(2 * p) |  result = 2 * p

An operation commutes with a reversal of a pass-through factor of its rule. Padding and slicing along a reversed
dimension change ends.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.errors import Error
from gspmd.dialect.rule import PASS_THROUGH, REDUCTION
from gspmd.transforms.ir.op_info import COMBINER_OF, InfoReader, infos_of
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ops import OPS, traits_of
from gspmd.transforms.ops.rules import RuleBook

REVERSE = "stablehlo.reverse"
_SAID = "sdy.sharding"
_REDUCE, _BROADCAST = "stablehlo.reduce", "stablehlo.broadcast_in_dim"
_CONSTANT, _IOTA = "stablehlo.constant", "stablehlo.iota"
_PAD, _SLICE, _CONCATENATE = "stablehlo.pad", "stablehlo.slice", "stablehlo.concatenate"
_LOW, _HIGH = "edge_padding_low", "edge_padding_high"
_DYNAMIC_SLICE, _DYNAMIC_UPDATE = "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
_DOT = "stablehlo.dot_general"
_IN_PARTS = frozenset(
    {
        *(_DOT, _REDUCE, _BROADCAST, "stablehlo.reshape", "stablehlo.transpose"),
        *("stablehlo.reduce_window", "stablehlo.convolution"),
    }
)
"""The operations, besides elementwise ones, that treat all positions of a pass-through factor alike."""

_Dims = frozenset[int]
_NONE: _Dims = frozenset()

MAX_REVERSED = 4096
"""The maximum number of values followed from one reversal."""


def cancel_reversals(main: Operation) -> None:
    """Erase or shrink the reversals of a function without calls."""
    assert main.parent is not None
    infos, rules = infos_of(main.parent), RuleBook(OPS)
    for op in [op for op in main.walk() if op.name == REVERSE]:
        if op.block is not None:  # otherwise erased with another one
            found = _ReversedValues(infos, rules)
            if found.reach(op):
                found.turn()


class _ReversedValues:
    """Values of a block that are reversed together, each along the dimensions in `dims`."""

    def __init__(self, infos: InfoReader, rules: RuleBook) -> None:
        self._infos, self._rules = infos, rules
        self.dims: dict[Value, _Dims] = {}
        self._turned: dict[Operation, None] = {}  # reversals, and operations that pad or cut at the other end
        self._pending: list[Value] = []

    def reach(self, reversal: Operation) -> bool:
        """Follow the result of a reversal to producers and consumers.

        Returns whether the change reverses fewer elements.
        """
        block = reversal.block
        self._reverse(reversal.result, _ints(reversal, "dimensions"))
        while self._pending:
            value = self._pending.pop()
            maker = value.op
            if maker is None or len(self.dims) > MAX_REVERSED:
                return False
            for op in dict.fromkeys((maker, *value.users)):
                if op.block is not block or not self._follow(op):
                    return False
        reversals = [op for op in self._turned if op.name == REVERSE]
        left = [(self._left(op), _ints(op, "dimensions")) for op in reversals]
        return all(after <= before for after, before in left) and any(after < before for after, before in left)

    def turn(self) -> None:
        """Rewrite the operations to compute the values in the order before the reversal."""
        for op, dims in [(op, self._left(op) if op.name == REVERSE else self._around(op)) for op in self._turned]:
            if op.name == _PAD:
                _turn_pad(op, dims)
            elif op.name == _SLICE:
                _turn_slice(op, dims)
            elif op.name == _CONCATENATE:
                if op.attributes["dimension"].value in dims:
                    for index, value in enumerate(list(reversed(op.operands))):
                        op.operands[index] = value
            elif dims:
                op.attributes["dimensions"] = ir.DenseI64ArrayAttr.get(sorted(dims))
            else:
                op.replace(list(op.operands))

    # ---- which values are reversed ----

    def _of(self, value: Value) -> _Dims:
        return self.dims.get(value, _NONE)

    def _reverse(self, value: Value, dims: _Dims) -> None:
        """Reverse a value along these dimensions, too."""
        dims = frozenset(dim for dim in dims if value.type.shape[dim] > 1)
        if not dims <= self._of(value):
            self.dims[value] = self._of(value) | dims
            self._pending.append(value)

    def _follow(self, op: Operation) -> bool:
        """Reverse the operands and results of an operation as one of them requires.

        Returns whether this is possible.
        """
        if op.name == REVERSE:
            return self._follow_reversal(op)
        if op.name == CONSTRAINT or self._is_elementwise(op):
            return self._follow_alike([value for value in (*op.operands, *op.results) if value.type.shape])
        if op.name in (_PAD, _SLICE):
            return self._follow_alike([op.operands[0], *op.results], op)
        if op.name == _CONCATENATE:
            return self._follow_alike([*op.operands, *op.results], op)
        if op.name in (_DYNAMIC_SLICE, _DYNAMIC_UPDATE):
            return self._follow_part(op)
        return op.name in _IN_PARTS and self._follow_factors(op)

    def _follow_reversal(self, op: Operation) -> bool:
        """A second reversal restores the order."""
        taken, made, dims = op.operands[0], op.result, _ints(op, "dimensions")
        if _SAID in op.attributes:
            return False
        if made not in self.dims:
            self._reverse(made, self._of(taken) - dims)
        elif taken not in self.dims:
            self._reverse(taken, self._of(made) - dims)
        self._turned[op] = None
        return True

    def _follow_alike(self, values: list[Value], turned: Operation | None = None) -> bool:
        """Reverse all of these values along the same dimensions."""
        dims = _NONE.union(*map(self._of, values))
        self._reverse_all(values, [dims] * len(values))
        if turned is not None and dims:
            self._turned[turned] = None
        return True

    def _follow_part(self, op: Operation) -> bool:
        """A dynamic slice may start anywhere: it can be reversed only along dimensions that it does not cut."""
        values = [op.operands[0], *op.results, *(op.operands[1:2] if op.name == _DYNAMIC_UPDATE else ())]
        dims = _NONE.union(*map(self._of, values))
        if any(len({value.type.shape[dim] for value in values}) > 1 for dim in dims):
            return False
        return self._follow_alike(values)

    def _follow_factors(self, op: Operation) -> bool:
        """Reverse dimensions together with all that share a factor with them."""
        values = [*op.operands, *op.results]
        try:
            number = self._rules.of_op(self._infos(op, tuple([value.type for value in op.operands])), op)
        except Error:
            return False  # later stages report the error
        rule = self._rules.rules[number]
        factors = [[{f for f in dim if rule.sizes[f] > 1} for dim in tensor] for tensor in rule.tensors]
        turned = {f for value, dims in zip(values, factors, strict=True) for d in self._of(value) for f in dims[d]}
        kinds = (PASS_THROUGH, REDUCTION) if self._sums(op) else (PASS_THROUGH,)
        if any(rule.kinds[factor] not in kinds for factor in turned):
            return False
        if any(not dims[d] for value, dims in zip(values, factors, strict=True) for d in self._of(value)):
            return False
        if any(dim & turned and not dim <= turned for tensor in factors for dim in tensor):
            return False
        self._reverse_all(values, [frozenset(d for d, dim in enumerate(dims) if dim & turned) for dims in factors])
        return True

    def _reverse_all(self, values: list[Value], dims: list[_Dims]) -> None:
        """Values that equal their reversal stay as they are."""
        for value, each in zip(values, dims, strict=True):
            if value in self.dims or not _is_symmetric(value, each):
                self._reverse(value, each)

    @staticmethod
    def _is_elementwise(op: Operation) -> bool:
        shapes = {value.type.shape for value in (*op.operands, *op.results)} - {()}
        return traits_of(op.name).elementwise and bool(op.operands) and len(shapes) == 1

    @staticmethod
    def _sums(op: Operation) -> bool:
        """Whether an operation is a sum, which allows any order of its elements."""
        if op.name == _DOT:
            return True
        operations = list(op.regions[0]) if op.name == _REDUCE else []
        return len(operations) == 2 and operations[0].name in COMBINER_OF

    def _left(self, op: Operation) -> _Dims:
        """The dimensions that a reversal must still reverse."""
        dims = frozenset(dim for dim in _ints(op, "dimensions") if op.result.type.shape[dim] > 1)
        return dims ^ self._of(op.operands[0]) ^ self._of(op.result)

    def _around(self, op: Operation) -> _Dims:
        """The reversed dimensions of either side; the other side may have one element there."""
        return self._of(op.operands[0]) | self._of(op.result)


def from_the_end(size: int, start: int, made: int, stride: int) -> tuple[int, int]:
    """Where a slice of `made` elements starts and where it ends, of `size` elements in reverse order."""
    return size - 1 - start - (made - 1) * stride, size - start


def _turn_pad(op: Operation, dims: _Dims) -> None:
    low, high = _list(op, _LOW), _list(op, _HIGH)
    for dim in dims:
        low[dim], high[dim] = high[dim], low[dim]
    op.attributes[_LOW], op.attributes[_HIGH] = map(ir.DenseI64ArrayAttr.get, (low, high))


def _turn_slice(op: Operation, dims: _Dims) -> None:
    names = ("start_indices", "limit_indices", "strides")
    starts, limits, strides = (_list(op, name) for name in names)
    for dim in [dim for dim in dims if op.result.type.shape[dim]]:
        size, made = op.operands[0].type.shape[dim], op.result.type.shape[dim]
        starts[dim], limits[dim] = from_the_end(size, starts[dim], made, strides[dim])
    for name, numbers in zip(names, (starts, limits, strides), strict=True):
        op.attributes[name] = ir.DenseI64ArrayAttr.get(numbers)


def _list(op: Operation, name: str) -> list[int]:
    return [int(number) for number in op.attributes[name]]


def _ints(op: Operation, name: str) -> _Dims:
    return frozenset(_list(op, name))


def _is_symmetric(value: Value, dims: _Dims) -> bool:
    """Whether a value equals its reversal: along each dimension it has one element, or equal ones."""
    shape, maker = value.type.shape, value.op
    if all(shape[dim] <= 1 for dim in dims):
        return True
    if maker is None:
        return False
    if maker.name == _CONSTANT:
        attribute = maker.attributes["value"]
        return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
    if maker.name == _IOTA:
        return maker.attributes["iota_dimension"].value not in dims
    if maker.name == _BROADCAST:
        (source,) = maker.operands
        placed = [int(n) for n in maker.attributes["broadcast_dimensions"]]
        return all(dim not in dims or size == 1 for dim, size in zip(placed, source.type.shape, strict=True))
    return False
