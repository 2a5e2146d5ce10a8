"""The trip count of while loops."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

from jaxlib.mlir import ir

from gspmd.transforms.ir.op_info import COMBINER_OF, CONSTANT
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.program import WHILE

_Home = TypeVar("_Home")


class LoopNest(Generic[_Home]):
    """The loops around a point, the outermost first: the block around each, or its number, and its iterations."""

    def __init__(self) -> None:
        self._loops: list[tuple[_Home, int]] = []

    def enter(self, block: _Home, loop: Operation) -> int:
        """Enter a loop; returns its iterations, 1 if unknown."""
        trips = trip_count(loop) or 1
        self._loops.append((block, trips))
        return trips

    def leave(self) -> None:
        self._loops.pop()

    def __bool__(self) -> bool:
        return bool(self._loops)

    def outermost(self, home: _Home) -> int | None:
        """The number of the loop in the block `home` of a value; the value may be resharded before this loop."""
        return next((number for number, (block, _) in enumerate(self._loops) if block == home), None)

    def runs_with(self, home: _Home) -> int:
        """The executions of the point for each reshard of a value from block `home`."""
        number = self.outermost(home)
        return 1 if number is None else math.prod(trips for _, trips in self._loops[number:])


def runs_of(op: Operation) -> int:
    """The executions of an operation per call of the program; loops with unknown trip counts count once."""
    runs, around = 1, op.parent
    while around is not None:
        if around.name == WHILE:
            runs *= trip_count(around) or 1
        around = around.parent
    return runs


def trip_count(loop: Operation) -> int | None:
    """The iterations of a `stablehlo.while` that counts up from a constant to a constant, or None.

    Counted loops lower to this form: the condition compares a loop variable with a constant by less-than, and the body
    adds a positive constant to it.
    """
    condition, body = loop.regions
    compare = condition.terminator.operands[0].op
    if compare is None or "LT" not in str(compare.attributes.get("comparison_direction")):
        return None
    counter = _argument_number(compare.operands[0], condition)
    limit = constant_integer(compare.operands[1])
    if counter is None or limit is None:
        return None
    start = constant_integer(loop.operands[counter])
    step = _step(body.terminator.operands[counter], body, counter)
    if start is None or step is None or step <= 0:
        return None
    return max(0, -(-(limit - start) // step))


def _step(value: Value, body: Block, counter: int) -> int | None:
    add = value.op
    if add is None or COMBINER_OF.get(add.name) != "add":
        return None
    for mine, other in ((0, 1), (1, 0)):
        if _argument_number(add.operands[mine], body) == counter:
            return constant_integer(add.operands[other])
    return None


def _argument_number(value: Value, block: Block) -> int | None:
    return value.index if value.owner is block else None


def constant_integer(value: Value) -> int | None:
    """The integer value of all elements of a constant; None for other values."""
    owner = value.op
    if owner is None or owner.name != CONSTANT:
        return None
    attribute = owner.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.maybe_downcast()  # an attribute created in this process has the general class
    if not isinstance(attribute, ir.DenseIntElementsAttr) or not attribute.is_splat:
        return None
    return int(ir.IntegerAttr(attribute.get_splat_value()).value)
