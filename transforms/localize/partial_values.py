"""Partial arguments and results on a device: one summand, without the dimension that numbers summands."""

from __future__ import annotations

from gspmd.dialect.own_attributes import UNREDUCED
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries


def drop_counts(function: Operation) -> None:
    """Remove the leading dimension of size 1 from arguments and results that are marked as partial, and the marks."""
    build = Builder(context_of(function))
    build.location = function.location
    block = function.regions[0]
    terminator, arguments = block.terminator, block.arguments
    changed = False
    for index in _marked(function, "arg_attrs", len(arguments)):
        if not changed:
            build.point = Point.at_begin(block)
        argument, changed = arguments[index], True
        with_count = argument.type.shape
        argument.type = argument.type.of_shape(with_count[1:])
        counted = build.reshape(argument, with_count)
        argument.replace_all_uses_with(counted, [counted.op])
    build.point = Point.at(terminator)
    for index in _marked(function, "res_attrs", len(terminator.operands)):
        value, changed = terminator.operands[index], True
        terminator.operands[index] = build.reshape(value, value.type.shape[1:])
    if changed:
        declare_types(function)


def _marked(function: Operation, key: str, count: int) -> list[int]:
    """The indices of marked arguments or results; removes the marks."""
    entries = dictionaries(function, key, count)
    found = [index for index, entry in enumerate(entries) if entry.pop(UNREDUCED, None) is not None]
    if found:
        set_dictionaries(function, key, entries)
    return found
