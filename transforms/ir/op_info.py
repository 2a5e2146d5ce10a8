"""The description of an operation apart from its operands: the key of everything that is memoized."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping

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
    """The number of manual axes around an operation, of the axes with several devices.

    On a mesh of one device, every operation is per-device.
    """

    NONE = enum.auto()
    SOME = enum.auto()
    ALL = enum.auto()  # the operation is per-device along all axes, and nothing is left to decide

    @staticmethod
    def of(held: int, axes: int) -> ManualScope:
        """The scope for `held` manual axes out of `axes`."""
        return ManualScope.ALL if held == axes else ManualScope.SOME if held else ManualScope.NONE


@dataclasses.dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class OpInfo:
    """The name, types and attributes of an operation, the names of the operations in its region, and its manual scope.

    Interned: operations with the same description share one object, so it hashes by identity. `regions` are copies of
    the regions of the first of them, except for control flow.
    """

    name: str
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    attributes: Mapping[str, Attribute]
    body: tuple[str, ...]
    regions: tuple[Block, ...] = ()
    scope: ManualScope = ManualScope.NONE

    def operation(self, operands: Iterable[Value], location: Location) -> Operation:
        """A detached operation with this description, on operands that may have other types."""
        regions = [block.clone({}) for block in self.regions]
        return Operation(self.name, operands, self.results, dict(self.attributes), location, regions)

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers; empty if absent."""
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
        """Whether it is a custom call that refers to functions of the module."""
        return bool(self.attributes.get("called_computations"))

    def text(self, name: str) -> str:
        """A string attribute; empty if absent."""
        return text_of(self.attributes.get(name))


def has_side_effect(attributes: Mapping[str, Attribute]) -> bool:
    """Whether a custom call declares side effects."""
    return "has_side_effect" in attributes and bool(attributes["has_side_effect"].value)


SKIPPED_ATTRIBUTES = frozenset({"sdy.sharding", "mhlo.frontend_attributes", IN_MIDDLE, RUNS, THROUGH})
"""The attributes with the location or sharding of an operation, which do not affect its results."""


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
        """Describe an operation as if its operands had these types."""
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


_shared: contextvars.ContextVar[InfoReader | None] = contextvars.ContextVar("gspmd_infos", default=None)


@contextlib.contextmanager
def sharing_infos() -> Iterator[None]:
    """Inside, all modules share the descriptions of operations. All of them have to be in one MLIR context."""
    token = _shared.set(InfoReader())
    try:
        yield
    finally:
        _shared.reset(token)


def infos_of(module: Operation) -> InfoReader:
    """The descriptions of the operations of a module, shared by all passes with the memoized results."""
    shared = _shared.get()
    if shared is not None:
        return shared
    found = _readers.get(module)
    if found is None:
        found = _readers[module] = InfoReader()
    return found


def _apart(block: Block) -> Block:
    """A copy of a region with placeholders for outside values, so that it adds no uses."""
    outer: dict[Value, Value] = {}
    inside = {block, *(region for op in block for inner in op.walk() for region in inner.regions)}
    for op in block:
        for value in (value for inner in op.walk() for value in inner.operands):
            if value.block not in inside and value not in outer:
                (outer[value],) = Block([value.type]).arguments
    return block.clone(outer)


def _body(op: Operation) -> tuple[str, ...]:
    """The names of the operations in the regions, with the terminator last, as one flat list.

    A region of plain reductions has them in the order of the results. Any other is marked, so that `combiners` rejects
    it.
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
    """The operations of the block of a reducer in the order of its results, with the terminator last.

    None unless the block applies one operation to each accumulator and the new value, and returns the result.
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
    """The reduction of every result in the region, or None if an all-reduce does not support one.

    XLA has no bitwise all-reduce of integers, and only `and` and `or` for booleans.
    """
    found = [
        (_BOOLEANS_ALL_REDUCED if type_.element == "i1" else _ALL_REDUCED).get(COMBINER_OF.get(name, ""))
        for name, type_ in zip(reducers(info), info.results, strict=False)
    ]
    known = tuple(combiner for combiner in found if combiner is not None)
    return known if known and len(known) == len(found) else None


def combiner(info: OpInfo) -> str | None:
    """The common reduction of all results, or None if they differ or an all-reduce does not support it."""
    found = combiners(info)
    return found[0] if found and len(set(found)) == 1 else None


def reducers(info: OpInfo) -> tuple[str, ...]:
    """The name of the operation that combines the elements of each operand; empty for any other region."""
    return info.body[:-1] if len(info.body) == len(info.results) + 1 and "..." not in info.body else ()
