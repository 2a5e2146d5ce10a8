"""Evaluation of operations on integers: the values of an element on all devices, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gspmd.transforms.ir.operations import Operation

Integers = npt.NDArray[Any]
Evaluate = Callable[[Operation, str, list[Integers]], Integers | None]
"""A function of an operation, the numpy type of its result, and its operands; None if the result is unknown."""


def _binary(compute: Callable[[Integers, Integers], Integers]) -> Evaluate:
    """For integers, not booleans."""
    return lambda op, dtype, operands: None if dtype == "bool" else compute(*operands)


def _quotient(compute: Callable[[Integers, Integers], Integers]) -> Evaluate:
    """Unknown for division by zero."""
    return lambda op, dtype, operands: compute(*operands) if dtype != "bool" and operands[1].all() else None


def _divide(a: Integers, b: Integers) -> Integers:
    quotient: Integers = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return quotient.astype(a.dtype)


def the_same(op: Operation, dtype: str, operands: list[Integers]) -> Integers | None:
    """The value, converted if the type changes."""
    return operands[0].astype(dtype) if len(operands) == 1 else None


_COMPARE: dict[str, Callable[[Integers, Integers], Integers]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip


def _compare(op: Operation, dtype: str, operands: list[Integers]) -> Integers:
    text = str(op.attributes["comparison_direction"])
    return next(compare(*operands) for key, compare in _COMPARE.items() if f" {key}>" in text)


def _select(op: Operation, dtype: str, operands: list[Integers]) -> Integers:
    return np.where(*operands)


def _clamp(op: Operation, dtype: str, operands: list[Integers]) -> Integers:
    low, value, high = operands
    return np.minimum(np.maximum(value, low), high)


OF_ELEMENTS: dict[str, Evaluate] = {
    "add": _binary(np.add),
    "subtract": _binary(np.subtract),
    "multiply": _binary(np.multiply),
    "divide": _quotient(_divide),
    "remainder": _quotient(np.fmod),
    "minimum": _binary(np.minimum),
    "maximum": _binary(np.maximum),
    "and": _binary(np.bitwise_and),
    "or": _binary(np.bitwise_or),
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": the_same,
}
"""The evaluators of elementwise StableHLO operations, by name."""
