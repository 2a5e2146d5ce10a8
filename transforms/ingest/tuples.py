"""Tuples, which XLA has and partitioned programs do not need: flattened at boundaries, else folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.hlo_notation import parse_hlo_sharding, print_hlo_sharding
from gspmd.transforms.ingest.annotations import PREFIX, entries_of, frontend
from gspmd.transforms.ingest.edits import create, drop, mark, mark_operand, replace, terminator
from gspmd.transforms.ingest.survey import CARRIERS, all_operations
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located


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


def hand_on(ops: list[Any]) -> bool:
    """Move the annotations of tuples and their elements to `@Sharding` calls; returns whether there were any."""
    changed = False
    for op in ops:
        attributes = op.attributes
        said = {name: attributes[name] for name in CARRIERS if name in attributes}
        if not said:
            continue
        with located(op):
            if op.name == "stablehlo.get_tuple_element":
                mark(op.results[0], said, op)
            else:
                for index, each in enumerate(_split(ir.DictAttr.get(said), len(op.operands))):
                    mark_operand(op, index, each)
        drop(op, CARRIERS)
        changed = True
    return changed


def flatten_custom_calls(ops: list[Any]) -> bool:
    """Give custom calls that return a tuple, taken apart behind them, several results; returns whether any did."""
    changed = False
    for op in ops:
        if len(op.results) != 1 or not isinstance(op.results[0].type, ir.TupleType):
            continue
        type_ = op.results[0].type
        types = [type_.get_type(index) for index in range(type_.num_types)]
        users = [use.owner.operation for use in op.results[0].uses]
        if has_tuples(set(types)) or any(user.name != "stablehlo.get_tuple_element" for user in users):
            continue
        attributes = {name: value for name, value in op.attributes.items() if name != "xla_shape"}
        flat = create("stablehlo.custom_call", op.operands, types, attributes, op)
        for user in users:
            replace(user, [flat.results[ir.IntegerAttr(user.attributes["index"]).value]])
        op.erase()
        changed = True
    return changed


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


def _split(attributes: ir.DictAttr, count: int) -> list[dict[str, ir.Attribute]]:
    """The attributes of each of the leaves of an annotated tuple."""
    said = entries_of(attributes)
    rest = {name: value for name, value in said.items() if name not in (*CARRIERS, "tf.aliasing_output")}
    if "sdy.sharding" in said or any(name.startswith(PREFIX) for name in frontend(attributes)):
        raise AnnotationError("'sdy' annotation of a tuple", hint="give one for each element")
    if "mhlo.sharding" not in said:
        return [rest] * count
    shardings = parse_hlo_sharding(text_of(said["mhlo.sharding"])).leaves(count)
    texts = [ir.StringAttr.get(print_hlo_sharding(sharding)) for sharding in shardings]
    return [{**rest, "mhlo.sharding": text} for text in texts]


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
