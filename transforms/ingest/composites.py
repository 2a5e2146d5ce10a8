"""Composites are replaced by their decompositions.

A composite with the name of a CHLO operation becomes that operation only if its decomposition is the one that
StableHLO's own pass emits, as in programs exported by JAX. Any other becomes a call of its decomposition.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from jaxlib.mlir import ir

from gspmd.transforms.ingest.annotations import entries_of
from gspmd.transforms.ir.modules import functions
from gspmd.transforms.ir.native import module_of, try_native
from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.parsing.attribute_text import text_of

_EXPAND = "func.func(chlo-legalize-to-stablehlo)"
# Operations of one operand with the same name in CHLO, MHLO, custom calls and composites.
POINTWISE = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erf_inv", "sinh", "square")
_CHLO = {f"chlo.{name}" for name in (*POINTWISE, "top_k")}
# Attributes that may be absent at their defaults; portable artifacts contain them.
_DEFAULTS = {"compare_type": "NOTYPE", "result_accuracy": "DEFAULT"}


class Expansions:
    """Compares decompositions with those of StableHLO, each once."""

    def __init__(self, functions: Mapping[str, Operation]) -> None:
        """`functions` are the functions of the module, by name."""
        self._functions = functions
        self._known: dict[tuple[str, str, ir.Attribute | None], bool] = {}

    def known_operation(self, composite: Operation) -> str | None:
        """The CHLO operation that the composite equals by name and by decomposition."""
        attributes = composite.attributes
        name, decomposition = text_of(attributes["name"]), str(attributes["decomposition"].value)
        if name not in _CHLO or composite.regions:
            return None
        given = attributes.get("composite_attributes")
        key = (name, decomposition, given)
        if key not in self._known:
            expansion = _expansion(composite, name, {} if given is None else entries_of(given))
            self._known[key] = expansion is not None and _alike(expansion, self._functions[decomposition])
        return name if self._known[key] else None


def _expansion(composite: Operation, name: str, attributes: dict[str, ir.Attribute]) -> Operation | None:
    """The function that StableHLO's pass emits for the operation.

    None if the operation is invalid for these operands.
    """
    wanted = Operation(
        name, composite.operands, [value.type for value in composite.results], attributes, composite.location
    )
    module = module_of(wanted)
    wanted.erase()
    return functions(module)[0] if try_native(module, _EXPAND) else None


def _alike(one: Operation, other: Operation) -> bool:
    """Whether two functions compute the same results with the same operations."""
    numbering = _ExpressionNumbers()
    first, second = (numbering.of_block(function.regions[0], {}) for function in (one, other))
    return first == second


class _ExpressionNumbers:
    """Numbers expressions; equal expressions get equal numbers, whatever the order and sharing of operations.

    Unused operations are ignored; decompositions of CHLO have no side effects.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def _number(self, expression: Hashable) -> int:
        return self._numbers.setdefault(expression, len(self._numbers))

    def of_block(self, block: Block, around: Mapping[Value, Hashable]) -> int:
        """The number of the result of a block, as an expression of its arguments and of the values `around`."""
        known = dict(around)
        for argument in block.arguments:
            known[argument] = ("argument", len(known), argument.type)
        for op in block:
            operands = tuple(known[value] for value in op.operands)
            if op.name.endswith(".return"):
                return self._number(operands)
            regions = tuple(self.of_block(region, known) for region in op.regions)
            types = tuple(value.type for value in op.results)
            number = self._number((op.name, _attributes(op), operands, regions, types))
            for index, value in enumerate(op.results):
                known[value] = (number, index)
        raise AssertionError("a block ends with a return")


def _attributes(op: Operation) -> tuple[tuple[str, str], ...]:
    written = ((name, str(op.attributes[name])) for name in op.attributes)
    return tuple(sorted((name, text) for name, text in written if _DEFAULTS.get(name, "\0") not in text))
