"""The parts of a module in memory: functions, meshes, symbols."""

from __future__ import annotations

import weakref

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ParseError, Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import MESH, SdyCodec, read_mesh, write_mesh
from gspmd.transforms.ir.operations import Attribute, Block, Location, Operation, Point
from gspmd.transforms.ir.types import TensorType, Types
from gspmd.transforms.parsing.mlir import source_location

FUNCTION = "func.func"


def context_of(op: Operation) -> ir.Context:
    """The context of the attributes of the program."""
    return op.location.context


def symbol(op: Operation) -> str:
    """The symbol name of an operation; "" for none."""
    name = op.attributes.get("sym_name")
    return "" if name is None else str(name.value)


def functions(module: Operation) -> list[Operation]:
    """The functions of a module, in order."""
    return [op for op in module.regions[0] if op.name == FUNCTION]


def main_function(module: Operation) -> Operation:
    """The function @main. Raises ParseError if there is none, Unsupported if its body is not one block."""
    found = functions(module)
    for function in found:
        if symbol(function) == "main":
            if function.regions[0].last is None:
                body = "no body" if function.source is None else "a body of several blocks"
                location = source_location(function.location)
                raise Unsupported(f"has {body}; expected one", op=FUNCTION, location=location, code=Code.CALLS)
            return function
    names = ", ".join(f"'@{symbol(function)}'" for function in found) or "none"
    raise ParseError(
        f"the module has no function '@main'; its functions are {names}",
        hint="rename the entry function to '@main'",
        code=Code.NO_MAIN,
    )


def function_types(function: Operation) -> tuple[list[TensorType], list[TensorType]]:
    """The declared types of arguments and results of a function."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = Types(context_of(function))
    return [types.read(t) for t in type_.inputs], [types.read(t) for t in type_.results]


def declare_types(function: Operation) -> None:
    """Update the type of a function to its arguments and the operands of its terminator."""
    block, context = function.regions[0], context_of(function)
    types = Types(context)
    inputs, results = (
        [types.write(value.type) for value in values] for values in (block.arguments, block.terminator.operands)
    )
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results, context), context)


def free_symbol(module: Operation, stem: str) -> str:
    """The first of `stem_0`, `stem_1`, ... that is not a symbol of the module."""
    symbols = {symbol(op) for op in module.regions[0]}
    return next(name for i in range(len(symbols) + 1) if (name := f"{stem}_{i}") not in symbols)


def function_block(op: Operation, name: str) -> Block | None:
    """The block of the function with that name in the module of the operation, or None."""
    top = op
    while top.parent is not None:
        top = top.parent
    found = next((function for function in functions(top) if symbol(function) == name), None)
    return None if found is None or found.regions[0].last is None else found.regions[0]


# ---- meshes ----


def mesh_operations(module: Operation) -> list[Operation]:
    """The mesh declarations of a module."""
    return [op for op in module.regions[0] if op.name == MESH]


_codecs: weakref.WeakKeyDictionary[Operation, tuple[tuple[tuple[str, Attribute], ...], SdyCodec]] = (
    weakref.WeakKeyDictionary()
)


def codec_of(module: Operation) -> SdyCodec:
    """The codec for shardings over the meshes of a module, shared by all passes while these stay the same."""
    said = tuple([(symbol(op), op.attributes["mesh"]) for op in mesh_operations(module)])
    known = _codecs.get(module)
    if known is None or known[0] != said:
        meshes = {name: read_mesh(attribute, name) for name, attribute in said}
        for mesh in meshes.values():
            mesh.check_devices()
        known = _codecs[module] = said, SdyCodec(context_of(module), meshes)
    return known[1]


def create_mesh(mesh: Mesh, point: Point, location: Location) -> Operation:
    """The operation that declares a mesh in a module."""
    context = location.context
    attributes = {"sym_name": ir.StringAttr.get(mesh.name, context), "mesh": write_mesh(mesh, context)}
    return Operation(MESH, [], list[TensorType](), attributes, location).insert(point)
