"""Arguments and results that are partial, as each device has them: one summand, without a dimension that counts it."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import UNREDUCED
from gspmd.transforms.emit.builder import Builder, read_type
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries


def drop_counts(function: Any) -> None:
    """Remove the leading dimension, of size 1 on a device, from what is marked as partial, and the marks."""
    build = Builder(function.context)
    build.location = function.location
    block = function.regions[0].blocks[0]
    *_, last = block.operations
    terminator = last.operation
    arguments = list(block.arguments)
    changed = False
    for index in _marked(function, "arg_attrs", len(arguments)):
        if not changed:
            build.point = ir.InsertionPoint.at_block_begin(block)
        argument, changed = arguments[index], True
        with_count = read_type(argument).shape
        argument.set_type(build.mlir_type(read_type(argument)._replace(shape=with_count[1:])))
        counted = build.reshape(argument, with_count)
        argument.replace_all_uses_except(counted, counted.owner.operation)
    build.point = ir.InsertionPoint(terminator)
    for index in _marked(function, "res_attrs", len(terminator.operands)):
        value, changed = terminator.operands[index], True
        terminator.operands[index] = build.reshape(value, read_type(value).shape[1:])
    if changed:
        results = [value.type for value in terminator.operands]
        type_ = ir.FunctionType.get([argument.type for argument in arguments], results, function.context)
        function.attributes["function_type"] = ir.TypeAttr.get(type_, function.context)


def _marked(function: Any, key: str, count: int) -> list[int]:
    """The arguments or results that are marked, whose marks are taken off."""
    entries = dictionaries(function, key, count)
    found = [index for index, entry in enumerate(entries) if entry.pop(UNREDUCED, None) is not None]
    if found:
        with function.context:
            set_dictionaries(function, key, entries)
    return found
