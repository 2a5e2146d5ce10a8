"""Computes an operation on whole arrays with XLA, in double precision: those that have no terms of their own.

A result that is not proved is refuted by numbers; programs themselves are not compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.errors import Error
from gspmd.transforms.ir.operations import Block, Operation
from gspmd.transforms.ir.operations import Value as Name
from gspmd.verification.attributes import integer, ints
from gspmd.verification.not_known import NotKnown

Array = npt.NDArray[Any]

_NARROW = re.compile(r"(?<=[x<])(bf16|f16|f32)(?=>)")
_NUMBER_OF_BITS = re.compile(r"dense<\"?0x")
_CALLS = ("custom_call", "composite")


class Computing:
    """Operations, each compiled once."""

    def __init__(self) -> None:
        self._programs: dict[str, Any] = {}

    def results(self, op: Operation, operands: Sequence[Array], otherwise: bool) -> list[Array]:
        """The results of an operation. Raises NotKnown for one that is not computed alone.

        `otherwise` chooses another order where the operation leaves the order open.
        """
        text = _program(op)
        if otherwise:
            operands = _reversed(op, operands)
        if text not in self._programs:
            self._programs[text] = _compiled(text)
        try:
            return [np.asarray(result) for result in self._programs[text](*operands)]
        except Error as error:
            raise NotKnown(error.message) from None


def _reversed(op: Operation, operands: Sequence[Array]) -> Sequence[Array]:
    """Operands of which a sort may take equal elements, a reduction elements and a scatter updates in reverse order."""
    count = len(op.results)
    if op.name == "stablehlo.sort" and "true" not in str(op.attributes.get("is_stable")):
        return [np.flip(each, integer(op, "dimension")) for each in operands]
    if op.name == "stablehlo.reduce":
        return [*(np.flip(each, tuple(ints(op, "dimensions"))) for each in operands[:count]), *operands[count:]]
    if op.name == "stablehlo.scatter":
        named = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
        indices, updates = operands[count], operands[count + 1 :]
        of_indices = tuple(d for d in range(indices.ndim) if d != named.index_vector_dim)
        of_updates = tuple(d for d in range(updates[0].ndim) if d not in named.update_window_dims)
        turned = [np.flip(each, of_updates) for each in updates]
        return [*operands[:count], np.flip(indices, of_indices), *turned]
    return operands


def _compiled(text: str) -> Any:
    from gspmd.runtime.executable import compile_single  # imports jax, which proofs do not need

    try:
        return compile_single(text)
    except Error as error:
        raise NotKnown(error.message) from None


def _program(op: Operation) -> str:
    """A program of one operation, with floats in double precision. Raises NotKnown."""
    given = [f"%a{number}" for number in range(len(op.operands))]
    body = _written(op, given, {}, [0])
    operands = ", ".join(f"{name}: {operand.type.text}" for name, operand in zip(given, op.operands, strict=True))
    results = ", ".join(f"%0#{number}" for number in range(len(op.results)))
    types = ", ".join(result.type.text for result in op.results)
    text = f"func.func @main({operands}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}"
    if _NUMBER_OF_BITS.search(text) or any(call in text for call in _CALLS):
        raise NotKnown("an operation that is not computed alone")
    return _NARROW.sub("f64", text)


def _written(op: Operation, operands: Sequence[str], names: dict[Name, str], count: list[int]) -> str:
    """An operation and its regions in the generic form of MLIR."""
    name = f"%{count[0]}"
    count[0] += 1
    for number, result in enumerate(op.results):
        names[result] = f"{name}#{number}"
    regions = ", ".join(_region(region, names, count) for region in op.regions)
    attributes = ", ".join(f"{key} = {value}" for key, value in op.attributes.items() if "." not in key)
    types = [", ".join(each.type.text for each in values) for values in (op.operands, op.results)]
    results = f"{name}:{len(op.results)} = " if op.results else ""
    return (
        f'{results}"{op.name}"({", ".join(operands)}){f" ({regions})" if regions else ""} {{{attributes}}} '
        f": ({types[0]}) -> ({types[1]})"
    )


def _region(block: Block, names: dict[Name, str], count: list[int]) -> str:
    inner = dict(names)
    for argument in block.arguments:
        inner[argument] = f"%b{count[0]}"
        count[0] += 1
    arguments = ", ".join(f"{inner[argument]}: {argument.type.text}" for argument in block.arguments)
    lines = []
    for op in block:
        if any(operand not in inner for operand in op.operands):
            raise NotKnown("a region that uses outer values")
        lines.append(_written(op, [inner[operand] for operand in op.operands], inner, count))
    body = "\n".join(lines)
    return f"{{\n^bb0({arguments}):\n{body}\n}}"
