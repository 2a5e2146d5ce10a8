"""Writing a module in memory as a module of MLIR."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jaxlib.mlir import ir

from gspmd.transforms.ir.operations import Block, Operation, Value
from gspmd.transforms.ir.reading import model_of, read_boundary
from gspmd.transforms.ir.types import Types
from gspmd.transforms.parsing.mlir import parse_written


@contextlib.contextmanager
def in_memory(module: ir.Module, bodies: bool = True) -> Iterator[Operation]:
    """Read a verified module for changes, and write it back at the end of the block.

    Without `bodies`, only its functions' attributes and the operations beside them can change.
    """
    with module.context, ir.Location.unknown():
        top = model_of(module) if bodies else read_boundary(module)
        try:
            yield top
            write_module(top, module)
        finally:
            top.dissolve()


def written(top: Operation) -> ir.Module:
    """A new module with the content of `top`."""
    readable = all(isinstance(attribute, ir.Attribute) for attribute in top.attributes.values())
    module = ir.Module.create(top.location) if readable else _without_content(top.source)
    write_module(top, module)
    return module


def write_module(top: Operation, module: ir.Module) -> None:
    """Write `top` back into `module`, from which it was read; unreadable attributes stay."""
    writer = _Writer(Types(module.context), module.context)
    old = [view.operation for view in module.body.operations]
    writer.content(top.regions[0], ir.InsertionPoint(module.body))
    for op in reversed(old):
        op.erase()
    attributes = module.operation.attributes
    for name in [name for name in attributes if name not in top.attributes]:
        del attributes[name]
    for name, attribute in top.attributes.items():
        if isinstance(attribute, ir.Attribute):
            attributes[name] = attribute


def _without_content(source: ir.Operation) -> ir.Module:
    """A new module with the attributes of another, including unreadable ones."""
    copy = source.clone().operation
    _emptied(copy.regions[0].blocks[0])
    return parse_written(copy.get_asm(enable_debug_info=True), source.context)


class _Writer:
    def __init__(self, types: Types, context: ir.Context) -> None:
        self._types = types
        self._context = context
        self._values: dict[Value, ir.Value] = {}

    def content(self, block: Block, point: ir.InsertionPoint) -> None:
        for op in block:
            self._operation(op, point)

    def _operation(self, op: Operation, point: ir.InsertionPoint) -> None:
        values, write = self._values, self._types.write
        if op.source is not None:
            made = self._copy(op, point)
        else:
            made = ir.Operation.create(
                op.name,
                results=[write(result.type) for result in op.results],
                operands=[values[value] for value in op.operands],
                attributes=op.attributes,
                regions=len(op.regions),
                loc=op.location,
                ip=point,
            )
        if len(op.results) == 1:
            values[op.results[0]] = made.result
        else:
            values.update(zip(op.results, made.results, strict=True))
        for block, region in zip(op.regions, made.regions, strict=True) if op.regions else ():
            if block.is_absent:
                continue
            types = [write(argument.type) for argument in block.arguments]
            if len(region.blocks):  # of a copy
                made_block = _emptied(region.blocks[0])
                for type_, location in zip(types, block.locations, strict=True):
                    made_block.add_argument(type_, location)
            else:
                made_block = region.blocks.append(*types, arg_locs=block.locations)
            values.update(zip(block.arguments, made_block.arguments, strict=True))
            self.content(block, ir.InsertionPoint(made_block))

    def _copy(self, op: Operation, point: ir.InsertionPoint) -> ir.Operation:
        """A copy of the source of an operation, with its current operands, types and attributes."""
        assert op.source is not None
        made = op.source.clone(ip=point).operation
        for index, value in enumerate(op.operands):
            made.operands[index] = self._values[value]
        for result, value in zip(made.results, op.results, strict=True):
            result.set_type(self._types.write(value.type))
        for name in [name for name in made.attributes if name not in op.attributes]:
            del made.attributes[name]
        for name, attribute in op.attributes.items():
            if isinstance(attribute, ir.Attribute):
                made.attributes[name] = attribute
        return made


def _emptied(block: ir.Block) -> ir.Block:
    for op in reversed(list(block.operations)):
        op.erase()
    for index in reversed(range(len(block.arguments))):
        block.erase_argument(index)
    return block
