"""A module in memory: operations, blocks and values as plain Python objects, which all stages read and change.

MLIR's own objects are C++ behind bindings that cost a microsecond per call. So a module is read once (`reading.py`),
every stage works on the Python objects, and they are written once (`writing.py`). Types are `TensorType`s; attributes
and locations remain MLIR's, since they are immutable and hashable.

An operation is in one block, between its neighbors; a value knows its users. Changes of operands update both sides:

    op.operands[0] = other              # replaces one use
    value.replace_all_uses_with(other)  # replaces all uses
    op.erase()                          # removes its uses; it must have no users
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

from gspmd.transforms.ir.types import TensorType

Attribute: TypeAlias = Any
"""An attribute of MLIR, or its text if the bindings cannot read it (see `reading.UnreadableAttributes`)."""

Location: TypeAlias = Any
"""A location of MLIR."""

MlirOperation: TypeAlias = Any
"""An operation of MLIR."""


_STRIDE = 1 << 20  # between the numbers of neighbors


class Use(NamedTuple):
    """A use of a value: an operand of an operation."""

    op: Operation
    position: int


class Value:
    """An SSA value: the `index`-th result of an operation, or argument of a block."""

    __slots__ = ("_users", "index", "owner", "type")

    def __init__(self, type_: TensorType, owner: Operation | Block, index: int) -> None:
        self.type = type_
        self.owner = owner
        self.index = index
        self._users: dict[Operation, int] = {}  # with the number of uses

    @property
    def op(self) -> Operation | None:
        """The producer; None for an argument of a block."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def maker(self) -> Operation:
        """The producer of a value that is not an argument."""
        assert isinstance(self.owner, Operation)
        return self.owner

    @property
    def block(self) -> Block:
        """The block that defines it."""
        owner = self.owner
        if isinstance(owner, Block):
            return owner
        assert owner.block is not None
        return owner.block

    @property
    def location(self) -> Location:
        """The location of its definition."""
        owner = self.owner
        return owner.location if isinstance(owner, Operation) else owner.locations[self.index]

    @property
    def users(self) -> list[Operation]:
        """The operations that use it, each once, in the order in which the uses were added."""
        return list(self._users)

    @property
    def is_used(self) -> bool:
        return bool(self._users)

    @property
    def is_used_once(self) -> bool:
        """Whether it has exactly one use."""
        return len(self._users) == 1 and next(iter(self._users.values())) == 1

    @property
    def only_user(self) -> Operation | None:
        """The only user, with any number of uses; None if there is not exactly one."""
        return next(iter(self._users)) if len(self._users) == 1 else None

    def uses(self) -> list[Use]:
        """All uses."""
        return [Use(op, index) for op in self._users for index, value in enumerate(op.operands) if value is self]

    def replace_all_uses_with(self, other: Value, excepted: Iterable[Operation | None] = ()) -> None:
        """Replace all uses by another value, except in these operations."""
        if other is self:
            return
        kept = {op: self._users[op] for op in excepted if op is not None and op in self._users}
        moved, self._users = self._users, kept
        for op, count in moved.items():
            if op in kept:
                continue
            operands = op.operands
            for index, value in enumerate(operands):
                if value is self:
                    list.__setitem__(operands, index, other)
            other._users[op] = other._users.get(op, 0) + count

    def _gain(self, op: Operation) -> None:
        self._users[op] = self._users.get(op, 0) + 1

    def _lose(self, op: Operation) -> None:
        count = self._users[op] - 1
        if count:
            self._users[op] = count
        else:
            del self._users[op]

    def __repr__(self) -> str:
        made = self.owner.name if isinstance(self.owner, Operation) else "argument"
        return f"<Value {self.index} of {made}, {self.type.brief}>"


class Operands(list[Value]):
    """The operands of an operation: a list of fixed length that updates the uses of its values."""

    __slots__ = ("_op",)

    def __init__(self, op: Operation, values: Iterable[Value]) -> None:
        super().__init__(values)
        self._op = op
        for value in self:
            users = value._users
            users[op] = users.get(op, 0) + 1

    def __setitem__(self, index: SupportsIndex, value: Value) -> None:  # type: ignore[override]
        assert not isinstance(index, slice)
        old = self[index]
        if old is not value:
            old._lose(self._op)
            value._gain(self._op)
            super().__setitem__(index, value)


class Operation:
    """An operation: its name, operands, results, attributes and regions of one block each.

    `block` is its block, None while it is detached; `next` and `previous` are its neighbors. `source` is the operation
    of MLIR from which it was read, if that has to be copied to write it (see `reading.py`).
    """

    __slots__ = (
        "__weakref__",
        "attributes",
        "block",
        "location",
        "name",
        "next",
        "number",
        "operands",
        "previous",
        "regions",
        "results",
        "source",
    )

    def __init__(
        self,
        name: str,
        operands: Iterable[Value],
        results: Iterable[TensorType],
        attributes: dict[str, Attribute],
        location: Location,
        regions: Sequence[Block] = (),
    ) -> None:
        self.name = name
        self.operands = Operands(self, operands)
        self.results = [Value(type_, self, index) for index, type_ in enumerate(results)]
        self.attributes = attributes
        self.location = location
        self.regions = list(regions)
        for region in regions:
            region.owner = self
        self.block: Block | None = None
        self.next: Operation | None = None
        self.previous: Operation | None = None
        self.source: MlirOperation | None = None
        self.number = 0  # increases along a block with numbered operations

    @property
    def result(self) -> Value:
        """Its only result."""
        (result,) = self.results
        return result

    @property
    def parent(self) -> Operation | None:
        """The parent operation."""
        return None if self.block is None else self.block.owner

    def within(self, block: Block) -> Operation:
        """This operation or the ancestor that is in a block."""
        op: Operation | None = self
        while op is not None and op.block is not block:
            op = op.parent
        assert op is not None
        return op

    def neighbours(self) -> Block:
        """The block of an operation that is not detached."""
        assert self.block is not None
        return self.block

    # ---- position ----

    def insert(self, point: Point) -> Operation:
        """Insert a detached operation; returns itself."""
        assert self.block is None
        block, following = point.block, point.before
        before = block.last if following is None else following.previous
        self.block, self.previous, self.next = block, before, following
        if before is None:
            block.first = self
        else:
            before.next = self
        if following is None:
            block.last = self
        else:
            following.previous = self
        self._number(before, following)
        return self

    def _number(self, before: Operation | None, following: Operation | None) -> None:
        """Assign a number between those of its neighbors, if there is one."""
        assert self.block is not None
        low = before.number if before is not None else 0
        high = following.number if following is not None else low + 2 * _STRIDE
        self.number = (low + high) // 2
        if not low < self.number < high:
            self.block.is_numbered = False

    def precedes(self, other: Operation) -> bool:
        """Whether it is before another operation of its block."""
        block = self.block
        assert block is not None
        assert block is other.block
        block.number()
        return self.number < other.number

    def detach(self) -> None:
        """Detach it from its block; its operands and users stay."""
        block = self.block
        assert block is not None
        if self.previous is None:
            block.first = self.next
        else:
            self.previous.next = self.next
        if self.next is None:
            block.last = self.previous
        else:
            self.next.previous = self.previous
        self.block = self.next = self.previous = None

    def move(self, point: Point) -> None:
        """Move it to another point."""
        if point.before is not self:
            self.detach()
            self.insert(point)

    def erase(self) -> None:
        """Erase it with its regions. Its results must have no users."""
        assert not any(result._users for result in self.results), f"a result of '{self.name}' is still used"
        self._drop()
        if self.block is not None:
            self.detach()

    def _drop(self) -> None:
        """Drop all uses by it and its regions."""
        for value in self.operands:
            if self in value._users:
                del value._users[self]
        for region in self.regions:
            for op in region:
                op._drop()
        self._untie()

    def dissolve(self) -> None:
        """Free the operation and its regions, which must not be accessed again."""
        for region in self.regions:
            for op in region:
                op.dissolve()
        self._untie()

    def _untie(self) -> None:
        """Break the reference cycles between an operation, its results and its blocks.

        Python frees objects without cycles immediately; the search for cycles took a fifth of the time of partitioning.
        """
        del self.operands._op
        for result in self.results:
            result._users.clear()
            del result.owner
        for region in self.regions:
            for op in region:
                op.block = op.previous = None
            for argument in region.arguments:
                argument._users.clear()
                del argument.owner
            region.owner = region.first = region.last = None

    def replace(self, values: Sequence[Value]) -> None:
        """Replace its results by these values, and erase it."""
        for result, value in zip(self.results, values, strict=True):
            result.replace_all_uses_with(value)
        self.erase()

    def inline(self) -> None:
        """Replace it by the operations of its only region, with its operands for the arguments, if there are any."""
        (block,) = self.regions
        for argument, operand in zip(block.arguments, self.operands, strict=bool(block.arguments)):
            argument.replace_all_uses_with(operand)
        returned, point = list(block.terminator.operands), Point.at(self)
        block.terminator.erase()
        for op in block:
            op.move(point)
        self.replace(returned)

    # ---- regions and parents ----

    def walk(self) -> Iterator[Operation]:
        """All operations inside, in pre-order.

        The current operation may be erased meanwhile, but not the following ones.
        """
        for region in self.regions:
            op = region.first
            while op is not None:  # as an iteration over the region, without a nested generator
                following = op.next
                yield op
                if op.regions:
                    yield from op.walk()
                op = following

    def clone(self, values: dict[Value, Value] | None = None) -> Operation:
        """A detached copy. `values` maps its operands, and gets its results."""
        known = {} if values is None else values
        made = Operation(
            self.name,
            [known.get(value, value) for value in self.operands],
            [result.type for result in self.results],
            dict(self.attributes),
            self.location,
        )
        made.source = self.source
        known.update(zip(self.results, made.results, strict=True))
        if self.regions:
            made.regions = [region.clone(known) for region in self.regions]
            for region in made.regions:
                region.owner = made
        return made

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


class Block:
    """Operations in order, the last one being the terminator, and the `arguments`.

    `is_absent` stands for a region without a block, as in a declaration.
    """

    __slots__ = ("arguments", "first", "is_absent", "is_numbered", "last", "locations", "owner")

    def __init__(self, types: Sequence[TensorType] = (), locations: Sequence[Location] = ()) -> None:
        self.arguments = [Value(type_, self, index) for index, type_ in enumerate(types)]
        self.locations = list(locations)  # of the arguments
        self.first: Operation | None = None
        self.last: Operation | None = None
        self.owner: Operation | None = None
        self.is_numbered = False
        self.is_absent = False

    def __iter__(self) -> Iterator[Operation]:
        """The operations; the current one may be moved or erased."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def number(self) -> None:
        """Make the numbers of operations increase along the block."""
        if not self.is_numbered:
            for number, op in enumerate(self, 1):
                op.number = number * _STRIDE
            self.is_numbered = True

    @property
    def terminator(self) -> Operation:
        """The terminator."""
        assert self.last is not None
        return self.last

    def clone(self, values: dict[Value, Value]) -> Block:
        """A detached copy, as `Operation.clone`."""
        made = Block([argument.type for argument in self.arguments], self.locations)
        made.is_absent = self.is_absent
        values.update(zip(self.arguments, made.arguments, strict=True))
        for op in self:
            op.clone(values).insert(Point(made))
        return made

    def copy_to(self, point: Point, arguments: Sequence[Value]) -> list[Value]:
        """Copy all but the terminator to a point, for these arguments; returns the operands of the terminator."""
        values = dict(zip(self.arguments, arguments, strict=True))
        for op in self:
            if op is not self.last:
                op.clone(values).insert(point)
        return [values.get(value, value) for value in self.terminator.operands]

    def keep_arguments(self, kept: Sequence[int]) -> None:
        """Keep only these arguments, in this order; the others must be unused."""
        self.arguments = [self.arguments[index] for index in kept]
        self.locations = [self.locations[index] for index in kept]
        for index, argument in enumerate(self.arguments):
            argument.index = index

    def add_argument(self, type_: TensorType, location: Location) -> Value:
        """Add an argument."""
        self.arguments.append(Value(type_, self, len(self.arguments)))
        self.locations.append(location)
        return self.arguments[-1]


class Point(NamedTuple):
    """An insertion point: before an operation, or at the end of a block."""

    block: Block
    before: Operation | None = None

    @classmethod
    def at(cls, op: Operation) -> Point:
        """Right before an operation."""
        assert op.block is not None
        return cls(op.block, op)

    @classmethod
    def after(cls, op: Operation) -> Point:
        """Right after an operation."""
        assert op.block is not None
        return cls(op.block, op.next)

    @classmethod
    def at_begin(cls, block: Block) -> Point:
        return cls(block, block.first)
