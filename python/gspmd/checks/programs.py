"""Programs between stages, as text with locations and in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step_notation import STEPS, sharding_after
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.modules import codec_of, declare_types, main_function, mesh_operations
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.program import CONSTRAINT, MANUAL
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import DONATION, dictionaries, set_dictionaries
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_written

SAID = "sdy.sharding"
"""The sharding attribute of a value."""


def read(text: str) -> ir.Module:
    """Parse a program that this process or its parent has written."""
    return parse_written(text, new_context())


def printed(module: ir.Module) -> str:
    """A module with its locations."""
    return str(module.operation.get_asm(enable_debug_info=True))


def main_of(program: str) -> Operation:
    """`@main` of a program, for inspection."""
    return main_function(model_of(read(program)))


def changed(program: str, change: Callable[[Operation], None]) -> str:
    """The text of a program after a change in memory."""
    module = read(program)
    with in_memory(module) as top:
        change(top)
    return printed(module)


def operations(function: Operation) -> Iterator[Operation]:
    """The operations of a function, without the terminator."""
    block = function.regions[0]
    return (op for op in block if op is not block.last)


def used_by(op: Operation) -> Iterator[Value]:
    """The values that an operation, or one inside it, uses."""
    yield from op.operands
    for inner in op.walk():
        yield from inner.operands


def returning(top: Operation, values: Sequence[Value], keep: int = 0) -> None:
    """Let `@main` return these values, the first `keep` with the attributes of its results; nothing is donated."""
    function = main_function(top)
    block, codec, shardings = function.regions[0], codec_of(top), shardings_in(top)
    end = block.terminator
    old = dictionaries(function, "res_attrs", len(end.operands))
    entries = old[:keep]
    for value in values[keep:]:
        said = shardings.get(value)
        entries.append({} if said is None else {SAID: codec.write(said)})
    Operation("func.return", values, [], {}, end.location).insert(Point.at(end))
    end.erase()
    declare_types(function)
    set_dictionaries(function, "res_attrs", entries)
    arguments = dictionaries(function, "arg_attrs", len(block.arguments))
    for entry in arguments:
        for name in DONATION:
            entry.pop(name, None)
    set_dictionaries(function, "arg_attrs", arguments)


def shardings_in(top: Operation) -> dict[Value, TensorSharding]:
    """The annotations of the values of `@main`; none for a program without exactly one mesh."""
    if len(mesh_operations(top)) != 1:
        return {}
    annotated = AnnotatedProgram(top)
    codec, function = annotated.codec, annotated.function
    found = {
        value: sharding
        for value, sharding in zip(function.regions[0].arguments, annotated.arguments, strict=True)
        if sharding is not None
    }
    for op in operations(function):
        if op.name in STEPS:
            found[op.result] = sharding_after(op, codec)
        elif op.name == CONSTRAINT:
            found[op.result] = codec.read(op.attributes["sharding"])
        elif op.name == MANUAL:
            found.update(zip(op.results, codec.read_list(op.attributes["out_shardings"]), strict=True))
        elif SAID in op.attributes:
            found.update(zip(op.results, codec.read_list(op.attributes[SAID]), strict=True))
    return found
