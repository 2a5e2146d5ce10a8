"""A partitioned module in XLA's form: one manual computation over all devices, like that of `jax.shard_map`.

Arguments and results have global types and shardings, and the body is the per-device program. XLA does not change the
body, however loops, branches and calls are nested in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gspmd.dialect.axes import Axes, atoms
from gspmd.dialect.sdy_attrs import SdyCodec, write_manual_axes
from gspmd.dialect.sharding import DimSharding, TensorSharding, replicated
from gspmd.runtime.pjrt_mesh import PjrtMesh
from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.modules import context_of, create_mesh, declare_types, main_function
from gspmd.transforms.ir.operations import Block, Operation, Point
from gspmd.transforms.ir.signature import Signature, ValueSignature, arrays, dictionaries, set_dictionaries
from gspmd.transforms.ir.types import TensorType

_KEYS = ("arg_attrs", "res_attrs")
_NAME = ("sym_name", "sym_visibility")


@dataclasses.dataclass(frozen=True, slots=True)
class XlaForm:
    """The form of an argument or result for XLA: a value of `shape`, including padding, split by `dims` of the mesh.

    With `by_shards`, it is the concatenation of the shards of all partitions along the first dimension. This form is
    for values whose placement XLA cannot express: shards in another device order, shards by parts of axes that do not
    nest with those of other values, and summands. Scalars among these, which have no dimension, are declared
    replicated.
    """

    shape: tuple[int, ...]
    dims: tuple[Axes, ...]
    by_shards: bool = False


def whole_forms(signature: Signature) -> tuple[list[XlaForm], list[XlaForm]]:
    """The forms of the arguments and of the results, without tokens."""
    mesh = signature.mesh
    known = {mesh.all_axes()}

    def form(value: ValueSignature) -> XlaForm:
        own = value.sharding
        if not own.mesh.device_ids and not own.unreduced and _nest(known, own.dim_axes()):
            known.update(own.dim_axes())
            counts = own.shard_counts()
            padded = tuple(n * k for n, k in zip(value.local_shape, counts, strict=True))
            return XlaForm(padded, own.dim_axes())
        if not value.local_shape:
            return XlaForm((), (), by_shards=True)
        first, *rest = value.local_shape
        return XlaForm((first * mesh.size, *rest), (mesh.all_axes(), *((),) * len(rest)), True)

    return [form(value) for value in arrays(signature.inputs)], [form(value) for value in arrays(signature.outputs)]


def _nest(known: set[Axes], new: Sequence[Axes]) -> bool:
    """Whether lists of axes nest with other lists."""
    try:
        if not known.issuperset(new):
            atoms([*known, *new])
    except ValueError:
        return False
    return True


def boundaries(signature: Signature) -> list[Axes]:
    """All lists of axes that split arguments and results."""
    return [axes for forms in whole_forms(signature) for form in forms for axes in form.dims]


def become_manual(module: Operation, signature: Signature, mesh: PjrtMesh) -> None:
    """Put the body of a partitioned module's `@main` into one manual computation; within the module's context.

    `mesh`, which becomes the module's, is cut for all `boundaries`.
    """
    function, context = main_function(module), context_of(module)
    body = function.regions[0]
    local = ([value.type for value in body.arguments], [value.type for value in body.terminator.operands])
    forms = whole_forms(signature)
    tokens = len(local[0]) - len(forms[0])  # they come first and have no shape
    codec = SdyCodec(context, {mesh.mesh.name: mesh.mesh})
    types = [
        [*own[:tokens], *(type_.of_shape(form.shape) for form, type_ in zip(values, own[tokens:], strict=True))]
        for values, own in zip(forms, local, strict=True)
    ]
    shardings = [
        (*(replicated(mesh.mesh, 0),) * tokens, *(_sharding(form, mesh) for form in values)) for values in forms
    ]
    create_mesh(mesh.mesh, Point.at_begin(module.regions[0]), function.location)
    block = Block(types[0], body.locations)
    taken = _without_empty(body)
    end = body.terminator
    returned, unused = [*end.operands], 0
    if not taken and not returned:
        # Without an operand or result, XLA takes it for a part of the whole program and refuses its callbacks.
        build = Builder(context_of(end))
        build.point = Point.at(end)
        returned, unused = [build.constant(TensorType((), "i1"), "zero")], 1
    Operation("sdy.return", returned, [], {}, end.location).insert(Point.at(end))
    end.erase()
    attributes = {
        "in_shardings": codec.write_list(tuple(shardings[0][index] for index in taken)),
        "out_shardings": codec.write_list((*shardings[1], *(replicated(mesh.mesh, 0),) * unused)),
        "manual_axes": write_manual_axes((name for name, _ in mesh.mesh.axes), context),
    }
    manual = Operation(
        "sdy.manual_computation",
        [block.arguments[index] for index in taken],
        [value.type for value in returned] if unused else types[1],
        attributes,
        function.location,
        [body],
    ).insert(Point(block))
    Operation("func.return", manual.results[unused:], [], {}, function.location).insert(Point(block))
    function.regions, block.owner = [block], function
    named = {key: function.attributes[key] for key in function.attributes if key in _NAME}
    entries_of = {key: dictionaries(function, key, len(each)) for key, each in zip(_KEYS, shardings, strict=True)}
    function.attributes = named
    declare_types(function)
    for key, values in zip(_KEYS, shardings, strict=True):
        entries = entries_of[key]
        for entry, sharding in list(zip(entries, values, strict=True))[tokens:]:
            entry.pop("mhlo.sharding", None)
            entry["sdy.sharding"] = codec.write(sharding)
        set_dictionaries(function, key, entries)


def _without_empty(body: Block) -> list[int]:
    """Create arguments without elements in the body; returns the numbers of the others.

    XLA folds such an argument early, and refuses a computation without operands.
    """
    kept = [index for index, argument in enumerate(body.arguments) if 0 not in argument.type.shape]
    if len(kept) == len(body.arguments):
        return kept
    build = Builder(context_of(body.terminator))
    build.point = Point.at_begin(body)
    for argument in body.arguments:
        if 0 in argument.type.shape:
            argument.replace_all_uses_with(build.constant(argument.type, "zero"))
    body.keep_arguments(kept)
    return kept


def _sharding(form: XlaForm, mesh: PjrtMesh) -> TensorSharding:
    return TensorSharding(mesh.mesh, tuple(DimSharding(mesh.whole(axes)) for axes in form.dims))
