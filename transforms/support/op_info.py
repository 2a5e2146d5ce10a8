"""What an operation is, apart from which values it reads: the key that everything memoised hangs on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxlib.mlir import ir


class TensorType(NamedTuple):
    """Shape and element type (MLIR's spelling) of a value; what is not a tensor has rank 0."""

    shape: tuple[int, ...]
    element: str
    is_tensor: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)


_ELEMENT_BITS = {"i1": 8, "index": 64}


def element_bytes(element: str) -> float:
    """Bytes that one element takes on the wire; i1 travels as a byte."""
    if element in _ELEMENT_BITS:
        return _ELEMENT_BITS[element] / 8
    if element.startswith("complex<"):
        return 2 * element_bytes(element[8:-1])
    if element.startswith("!quant"):
        return 1.0
    digits = "".join(c if c.isdigit() else " " for c in element).split()
    return int(digits[0]) / 8 if digits else 0.0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OpInfo:
    """An operation's name, types, attributes and the names of the operations in its region.

    Interned: operations with the same description share one object, so it hashes by identity.
    """

    name: str
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    attributes: Mapping[str, Any]
    body: tuple[str, ...]

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers; empty when absent."""
        attribute = self.attributes.get(name)
        if attribute is None:
            return ()
        if isinstance(attribute, ir.DenseElementsAttr):
            return tuple(int(x) for x in ir.DenseIntElementsAttr(attribute))
        return tuple(int(x) for x in attribute)

    def integer(self, name: str, default: int = 0) -> int:
        attribute = self.attributes.get(name)
        return default if attribute is None else int(attribute.value)

    def text(self, name: str) -> str:
        """A string attribute; empty when absent."""
        attribute = self.attributes.get(name)
        return "" if attribute is None else str(ir.StringAttr(attribute).value)


class TypeReader:
    """MLIR types as values, each read once."""

    def __init__(self) -> None:
        self._known: dict[Any, TensorType] = {}

    def __call__(self, type_: Any) -> TensorType:
        found = self._known.get(type_)
        if found is None:
            found = self._known[type_] = _read_type(type_)
        return found


def _read_type(type_: Any) -> TensorType:
    if isinstance(type_, ir.RankedTensorType):
        shaped = ir.RankedTensorType(type_)
        return TensorType(tuple(shaped.shape), str(shaped.element_type))
    return TensorType((), str(type_), is_tensor=False)


SKIPPED_ATTRIBUTES = frozenset({"sdy.sharding", "mhlo.frontend_attributes"})


class InfoReader:
    """Descriptions of operations, interned."""

    def __init__(self, types: TypeReader) -> None:
        self._types = types
        self._known: dict[Any, OpInfo] = {}

    def __call__(self, op: Any, name: str, operands: tuple[TensorType, ...], with_body: bool) -> OpInfo:
        """Describe `op` (an MLIR operation), whose name and operand types the caller has read already."""
        types = self._types
        results = tuple([types(r.type) for r in op.results])
        attributes = op.attributes
        try:
            pairs = tuple([(n, attributes[n]) for n in attributes if n not in SKIPPED_ATTRIBUTES])
        except TypeError:
            pairs = _complex_attributes(op)
        body = _body(op) if with_body and len(op.regions) else ()
        key = (name, operands, results, pairs, body)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = OpInfo(name, operands, results, dict(pairs), body)
        return found


def _complex_attributes(op: Any) -> tuple[tuple[str, str]]:
    """The bindings cannot represent complex constants: the operation's text stands for its attributes."""
    return (("value", str(op).partition(" = ")[2]),)


def _body(op: Any) -> tuple[str, ...]:
    """Names of the operations in the op's regions, its terminator last, as one flat list.

    A region that does not simply apply its one operation to its two arguments in order and return
    that is marked, so that `combiner` does not take it for a plain reduction.
    """
    names: list[str] = []
    for region in op.regions:
        for block in region.blocks:
            ops = list(block.operations)
            names.extend(o.operation.name for o in ops)
            if not _is_plain(block, ops):
                names.append("...")
    return tuple(names)


def _is_plain(block: Any, ops: list[Any]) -> bool:
    """Whether a block of 2 n arguments combines argument i with argument n + i, and returns that in order."""
    count = len(ops) - 1
    arguments = list(block.arguments)
    *combining, last = [view.operation for view in ops]
    if len(arguments) != 2 * count or len(last.operands) != count:
        return False
    return all(
        len(op.operands) == 2
        and {op.operands[0], op.operands[1]} == {arguments[i], arguments[count + i]}
        and last.operands[i] == op.results[0]
        for i, op in enumerate(combining)
    )


_COMBINERS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}
_BOOLEAN_COMBINERS = {
    "stablehlo.add": "or",
    "stablehlo.multiply": "and",
    "stablehlo.maximum": "or",
    "stablehlo.minimum": "and",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
}


def combiner(info: OpInfo) -> str | None:
    """The reduction that the op's region performs on every operand, or None when it is not one that all-reduces do.

    XLA combines integers bit by bit nowhere, and booleans only by `and` and `or`.
    """
    names = reducers(info)
    found = {
        (_BOOLEAN_COMBINERS if result.element == "i1" else _COMBINERS).get(name)
        for name, result in zip(names, info.results, strict=False)
    }
    return found.pop() if len(found) == 1 else None


def reducers(info: OpInfo) -> tuple[str, ...]:
    """The operation that combines each operand's elements, by name; empty when the region does anything else."""
    return info.body[:-1] if len(info.body) == len(info.results) + 1 and "..." not in info.body else ()
