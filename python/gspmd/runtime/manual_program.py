"""A partitioned module in the form that XLA takes: one manual computation over all devices, as `jax.shard_map`'s is.

Arguments and results have the types and shardings of whole values, and all between is the program of one device. XLA
leaves it alone, however loops, branches and calls nest in it, and whoever holds an array knows what it is a part of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, atoms
from gspmd.dialect.sdy_attrs import SdyCodec, create_mesh, write_manual_axes
from gspmd.dialect.sharding import DimSharding, TensorSharding, replicated
from gspmd.runtime.pjrt_mesh import PjrtMesh
from gspmd.transforms.ir.signature import Signature, ValueSignature, arrays, dictionaries, set_dictionaries
from gspmd.transforms.parsing.mlir import main_function


@dataclasses.dataclass(frozen=True, slots=True)
class WholeForm:
    """What XLA takes an argument or result for: a value of `shape`, padding included, split by `dims` of the mesh.

    `by_shards`: the shards of all partitions one after the other along the first dimension. That is how values are
    passed of which XLA cannot be told what devices hold: shards in an order of their own, or by parts of axes that
    do not nest with those of other values, and summands. Scalars among these, which have no dimension, are said to be
    the same everywhere.
    """

    shape: tuple[int, ...]
    dims: tuple[Axes, ...]
    by_shards: bool = False


def whole_forms(signature: Signature) -> tuple[list[WholeForm], list[WholeForm]]:
    """The forms of the arguments and of the results that are no tokens."""
    mesh = signature.mesh
    known = [mesh.all_axes()]

    def form(value: ValueSignature) -> WholeForm:
        own = value.sharding
        if not own.mesh.device_ids and not own.unreduced and _nest([*known, *own.dim_axes()]):
            known.extend(own.dim_axes())
            counts = own.shard_counts()
            padded = tuple(n * k for n, k in zip(value.local_shape, counts, strict=True))
            return WholeForm(padded, own.dim_axes())
        if not value.local_shape:
            return WholeForm((), (), by_shards=True)
        first, *rest = value.local_shape
        return WholeForm((first * mesh.size, *rest), (mesh.all_axes(), *((),) * len(rest)), True)

    return [form(value) for value in arrays(signature.inputs)], [form(value) for value in arrays(signature.outputs)]


def _nest(lists: Iterable[Axes]) -> bool:
    try:
        atoms(lists)
    except ValueError:
        return False
    return True


def boundaries(signature: Signature) -> list[Axes]:
    """All lists of axes that arguments and results are split by."""
    return [axes for forms in whole_forms(signature) for form in forms for axes in form.dims]


def become_manual(module: ir.Module, signature: Signature, mesh: PjrtMesh) -> None:
    """Put the body of a partitioned module's `@main` into one manual computation; within the module's context.

    `mesh`, which becomes the module's, is cut for all `boundaries`.
    """
    function = main_function(module)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    forms = whole_forms(signature)
    tokens = len(type_.inputs) - len(forms[0])  # which come first, and are of no shape
    codec = SdyCodec(module.context, {mesh.mesh.name: mesh.mesh})
    types = [
        [*local[:tokens], *_whole_types(values, local[tokens:], function.location)]
        for values, local in zip(forms, (type_.inputs, type_.results), strict=True)
    ]
    shardings = [
        (*(replicated(mesh.mesh, 0),) * tokens, *(_sharding(form, mesh) for form in values)) for values in forms
    ]
    create_mesh(mesh.mesh, ir.InsertionPoint.at_block_begin(module.body), function.location)
    body = function.regions[0].blocks[0]
    kept = {key: function.attributes[key] for key in ("sym_name", "sym_visibility") if key in function.attributes}
    created = ir.Operation.create(
        "func.func",
        attributes={**kept, "function_type": ir.TypeAttr.get(ir.FunctionType.get(*types))},
        regions=1,
        loc=function.location,
        ip=ir.InsertionPoint(function),
    )
    block = created.regions[0].blocks.append(*types[0], arg_locs=[argument.location for argument in body.arguments])
    manual = ir.Operation.create(
        "sdy.manual_computation",
        operands=list(block.arguments),
        results=types[1],
        attributes={
            "in_shardings": codec.write_list(shardings[0]),
            "out_shardings": codec.write_list(shardings[1]),
            "manual_axes": write_manual_axes((name for name, _ in mesh.mesh.axes), module.context),
        },
        regions=1,
        loc=function.location,
        ip=ir.InsertionPoint(block),
    )
    ir.Operation.create(
        "func.return", operands=list(manual.results), loc=function.location, ip=ir.InsertionPoint(block)
    )
    body.append_to(manual.regions[0])
    end = body.operations[len(body.operations) - 1].operation
    ir.Operation.create("sdy.return", operands=list(end.operands), loc=end.location, ip=ir.InsertionPoint(end))
    end.erase()
    for key, values in zip(("arg_attrs", "res_attrs"), shardings, strict=True):
        entries = dictionaries(function, key, len(values))
        for entry, sharding in list(zip(entries, values, strict=True))[tokens:]:
            entry.pop("mhlo.sharding", None)
            entry["sdy.sharding"] = codec.write(sharding)
        set_dictionaries(created, key, entries)
    function.erase()


def _sharding(form: WholeForm, mesh: PjrtMesh) -> TensorSharding:
    return TensorSharding(mesh.mesh, tuple(DimSharding(mesh.whole(axes)) for axes in form.dims))


def _whole_types(forms: Sequence[WholeForm], local: Sequence[ir.Type], location: ir.Location) -> list[ir.Type]:
    return [
        ir.RankedTensorType.get(form.shape, ir.RankedTensorType(type_).element_type, loc=location)
        for form, type_ in zip(forms, local, strict=True)
    ]
