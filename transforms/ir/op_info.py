"""What an operation is, apart from which values it reads: the key that everything memoised hangs on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from gspmd.transforms.parsing.attribute_text import text_of

CUSTOM_CALL = "stablehlo.custom_call"


class TensorType(NamedTuple):
    """Shape and element type (MLIR's spelling) of a value; what is not a tensor has rank 0."""

    shape: tuple[int, ...]
    element: str
    is_tensor: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def brief(self) -> str:
        """`f32[8,4]`; of what is no tensor its name, as `token`."""
        if not self.is_tensor:
            return self.element.removeprefix("!stablehlo.")
        return f"{self.element}[{','.join(map(str, self.shape))}]"


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
        return text_of(self.attributes.get(name))


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

    A region of plain reductions has them in the order of the results. Any other is marked, so that `combiners` does not
    take it for such.
    """
    names: list[str] = []
    for region in op.regions:
        for block in region.blocks:
            ops = [view.operation for view in block.operations]
            plain = _plain_reductions(block, ops)
            names.extend(o.name for o in plain or ops)
            if plain is None:
                names.append("...")
    return tuple(names)


def _plain_reductions(block: Any, ops: list[Any]) -> list[Any] | None:
    """The operations of a reducer's block in the order of its results, the terminator last.

    None unless the block applies one operation to each of its results so far and the new value, and returns that.
    """
    arguments, terminator = list(block.arguments), ops[-1]
    count = len(ops) - 1
    if not count or len(arguments) != 2 * count or len(terminator.operands) != count:
        return None
    ordered = []
    for index, value in enumerate(terminator.operands):
        made = next((o for o in ops[:-1] if len(o.results) == 1 and o.results[0] == value), None)
        if made is None or set(made.operands) != {arguments[index], arguments[count + index]}:
            return None
        ordered.append(made)
    return [*ordered, terminator]


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


def combiners(info: OpInfo) -> tuple[str, ...] | None:
    """The reduction of every result that the op's region performs, or None when one is not what all-reduces can do.

    XLA has no bitwise all-reduce of integers, and of booleans only `and` and `or`.
    """
    found = [
        (_BOOLEAN_COMBINERS if type_.element == "i1" else _COMBINERS).get(name)
        for name, type_ in zip(reducers(info), info.results, strict=False)
    ]
    known = tuple(combiner for combiner in found if combiner is not None)
    return known if known and len(known) == len(found) else None


def combiner(info: OpInfo) -> str | None:
    """The one reduction of all results, None where they differ or one is not what all-reduces can do."""
    found = combiners(info)
    return found[0] if found and len(set(found)) == 1 else None


def reducers(info: OpInfo) -> tuple[str, ...]:
    """The operation that combines each operand's elements, by name; empty when the region does anything else."""
    return info.body[:-1] if len(info.body) == len(info.results) + 1 and "..." not in info.body else ()
