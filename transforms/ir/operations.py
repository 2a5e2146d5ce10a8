"""A module in memory: operations, blocks and values as plain Python objects, which all stages read and change.

MLIR's own objects are C++ behind bindings that cost a microsecond a question. So a module is read once
(`reading.py`), every stage works on what was read, and it is written once (`writing.py`). Types are `TensorType`s,
attributes and locations stay what MLIR made of them: they never change, and hash.

An operation lies in one block, between its neighbours; a value knows who uses it. What changes operands keeps both
sides right:

    op.operands[0] = other              # one use moves to another value
    value.replace_all_uses_with(other)  # all uses do
    op.erase()                          # its uses go; it must have no users itself
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

from gspmd.transforms.ir.types import TensorType

Attribute: TypeAlias = Any
"""An attribute of MLIR's, or its text where the bindings cannot read it (see `reading.UnreadableAttributes`)."""

Location: TypeAlias = Any
"""A location of MLIR's."""

MlirOperation: TypeAlias = Any
"""An operation of MLIR's."""


_STRIDE = 1 << 20  # between the numbers of neighbours


class Use(NamedTuple):
    """One place where a value is used: which operand of which operation."""

    op: Operation
    position: int


class Value:
    """What an operation makes, or a block is given: the `index`-th result of an operation or argument of a block."""

    __slots__ = ("_users", "index", "owner", "type")

    def __init__(self, type_: TensorType, owner: Operation | Block, index: int) -> None:
        self.type = type_
        self.owner = owner
        self.index = index
        self._users: dict[Operation, int] = {}  # and how often

    @property
    def op(self) -> Operation | None:
        """The operation that makes it, None for an argument of a block."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def maker(self) -> Operation:
        """The operation that makes it, where it is known to be no argument."""
        assert isinstance(self.owner, Operation)
        return self.owner

    @property
    def block(self) -> Block:
        """The block in which it is made."""
        owner = self.owner
        if isinstance(owner, Block):
            return owner
        assert owner.block is not None
        return owner.block

    @property
    def location(self) -> Location:
        """Where it is made."""
        owner = self.owner
        return owner.location if isinstance(owner, Operation) else owner.locations[self.index]

    @property
    def users(self) -> list[Operation]:
        """The operations that use it, each once, in the order in which they came to."""
        return list(self._users)

    @property
    def is_used(self) -> bool:
        return bool(self._users)

    @property
    def is_used_once(self) -> bool:
        """Whether it is one operand of one operation, and no more."""
        return len(self._users) == 1 and next(iter(self._users.values())) == 1

    @property
    def only_user(self) -> Operation | None:
        """The one operation that uses it, however often; None if there is none or another one."""
        return next(iter(self._users)) if len(self._users) == 1 else None

    def uses(self) -> list[Use]:
        """Every operand that is this value."""
        return [Use(op, index) for op in self._users for index, value in enumerate(op.operands) if value is self]

    def replace_all_uses_with(self, other: Value, excepted: Iterable[Operation | None] = ()) -> None:
        """Let all users use another value, but for those excepted."""
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
    """The operands of an operation: a list that tells its values who uses them. Their number does not change."""

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
    """An operation: its name, operands, results, attributes and regions, each of which is one block.

    `block` is where it lies, None while it lies nowhere; `next` and `previous` are its neighbours there. `source` is
    the operation of MLIR that it was read from, where that has to be copied to write it (see `reading.py`).
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
        self.number = 0  # grows along a block whose operations are numbered

    @property
    def result(self) -> Value:
        """Its only result."""
        (result,) = self.results
        return result

    @property
    def parent(self) -> Operation | None:
        """The operation around it."""
        return None if self.block is None else self.block.owner

    def within(self, block: Block) -> Operation:
        """Of this operation and those around it the one that lies in a block."""
        op: Operation | None = self
        while op is not None and op.block is not block:
            op = op.parent
        assert op is not None
        return op

    def neighbours(self) -> Block:
        """The block that it lies in, where it is known to lie in one."""
        assert self.block is not None
        return self.block

    # ---- where it lies ----

    def insert(self, point: Point) -> Operation:
        """Put it, which lies nowhere, there; returns itself."""
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
        """Give it a number between those of its neighbours, if there is one."""
        assert self.block is not None
        low = before.number if before is not None else 0
        high = following.number if following is not None else low + 2 * _STRIDE
        self.number = (low + high) // 2
        if not low < self.number < high:
            self.block.is_numbered = False

    def precedes(self, other: Operation) -> bool:
        """Whether it stands before another operation of its block."""
        block = self.block
        assert block is not None
        assert block is other.block
        block.number()
        return self.number < other.number

    def detach(self) -> None:
        """Take it out of its block; its operands and users stay."""
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
        """Put it there instead."""
        if point.before is not self:
            self.detach()
            self.insert(point)

    def erase(self) -> None:
        """Take it, and all inside it, out of the program. Nobody may use its results any more."""
        assert not any(result._users for result in self.results), f"a result of '{self.name}' is still used"
        self._drop()
        if self.block is not None:
            self.detach()

    def _drop(self) -> None:
        """Use nothing any more, here and inside."""
        for value in self.operands:
            if self in value._users:
                del value._users[self]
        for region in self.regions:
            for op in region:
                op._drop()
        self._untie()

    def dissolve(self) -> None:
        """Give up the operation and all inside it, which nobody may look at any more."""
        for region in self.regions:
            for op in region:
                op.dissolve()
        self._untie()

    def _untie(self) -> None:
        """Cut the circles in which an operation, its results and its blocks know each other.

        What is in no circle Python frees at once; the rest it has to search for, which took a fifth of the time of
        partitioning.
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
        """Let the users of its results use these values, and erase it."""
        for result, value in zip(self.results, values, strict=True):
            result.replace_all_uses_with(value)
        self.erase()

    def inline(self) -> None:
        """Put the content of its only region in its place, whose arguments, if it has some, are its operands."""
        (block,) = self.regions
        for argument, operand in zip(block.arguments, self.operands, strict=bool(block.arguments)):
            argument.replace_all_uses_with(operand)
        returned, point = list(block.terminator.operands), Point.at(self)
        block.terminator.erase()
        for op in block:
            op.move(point)
        self.replace(returned)

    # ---- what is inside and around ----

    def walk(self) -> Iterator[Operation]:
        """All operations inside, in program order, those that have regions before what is in these.

        What is looked at may be erased meanwhile, what follows it may not.
        """
        for region in self.regions:
            op = region.first
            while op is not None:  # as iterating over the region, without a generator inside this one
                following = op.next
                yield op
                if op.regions:
                    yield from op.walk()
                op = following

    def clone(self, values: dict[Value, Value] | None = None) -> Operation:
        """A copy that lies nowhere. It uses what `values` has in place of a value; what it makes is entered there."""
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
    """Operations in order, the last of which ends it, and the values that they are given as `arguments`.

    `is_absent` stands for a region that has no block, as that of a declaration.
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
        """The operations; the one looked at may be moved or erased."""
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def number(self) -> None:
        """Make sure that the numbers of operations grow along the block."""
        if not self.is_numbered:
            for number, op in enumerate(self, 1):
                op.number = number * _STRIDE
            self.is_numbered = True

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        assert self.last is not None
        return self.last

    def clone(self, values: dict[Value, Value]) -> Block:
        """A copy that no operation owns, as `Operation.clone` makes it."""
        made = Block([argument.type for argument in self.arguments], self.locations)
        made.is_absent = self.is_absent
        values.update(zip(self.arguments, made.arguments, strict=True))
        for op in self:
            op.clone(values).insert(Point(made))
        return made

    def copy_to(self, point: Point, arguments: Sequence[Value]) -> list[Value]:
        """Copy all but the terminator to a place, for these arguments; returns what the terminator hands on of that."""
        values = dict(zip(self.arguments, arguments, strict=True))
        for op in self:
            if op is not self.last:
                op.clone(values).insert(point)
        return [values.get(value, value) for value in self.terminator.operands]

    def keep_arguments(self, kept: Sequence[int]) -> None:
        """Leave only the arguments of these numbers, in this order; nothing uses the others."""
        self.arguments = [self.arguments[index] for index in kept]
        self.locations = [self.locations[index] for index in kept]
        for index, argument in enumerate(self.arguments):
            argument.index = index

    def add_argument(self, type_: TensorType, location: Location) -> Value:
        """One more argument."""
        self.arguments.append(Value(type_, self, len(self.arguments)))
        self.locations.append(location)
        return self.arguments[-1]


class Point(NamedTuple):
    """A place in a block: before an operation, or at the end."""

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
