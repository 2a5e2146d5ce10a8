"""How often a counted while loop runs."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir


def trip_count(loop: Any) -> int | None:
    """Iterations of a `stablehlo.while` that counts up from a constant to a constant, else None.

    Recognised is what counted loops lower to: the condition compares a carried counter with a constant by
    less-than, and the body adds a positive constant to it.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    terminator = list(condition.operations)[-1].operation
    compare = _owner(terminator.operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return None
    if "LT" not in str(compare.attributes["comparison_direction"]):
        return None
    counter = _argument_number(compare.operands[0], condition)
    limit = constant_integer(compare.operands[1])
    if counter is None or limit is None:
        return None
    start = constant_integer(loop.operands[counter])
    step = _step(list(body.operations)[-1].operation.operands[counter], body, counter)
    if start is None or step is None or step <= 0:
        return None
    return max(0, -(-(limit - start) // step))


def _step(value: Any, body: Any, counter: int) -> int | None:
    add = _owner(value)
    if add is None or add.name != "stablehlo.add":
        return None
    for mine, other in ((0, 1), (1, 0)):
        if _argument_number(add.operands[mine], body) == counter:
            return constant_integer(add.operands[other])
    return None


def _owner(value: Any) -> Any:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _argument_number(value: Any, block: Any) -> int | None:
    for index, argument in enumerate(block.arguments):
        if argument == value:
            return index
    return None


def constant_integer(value: Any) -> int | None:
    """The one integer that all elements of a constant are; None for what is no such constant."""
    owner = _owner(value)
    if owner is None or owner.name != "stablehlo.constant":
        return None
    attribute = owner.attributes["value"]
    if not isinstance(attribute, ir.DenseIntElementsAttr) or not attribute.is_splat:
        return None
    return int(ir.IntegerAttr(attribute.get_splat_value()).value)
