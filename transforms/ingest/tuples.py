"""Tuples, which partitioned programs do not need: flattened at boundaries, otherwise folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.hlo_notation import parse_hlo_sharding, print_hlo_sharding
from gspmd.transforms.ingest.annotations import PREFIX, entries_of, frontend
from gspmd.transforms.ingest.edits import create, drop, mark, mark_operand
from gspmd.transforms.ingest.survey import CARRIERS
from gspmd.transforms.ir.modules import declare_types
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType, read_type
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.parsing.mlir import located


def is_tuple(type_: TensorType) -> bool:
    return type_.element.startswith("tuple<") and not type_.is_tensor


def parts(type_: TensorType) -> list[TensorType]:
    """The types in a tuple."""
    known = ir.Type.parse(type_.text)
    return [read_type(known.get_type(index)) for index in range(known.num_types)]


def leaves(type_: TensorType) -> list[TensorType]:
    """The types in a nested tuple in pre-order; of another type itself."""
    return [leaf for part in parts(type_) for leaf in leaves(part)] if is_tuple(type_) else [type_]


def has_tuples(types: Iterable[TensorType]) -> bool:
    return any(map(is_tuple, types))


def flatten_main(function: Operation) -> None:
    """Replace tuple arguments and results by their leaves, each with its part of the annotation.

    Raises AnnotationError (located) if the annotation of a tuple has another number of leaves.
    """
    block = function.regions[0]
    last, given = block.terminator, block.arguments
    returned = [value.type for value in last.operands]
    if not has_tuples([*(value.type for value in given), *returned]):
        return
    with located(function):
        argument_attributes = _flat_attributes(function, "arg_attrs", [value.type for value in given])
        result_attributes = _flat_attributes(function, "res_attrs", returned)
    assert block.first is not None
    first, block.arguments, block.locations = block.first, [], []
    for old in given:
        fresh = [block.add_argument(leaf, function.location) for leaf in leaves(old.type)]
        old.replace_all_uses_with(_build(old.type, iter(fresh), first))
    values = [leaf for value in last.operands for leaf in _read(value, last)]
    create("func.return", values, [], {}, last)
    last.erase()
    declare_types(function)
    for name, attributes in (("arg_attrs", argument_attributes), ("res_attrs", result_attributes)):
        if attributes is not None:
            function.attributes[name] = ir.ArrayAttr.get(attributes)


def fold(function: Operation) -> None:
    """Replace elements taken from tuples made here by the values themselves, and erase unused tuples."""
    tuples = []
    for op in list(function.walk()):
        if op.name == "stablehlo.tuple":
            tuples.append(op)
        elif op.name == "stablehlo.get_tuple_element":
            made = op.operands[0].op
            if made is not None and made.name == "stablehlo.tuple":
                op.replace([made.operands[ir.IntegerAttr(op.attributes["index"]).value]])
    for op in reversed(tuples):
        if not op.result.is_used:
            op.erase()


def hand_on(ops: list[Operation]) -> bool:
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


def flatten_custom_calls(ops: list[Operation]) -> bool:
    """Give custom calls whose tuple result is only unpacked several results; returns whether there were any."""
    changed = False
    for op in ops:
        if len(op.results) != 1 or not is_tuple(op.result.type):
            continue
        types = parts(op.result.type)
        users = op.results[0].users
        if has_tuples(types) or any(user.name != "stablehlo.get_tuple_element" for user in users):
            continue
        attributes = {name: value for name, value in op.attributes.items() if name != "xla_shape"}
        flat = create("stablehlo.custom_call", op.operands, types, attributes, op)
        for user in users:
            user.replace([flat.results[ir.IntegerAttr(user.attributes["index"]).value]])
        op.erase()
        changed = True
    return changed


def _build(type_: TensorType, values: Iterator[Value], before: Operation) -> Value:
    """The (nested) tuple of the next values."""
    if not is_tuple(type_):
        return next(values)
    elements = [_build(part, values, before) for part in parts(type_)]
    return create("stablehlo.tuple", elements, [type_], {}, before).results[0]


def _read(value: Value, before: Operation) -> list[Value]:
    """The leaves of a value in pre-order."""
    if not is_tuple(value.type):
        return [value]
    found = []
    int32 = ir.IntegerType.get_signless(32)
    for index, part in enumerate(parts(value.type)):
        attributes = {"index": ir.IntegerAttr.get(int32, index)}
        element = create("stablehlo.get_tuple_element", [value], [part], attributes, before)
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


def _flat_attributes(function: Operation, name: str, types: list[TensorType]) -> list[ir.Attribute] | None:
    """The attribute dictionaries of arguments or results, one per leaf."""
    if name not in function.attributes:
        return None
    flat: list[ir.Attribute] = []
    for attributes, type_ in zip(function.attributes[name], types, strict=True):
        if is_tuple(type_):
            flat += [ir.DictAttr.get(entry) for entry in _split(ir.DictAttr(attributes), len(leaves(type_)))]
        else:
            flat.append(attributes)
    return flat
