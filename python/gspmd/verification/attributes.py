"""Reads attributes of operations as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import Integers
from gspmd.verification.not_known import NotKnown
from gspmd.verification.numbers import OF_BOOLEANS, bits_of, float_bits, is_float

_COMPLEX = re.compile(r"dense<\((\S+?), ?(\S+?)\)>")


def ints(op: Operation, name: str) -> list[int]:
    """An attribute that is a list of integers; empty when absent."""
    attribute = op.attributes.get(name)
    if attribute is None:
        return []
    if isinstance(attribute, ir.DenseElementsAttr):
        return [int(x) for x in np.array(ir.DenseIntElementsAttr(attribute)).reshape(-1)]
    return [int(x) for x in attribute]


def integer(op: Operation, name: str, default: int = 0) -> int:
    attribute = op.attributes.get(name)
    return default if attribute is None else int(attribute.value)


def table(attribute: Any, shape: tuple[int, ...]) -> Integers:
    """A matrix of integers, such as replica groups."""
    return np.array(ir.DenseIntElementsAttr(attribute), np.int64).reshape(shape)


def shape_of(attribute: Any) -> tuple[int, ...]:
    return tuple(ir.ShapedType(attribute.type).shape)


def elements(attribute: Any, shape: tuple[int, ...], element: str) -> Integers:
    """The numbers of a dense constant, encoded as in `numbers`; of rank 0 for a splat. Raises NotKnown."""
    found = _elements(attribute, shape, element)
    if (found == ANY).any():
        raise NotKnown(f"the constant {ANY}, or a NaN with these bits")
    return found


def _elements(attribute: Any, shape: tuple[int, ...], element: str) -> Integers:
    if not isinstance(attribute, ir.DenseElementsAttr) or (bits_of(element) is None and not is_float(element)):
        raise NotKnown(f"constants of type '{element}'")
    if attribute.is_splat:
        value = attribute.get_splat_value()
        given = value.value
        return np.asarray(float_bits(float(given)) if is_float(element) else _signed(int(given), element), np.int64)
    if is_float(element):
        floats = _floats(attribute, element)
        return np.asarray(floats.astype(np.float64).view(np.int64).reshape(shape))
    return np.array(ir.DenseIntElementsAttr(attribute)).astype(np.int64).reshape(shape)


def complex_splat(attribute: Any, element: str) -> tuple[int, int]:
    """The real and the imaginary part of a complex splat, which the bindings have only as text.

    Raises NotKnown for any other constant.
    """
    found = _COMPLEX.search(str(attribute))
    try:
        if found is not None:
            return float_bits(float(found[1])), float_bits(float(found[2]))
    except ValueError:  # a bit pattern, as of a NaN
        pass
    raise NotKnown(f"constants of type '{element}'")


def _signed(value: int, element: str) -> int:
    return value - 2**64 if element in ("ui64", "i64") and value >= 2**63 else value


def _floats(attribute: Any, element: str) -> Any:
    try:
        return np.array(ir.DenseFPElementsAttr(attribute), np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise NotKnown(f"constants of type '{element}'") from None


def notes(op: Operation, names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Attributes as text, without those that have their default values."""
    found = []
    for name, default in names.items():
        attribute = op.attributes.get(name)
        text = default if attribute is None else str(attribute)
        if text != default:
            found.append((name, text))
    return tuple(found)


def reducer(block: Block) -> str | None:
    """The name of the operation that combines two elements in a region, without its dialect; None for other regions."""
    inside = [op for op in block if op.name != CONSTRAINT]
    if len(inside) != 2 or len(block.arguments) != 2:
        return None
    op, terminator = inside
    if {*map(_unconstrained, op.operands)} != {*block.arguments}:
        return None
    if [*map(_unconstrained, terminator.operands)] != op.results:
        return None
    name = op.name.removeprefix("stablehlo.")
    if op.results[0].type.element == "i1":
        name = OF_BOOLEANS.get(name, name)
    return name if name in MONOIDS else None


def _unconstrained(value: Value) -> Value:
    """The value before sharding constraints, which JAX also writes into reducers."""
    while value.op is not None and value.op.name == CONSTRAINT:
        value = value.op.operands[0]
    return value


def replaces(block: Block) -> bool:
    """Whether a region of two elements returns the second one."""
    return len(list(block)) == 1 and list(block.terminator.operands) == list(block.arguments[1:])


MONOIDS = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})
