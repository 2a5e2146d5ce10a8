"""Reading a module of MLIR into memory."""

from __future__ import annotations

import sys

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ir.modules import FUNCTION
from gspmd.transforms.ir.operations import Attribute, Block, Operation, Point, Value
from gspmd.transforms.ir.types import Types
from gspmd.transforms.parsing.mlir import source_location


class UnreadableAttributes:
    """Attributes for which the bindings have no class, such as those of complex constants: kept as text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnreadableAttributes) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def model_of(module: ir.Module) -> Operation:
    """A verified module as an operation `builtin.module`; `module` must live as long as the result.

    Raises Unsupported, located, for a region of several blocks.
    """
    return _ModuleReader(Types(module.context)).operation(module.operation)


def read_boundary(module: ir.Module) -> Operation:
    """The module without the bodies of functions: these have attributes, arguments and an empty terminator.

    Written back, functions have the bodies that they had.
    """
    return _ModuleReader(Types(module.context), bodies=False).operation(module.operation)


class _ModuleReader:
    """Reads operations in order, so that operands are known when an operation is read."""

    def __init__(self, types: Types, bodies: bool = True) -> None:
        self._types = types
        self._bodies = bodies
        self._values: dict[ir.Value, Value] = {}
        self._scratch: ir.Module | None = None

    def operation(self, op: ir.Operation) -> Operation:
        values, read = self._values, self._types.read
        results = list(op.results)
        made = Operation(
            sys.intern(op.name),  # often needed, with few different values
            [values[value] for value in op.operands],
            [read(result.type) for result in results],
            {},
            op.location,
        )
        try:
            made.attributes = dict(op.attributes.items())
        except TypeError:
            made.attributes = self._one_by_one(op)
            made.source = op
        if results:
            values.update(zip(results, made.results, strict=True))
        if len(op.regions):
            self._regions(op, made)
        return made

    def _one_by_one(self, op: ir.Operation) -> dict[str, Attribute]:
        """Attributes, of which the bindings may not support all."""
        found: dict[str, Attribute] = {}
        for name in op.attributes:
            try:
                found[name] = op.attributes[name]
            except TypeError:
                found[name] = UnreadableAttributes(self._text(op).partition(" = ")[2])
        return found

    def _text(self, op: ir.Operation) -> str:
        """An operation as text; constants apart from their function, all of whose values would be numbered."""
        if len(op.operands) or len(op.regions):
            return str(op)
        if self._scratch is None:
            self._scratch = ir.Module.create(op.location)
        copy = op.clone(ir.InsertionPoint(self._scratch.body)).operation
        text = str(copy)
        copy.erase()
        return text

    def _regions(self, op: ir.Operation, made: Operation) -> None:
        for region in op.regions:
            blocks = list(region.blocks)
            if len(blocks) > 1 and op.name == FUNCTION:  # an error only if it is called
                made.source = op
                made.regions.append(_nothing(made))
                continue
            if len(blocks) > 1:
                raise Unsupported(
                    "has a body of several blocks; expected one",
                    op=op.name,
                    location=source_location(op.location),
                    code=Code.CALLS,
                )
            if blocks and not self._bodies and op.name == FUNCTION:
                made.source = op
                made.regions.append(self._declared(blocks[0], made))
            else:
                made.regions.append(self._block(blocks[0], made) if blocks else _nothing(made))

    def _declared(self, block: ir.Block, owner: Operation) -> Block:
        """The body of a function as one that is absent, but for its arguments and a terminator."""
        made = self._empty(block, owner)
        made.is_absent = True
        Operation("func.return", [], [], {}, owner.location).insert(Point(made))
        return made

    def _empty(self, block: ir.Block, owner: Operation) -> Block:
        arguments = list(block.arguments)
        made = Block([self._types.read(argument.type) for argument in arguments], [a.location for a in arguments])
        made.owner = owner
        self._values.update(zip(arguments, made.arguments, strict=True))
        return made

    def _block(self, block: ir.Block, owner: Operation) -> Block:
        made = self._empty(block, owner)
        last: Operation | None = None
        for view in block.operations:
            op = self.operation(view.operation)
            op.block, op.previous = made, last
            if last is None:
                made.first = op
            else:
                last.next = op
            last = op
        made.last = last
        return made


def _nothing(owner: Operation) -> Block:
    """The region of an operation without a body, or with an unreadable one."""
    block = Block()
    block.owner, block.is_absent = owner, True
    return block
