"""What an operation is, apart from which values it reads: the key that everything memoised hangs on."""

from __future__ import annotations

import dataclasses
import enum
import weakref
from collections.abc import Hashable, Iterable, Mapping

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import IN_MIDDLE, RUNS, THROUGH
from gspmd.transforms.ir.operations import Attribute, Block, Location, Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.attribute_text import text_of

CUSTOM_CALL = "stablehlo.custom_call"
CONSTANT, BROADCAST = "stablehlo.constant", "stablehlo.broadcast_in_dim"
COMBINER_OF = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "mul",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}
"""What operations that reducers are made of combine by."""


class ManualScope(enum.Enum):
    """How many axes of the mesh the manual computations around an operation hold, of those with several devices.

    Where the mesh has one device, everything is written for it.
    """

    NONE = enum.auto()
    SOME = enum.auto()
    ALL = enum.auto()  # the operation is written for one device, and nothing about it is left to decide

    @staticmethod
    def of(held: int, axes: int) -> ManualScope:
        """Of `held` out of `axes`."""
        return ManualScope.ALL if held == axes else ManualScope.SOME if held else ManualScope.NONE


@dataclasses.dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class OpInfo:
    """An operation's name, types, attributes, the names of the operations in its region, and where it stands.

    Interned: operations with the same description share one object, so it hashes by identity. `regions` are copies of
    what the first of them had; those of control flow are left out.
    """

    name: str
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    attributes: Mapping[str, Attribute]
    body: tuple[str, ...]
    regions: tuple[Block, ...] = ()
    scope: ManualScope = ManualScope.NONE

    def operation(self, operands: Iterable[Value], location: Location) -> Operation:
        """Another such operation, which lies nowhere, on operands that may have other types."""
        regions = [block.clone({}) for block in self.regions]
        return Operation(self.name, operands, self.results, dict(self.attributes), location, regions)

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

    @property
    def calls_functions(self) -> bool:
        """Whether it is a custom call of functions of the module."""
        return bool(self.attributes.get("called_computations"))

    def text(self, name: str) -> str:
        """A string attribute; empty when absent."""
        return text_of(self.attributes.get(name))


def has_side_effect(attributes: Mapping[str, Attribute]) -> bool:
    """Whether a custom call says that it does more than to compute its results."""
    return "has_side_effect" in attributes and bool(attributes["has_side_effect"].value)


SKIPPED_ATTRIBUTES = frozenset({"sdy.sharding", "mhlo.frontend_attributes", IN_MIDDLE, RUNS, THROUGH})
"""What says where an operation stands or how its results are split, and nothing about what it computes."""


class InfoReader:
    """Descriptions of operations, interned."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], OpInfo] = {}

    def __call__(
        self,
        op: Operation,
        operands: tuple[TensorType, ...],
        with_body: bool = True,
        scope: ManualScope = ManualScope.NONE,
    ) -> OpInfo:
        """Describe an operation on operands of these types, which may have other types by now."""
        results = tuple([result.type for result in op.results])
        pairs = tuple([pair for pair in op.attributes.items() if pair[0] not in SKIPPED_ATTRIBUTES])
        body = _body(op) if with_body and op.regions else ()
        key = (op.name, operands, results, pairs, body, scope)
        found = self._known.get(key)
        if found is None:
            regions = tuple(map(_apart, op.regions)) if body else ()
            found = self._known[key] = OpInfo(op.name, operands, results, dict(pairs), body, regions, scope)
        return found


_readers: weakref.WeakKeyDictionary[Operation, InfoReader] = weakref.WeakKeyDictionary()


def infos_of(module: Operation) -> InfoReader:
    """The descriptions of a module's operations, the same for all passes, so that they share what they keep by them."""
    found = _readers.get(module)
    if found is None:
        found = _readers[module] = InfoReader()
    return found


def _apart(block: Block) -> Block:
    """A copy of a region, in which other values stand for those of outside, as a copy is no use of them."""
    outer: dict[Value, Value] = {}
    inside = {block, *(region for op in block for inner in op.walk() for region in inner.regions)}
    for op in block:
        for value in (value for inner in op.walk() for value in inner.operands):
            if value.block not in inside and value not in outer:
                (outer[value],) = Block([value.type]).arguments
    return block.clone(outer)


def _body(op: Operation) -> tuple[str, ...]:
    """Names of the operations in the op's regions, its terminator last, as one flat list.

    A region of plain reductions has them in the order of the results. Any other is marked, so that `combiners` does not
    take it for such.
    """
    names: list[str] = []
    for block in op.regions:
        ops = list(block)
        plain = _plain_reductions(block, ops)
        names.extend(o.name for o in plain or ops)
        if plain is None:
            names.append("...")
    return tuple(names)


def _plain_reductions(block: Block, ops: list[Operation]) -> list[Operation] | None:
    """The operations of a reducer's block in the order of its results, the terminator last.

    None unless the block applies one operation to each of its results so far and the new value, and returns that.
    """
    arguments, count = block.arguments, len(ops) - 1
    if count < 1 or len(arguments) != 2 * count or len((terminator := ops[-1]).operands) != count:
        return None
    ordered = []
    for index, value in enumerate(terminator.operands):
        made = value.op
        if (
            made is None
            or made.block is not block
            or len(made.results) != 1
            or set(made.operands) != {arguments[index], arguments[count + index]}
        ):
            return None
        ordered.append(made)
    return [*ordered, terminator]


_ALL_REDUCED = {"add": "add", "mul": "mul", "max": "max", "min": "min"}
_BOOLEANS_ALL_REDUCED = {"add": "or", "mul": "and", "max": "or", "min": "and", "and": "and", "or": "or"}


def combiners(info: OpInfo) -> tuple[str, ...] | None:
    """The reduction of every result that the op's region performs, or None when one is not what all-reduces can do.

    XLA has no bitwise all-reduce of integers, and of booleans only `and` and `or`.
    """
    found = [
        (_BOOLEANS_ALL_REDUCED if type_.element == "i1" else _ALL_REDUCED).get(COMBINER_OF.get(name, ""))
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
