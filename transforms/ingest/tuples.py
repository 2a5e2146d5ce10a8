"""Tuples, which XLA has and partitioned programs do not need: @main's are flattened, all others folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.transforms.ingest.edits import create, replace, terminator
from gspmd.transforms.ingest.survey import all_operations
from gspmd.transforms.support.mlir import located


def leaves(type_: ir.Type) -> list[ir.Type]:
    """The types in a nested tuple in pre-order; of another type itself."""
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [leaf for index in range(type_.num_types) for leaf in leaves(type_.get_type(index))]


def has_tuples(types: Iterator[ir.Type] | set[ir.Type]) -> bool:
    return any(isinstance(type_, ir.TupleType) for type_ in types)


def flatten_main(function: Any) -> None:
    """Replace arguments and results that are tuples by their leaves, each with its part of the annotation.

    Raises AnnotationError (located) when a tuple's annotation has another number of leaves.
    """
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    block = function.regions[0].blocks[0]
    last = terminator(block)
    if not has_tuples(set(type_.inputs) | {value.type for value in last.operands}):
        return
    with located(function):
        argument_attributes = _flat_attributes(function, "arg_attrs", type_.inputs)
        result_attributes = _flat_attributes(function, "res_attrs", type_.results)
    first = block.operations[0].operation
    inputs: list[ir.Type] = []
    for index, old in enumerate(list(block.arguments)):
        flat = leaves(old.type)
        fresh = [block.add_argument(leaf, function.location) for leaf in flat]
        inputs += flat
        value = _build(old.type, iter(fresh), first)
        block.arguments[index].replace_all_uses_with(value)
    for _ in type_.inputs:
        block.erase_argument(0)
    values = [leaf for value in last.operands for leaf in _read(value, last)]
    ir.Operation.create("func.return", operands=values, loc=last.location, ip=ir.InsertionPoint(last))
    last.erase()
    results = [leaf for result in type_.results for leaf in leaves(result)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for name, attributes in (("arg_attrs", argument_attributes), ("res_attrs", result_attributes)):
        if attributes is not None:
            function.attributes[name] = ir.ArrayAttr.get(attributes)


def fold(function: Any) -> None:
    """Replace elements taken from known tuples by the elements, and drop tuples without users."""
    tuples = []
    for op in list(all_operations(function)):
        if op.name == "stablehlo.tuple":
            tuples.append(op)
        elif op.name == "stablehlo.get_tuple_element":
            owner = op.operands[0].owner
            if isinstance(owner, ir.Block) or owner.name != "stablehlo.tuple":
                continue
            index = ir.IntegerAttr(op.attributes["index"]).value
            replace(op, [owner.operands[index]])
    for op in reversed(tuples):
        if not any(True for _ in op.results[0].uses):
            op.erase()


def _build(type_: ir.Type, values: Iterator[Any], before: Any) -> Any:
    """The (nested) tuple of the next values."""
    if not isinstance(type_, ir.TupleType):
        return next(values)
    elements = [_build(type_.get_type(index), values, before) for index in range(type_.num_types)]
    return create("stablehlo.tuple", elements, [type_], {}, before).results[0]


def _read(value: Any, before: Any) -> list[Any]:
    """The leaves of a value in pre-order."""
    if not isinstance(value.type, ir.TupleType):
        return [value]
    found = []
    int32 = ir.IntegerType.get_signless(32)
    for index in range(value.type.num_types):
        attributes = {"index": ir.IntegerAttr.get(int32, index)}
        element = create("stablehlo.get_tuple_element", [value], [value.type.get_type(index)], attributes, before)
        found += _read(element.results[0], before)
    return found


def _flat_attributes(function: Any, name: str, types: list[ir.Type]) -> list[ir.Attribute] | None:
    """The attribute dictionaries of arguments or results, one a leaf."""
    if name not in function.attributes:
        return None
    flat: list[ir.Attribute] = []
    for attributes, type_ in zip(function.attributes[name], types, strict=True):
        if isinstance(type_, ir.TupleType):
            flat += [ir.DictAttr.get(entry) for entry in _split(ir.DictAttr(attributes), len(leaves(type_)))]
        else:
            flat.append(attributes)
    return flat
