"""Modules in the form that PJRT accepts, made from a program in any form, which is not changed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.own_attributes import MESH, PREFIX
from gspmd.dialect.sdy_attrs import write_sharding
from gspmd.dialect.sharding import replicated
from gspmd.output import write
from gspmd.reading import read_program
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.runtime.group_meshes import groups_by_axes, write_groups
from gspmd.runtime.manual_program import become_manual, boundaries
from gspmd.runtime.pjrt_mesh import mesh_for
from gspmd.runtime.plain_axes import rename_axes
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.signature import (
    Signature,
    ValueSignature,
    argument_name,
    dictionaries,
    read_signature,
    result_name,
    set_dictionaries,
    signature_of,
    tensor_of,
)
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ir.writing import in_memory

_ONE_DEVICE = Mesh(())


def read_partitioned(source: Any, platform: str = "") -> tuple[ir.Module, Signature]:
    """A partitioned module ready to compile for devices of a platform, and its signature. Raises ParseError."""
    from gspmd.transforms.repairs.xla_repairs import repair

    module = read_program(source)
    with in_memory(module) as program:
        signature = read_signature(program)
        repair(program, platform)
        _drop_value_attributes(program)
        _drop_own_attributes(program)
        groups = groups_by_axes(program)
        along = (axes for over, axes in groups.values() if over == signature.mesh)
        mesh = mesh_for(signature.mesh, boundaries(signature), along)
        write_groups(program, groups, mesh)
        if signature.num_partitions > 1:
            become_manual(program, signature, mesh)
    return module, signature


def read_unpartitioned(source: Any) -> tuple[ir.Module, Signature]:
    """A program without its annotations, ready to compile for one device, and its signature.

    Workarounds for XLA on CPUs are applied, as in partitioned modules.

    Errors: ParseError; Unsupported for a program with manual regions, and for one that calls Python.
    """
    from gspmd.runtime import unannotated
    from gspmd.transforms.repairs.xla_repairs import repair

    module = read_program(source)
    refuse_to_run(module)
    with in_memory(module) as program:
        unannotated.strip(program)
        repair(program)
        signature = plain_signature(program, _ONE_DEVICE)
    return module, signature


def read_for_xla(source: Any) -> tuple[ir.Module, Signature]:
    """A program with only its manual regions left to partition, and a signature of replicated values.

    Errors: ParseError; Unsupported unless the regions are `sdy.manual_computation` over one mesh, and for a program
    that calls Python.
    """
    from gspmd.runtime import unannotated
    from gspmd.transforms.ingest.started_collectives import replace_started
    from gspmd.transforms.repairs.collectives import replace_missing

    module = read_program(source)
    refuse_to_run(module)
    with in_memory(module) as program:
        mesh = unannotated.strip_outside_manual_regions(program)
        replace_started([op for op in program.walk() if op.name == CUSTOM_CALL])
        replace_missing(program)
        signature = plain_signature(program, mesh)
        rename_axes(program)
        func = main_function(program)
        for key, values in (("arg_attrs", signature.inputs), ("res_attrs", signature.outputs)):
            entries = dictionaries(func, key, len(values))
            for entry, value in zip(entries, values, strict=True):
                entry["sdy.sharding"] = write_sharding(value.sharding, module.context)
            set_dictionaries(func, key, entries)
    return module, signature


def plain_signature(module: Operation, mesh: Mesh) -> Signature:
    """The signature of an unpartitioned `@main`: every value is replicated over the mesh."""
    func = main_function(module)
    block = func.regions[0]
    arguments, results = block.arguments, [value.type for value in block.terminator.operands]
    in_entries = dictionaries(func, "arg_attrs", len(arguments))
    out_entries = dictionaries(func, "res_attrs", len(results))

    def value(what: str, type_: TensorType, name: str | None) -> ValueSignature:
        shape, element_type = tensor_of(type_, what)
        return ValueSignature(shape, element_type, replicated(mesh, len(shape)), name=name)

    return Signature(
        mesh,
        tuple(
            value(f"argument {i}", arg.type, argument_name(arg.location, entry))
            for i, (arg, entry) in enumerate(zip(arguments, in_entries, strict=True))
        ),
        tuple(
            value(f"result {i}", type_, result_name(entry))
            for i, (type_, entry) in enumerate(zip(results, out_entries, strict=True))
        ),
    )


def _drop_value_attributes(module: Operation) -> None:
    """Remove gspmd's attributes from arguments and results, and marks for XLA."""
    func = main_function(module)
    block = func.regions[0]
    for key, count in (("arg_attrs", len(block.arguments)), ("res_attrs", len(block.terminator.operands))):
        entries = [
            {name: attr for name, attr in entry.items() if name != "mhlo.sharding" and not _is_own(name)}
            for entry in dictionaries(func, key, count)
        ]
        set_dictionaries(func, key, entries)


def _drop_own_attributes(module: Operation) -> None:
    """Remove `gspmd.*` attributes from all operations: PJRT plugins need not know them."""
    for op in (module, *module.walk()):
        for name in [name for name in op.attributes if _is_own(name)]:
            del op.attributes[name]


def _is_own(name: str) -> bool:
    return name.startswith(PREFIX)


def name_of(module: ir.Module) -> str:
    """The name of the module, such as `jit_step`."""
    attributes = module.operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "a module"


def is_partitioned(module: ir.Module) -> bool:
    """Whether the module is marked as the result of partitioning."""
    return MESH in module.operation.attributes


def write_file(source: Any, path: Path) -> None:
    """Write a partitioned module as text or, for `.mlirbc` and `.bc`, as bytecode, atomically."""
    module = read_program(source)
    signature_of(module)
    buffer = io.BytesIO()
    if path.suffix in (".mlirbc", ".bc"):
        module.operation.write_bytecode(buffer)
    else:
        module.operation.print(file=buffer, binary=True)
    write(path, buffer.getvalue())
