"""Rewrites Shardy's annotations for XLA GSPMD, as `mhlo.sharding` attributes and `@Sharding` calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.hlo_convert import to_hlo_sharding
from gspmd.dialect.hlo_notation import print_hlo_sharding
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.modules import (
    FUNCTION,
    codec_of,
    function_types,
    functions,
    main_function,
    mesh_operations,
)
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import source_location

Free: TypeAlias = tuple[Sequence[bool], Sequence[bool]]
"""For each argument and each result, whether the partitioner may choose its sharding."""

_SDY, _MHLO, _COUNT = "sdy.sharding", "mhlo.sharding", "mhlo.num_partitions"
_NOT_IN_GSPMD = frozenset(("sdy.propagation_barrier", "sdy.sharding_group"))


def free_values(module: ir.Module) -> Free:
    """The arguments and results of a program that have no annotation, or one with open dimensions."""
    top = model_of(module)
    codec, function = codec_of(top), main_function(top)

    def is_free(entry: dict[str, ir.Attribute]) -> bool:
        if _SDY in entry:
            return any(dim.is_open for dim in codec.read(entry[_SDY]).dims)
        return _MHLO not in entry

    inputs, results = (
        [is_free(entry) for entry in dictionaries(function, key, len(types))]
        for key, types in zip(("arg_attrs", "res_attrs"), function_types(function), strict=True)
    )
    return inputs, results


def use_gspmd_annotations(module: ir.Module, mesh: Mesh) -> None:
    """Rewrite the `sdy` annotations of a program for GSPMD, over the devices of a mesh.

    Priorities, axes that must stay replicated, barriers and groups have no equivalent in GSPMD, and are dropped.
    Errors: Unsupported for manual computations and other `sdy` operations that have no equivalent.
    """
    with in_memory(module) as top:
        codec = codec_of(top)
        for op in list(top.walk()):
            if op.name in (CONSTRAINT, "sdy.reshard"):
                _become_call(op, codec)
            elif op.name in _NOT_IN_GSPMD:
                op.replace(op.operands[: len(op.results)])
            elif op.name == FUNCTION or op.name == "sdy.mesh":
                continue
            elif op.name.startswith("sdy.") and op.name != "sdy.return":
                raise Unsupported("has no form that GSPMD reads", op=op.name, location=source_location(op.location))
            elif _SDY in op.attributes:
                op.attributes[_MHLO] = _attribute(*codec.read_list(op.attributes.pop(_SDY)))
        for function in functions(top):
            _annotate_signature(function, codec)
        for op in mesh_operations(top):
            op.erase()
        top.attributes[_COUNT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), mesh.size)


def _become_call(op: Operation, codec: SdyCodec) -> None:
    """Replace a constraint by GSPMD's custom call, which lists the open dimensions."""
    sharding = codec.read(op.attributes["sharding"])
    attributes = {"call_target_name": ir.StringAttr.get("Sharding"), _MHLO: _attribute(sharding)}
    call = Operation(CUSTOM_CALL, op.operands, [op.result.type], attributes, op.location)
    call.insert(Point.at(op))
    if opened := [i for i, dim in enumerate(sharding.dims) if dim.is_open]:
        call.attributes["backend_config"] = ir.StringAttr.get(f"unspecified_dims={opened}".replace(" ", ""))
    op.replace(call.results)


def _annotate_signature(function: Operation, codec: SdyCodec) -> None:
    for key, types in zip(("arg_attrs", "res_attrs"), function_types(function), strict=True):
        entries = dictionaries(function, key, len(types))
        for entry in entries:
            if _SDY not in entry:
                continue
            sharding = codec.read(entry.pop(_SDY))
            if any(sharding.dim_axes()) or not all(dim.is_open for dim in sharding.dims):
                entry[_MHLO] = _attribute(sharding)
        set_dictionaries(function, key, entries)


def _attribute(*shardings: TensorSharding) -> Any:
    if any(sharding.unreduced for sharding in shardings):
        raise Unsupported("GSPMD has no annotation for unreduced values", code=Code.UNSUPPORTED)
    texts = [print_hlo_sharding(to_hlo_sharding(sharding)) for sharding in shardings]
    return ir.StringAttr.get(texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}")
