"""The global signature of a partitioned module: the global types and shardings of its arguments and results.

The types of a partitioned `@main` are per-device. Attributes keep the rest: `gspmd.mesh` on the module,
`gspmd.global_type`, `gspmd.sharding` and, where known, `gspmd.name` on every argument and result. With
`mhlo.sharding = "{manual}"` and `mhlo.num_partitions`, which PJRT reads, a file is enough to run it.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Error, ParseError, Unsupported
from gspmd.dialect.hlo_notation import print_hlo_sharding
from gspmd.dialect.hlo_sharding import MANUAL
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, parse_sharding, print_mesh, print_sharding
from gspmd.dialect.own_attributes import GLOBAL_TYPE, MESH, NAME, SHARDING
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.modules import context_of, function_types, main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.reading import read_boundary
from gspmd.transforms.ir.types import TensorType, read_type
from gspmd.transforms.parsing.attribute_text import as_dictionary, required_text, text_of
from gspmd.transforms.parsing.mlir import name_in

TOKEN = "!stablehlo.token"
MEMORY_KIND = "mhlo.memory_kind"  # the memory of an argument or result in JAX
DONATION = ("tf.aliasing_output", "jax.buffer_donor")
MESH_SYMBOL = "mesh"  # the name of the mesh of a partitioned module


@dataclasses.dataclass(frozen=True, slots=True)
class ValueSignature:
    """An argument or result of the global program.

    `shape` is global; `element_type` is in MLIR syntax (`f32`, `complex<f64>`); `donated` arguments give their memory
    to a result and are deleted by a run; `name` is that in the program, if there is one; `memory_kind` is its memory,
    such as `pinned_host`, if the program has one. Tokens, which order side effects, are scalars of the element type
    `TOKEN`.

    Errors: AnnotationError if the ranks of sharding and shape differ.
    """

    shape: tuple[int, ...]
    element_type: str
    sharding: TensorSharding
    donated: bool = False
    name: str | None = None
    memory_kind: str | None = None

    def __post_init__(self) -> None:
        self.sharding.check_rank(len(self.shape))

    @property
    def is_token(self) -> bool:
        return self.element_type == TOKEN

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of the shards, with padding."""
        return self.sharding.local_shape(self.shape)

    def type_text(self, local: bool = False) -> str:
        """`tensor<8x3xf32>`, for the global value or for the shard."""
        return tensor_text(self.local_shape if local else self.shape, self.element_type)


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """The mesh, arguments and results of a partitioned program.

    An argument or result may have its own device order: its mesh then has the axes of the program and other device ids.
    Errors: AnnotationError if a value is sharded over other axes.
    """

    mesh: Mesh
    inputs: tuple[ValueSignature, ...]
    outputs: tuple[ValueSignature, ...]

    def __post_init__(self) -> None:
        for what, values in (("argument", self.inputs), ("result", self.outputs)):
            for index, value in enumerate(values):
                if value.sharding.mesh.axes != self.mesh.axes:
                    raise AnnotationError(
                        f"{what} {index} is sharded over {print_mesh(value.sharding.mesh)}, "
                        f"but the module's mesh is {print_mesh(self.mesh)}"
                    )

    @property
    def num_partitions(self) -> int:
        return self.mesh.size


def arrays(values: Sequence[ValueSignature]) -> list[ValueSignature]:
    """The arguments or results without tokens, which come first."""
    return [value for value in values if not value.is_token]


def tensor_text(shape: Sequence[int], element_type: str) -> str:
    """`tensor<8x3xf32>`; the type of a token is its element type."""
    if element_type == TOKEN:
        return TOKEN
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element_type}>"


def tensor_of(type_: TensorType, what: str) -> tuple[tuple[int, ...], str]:
    """The shape and element type of a static tensor type. Raises Unsupported for any other type."""
    if not type_.is_tensor:
        raise Unsupported(f"{what} has type {type_.text}, expected a tensor of static shape", code=Code.DYNAMIC_SHAPE)
    return type_.shape, type_.element


def _type_of(type_: TensorType, what: str) -> tuple[tuple[int, ...], str]:
    """As `tensor_of`, but tokens are allowed."""
    return ((), TOKEN) if type_.element == TOKEN else tensor_of(type_, what)


_dictionaries: weakref.WeakKeyDictionary[Operation, dict[str, tuple[ir.ArrayAttr, list[dict[str, ir.Attribute]]]]] = (
    weakref.WeakKeyDictionary()
)
"""A cache of the attributes of functions, which several stages read."""


def dictionaries(func: Operation, key: str, count: int) -> list[dict[str, ir.Attribute]]:
    """The attributes (`arg_attrs` or `res_attrs`) of every argument or result, as dictionaries."""
    attribute = func.attributes.get(key)
    if attribute is None:
        return [{} for _ in range(count)]
    known = _dictionaries.setdefault(func, {})
    if key not in known or known[key][0] != attribute:
        known[key] = attribute, [as_dictionary(entry) for entry in attribute]
    return [dict(entry) for entry in known[key][1]]


def set_dictionaries(func: Operation, key: str, entries: Sequence[dict[str, ir.Attribute]]) -> None:
    """Write the dictionaries; without an attribute if all are empty."""
    if any(entries):
        context = context_of(func)
        written = [ir.DictAttr.get(entry, context) for entry in entries]
        attribute = func.attributes[key] = ir.ArrayAttr.get(written, context)
        _dictionaries.setdefault(func, {})[key] = attribute, [dict(sorted(entry.items())) for entry in entries]
    elif key in func.attributes:
        del func.attributes[key]


def argument_name(location: ir.Location, entry: dict[str, ir.Attribute]) -> str | None:
    """The name of an argument, from its attribute or location (`loc("params['w']")`)."""
    if NAME in entry:
        return required_text(entry, NAME)
    return name_in(location) if isinstance(location, ir.NameLoc) else None


def result_name(entry: dict[str, ir.Attribute]) -> str | None:
    """The name of a result, from the attribute of gspmd or `jax.result_info`."""
    for key in (NAME, "jax.result_info"):
        if key in entry:
            return text_of(entry[key]) or None
    return None


def memory_kind(entry: Mapping[str, ir.Attribute]) -> str | None:
    """The memory of an argument or result, or None."""
    return required_text(entry, MEMORY_KIND) if MEMORY_KIND in entry else None


def read_signature(module: Operation) -> Signature:
    """The signature written by `write_signature`, checked against the types of `@main`.

    Errors: ParseError if the module is not partitioned, or its attributes and types disagree.
    """
    if MESH not in module.attributes:
        raise ParseError("not a partitioned module", hint="run gspmd partition first", code=Code.SIGNATURE)
    mesh = parse_mesh(required_text(module.attributes, MESH), MESH_SYMBOL)
    _check_num_partitions(module, mesh)
    func = main_function(module)
    block = func.regions[0]
    types, results = function_types(func)
    in_entries = dictionaries(func, "arg_attrs", len(types))
    out_entries = dictionaries(func, "res_attrs", len(results))
    read = functools.cache(lambda text: parse_sharding(text, {MESH_SYMBOL: mesh}))
    inputs = tuple(
        _read_value(f"argument {i}", entry, type_, read, argument_name(location, entry))
        for i, (entry, type_, location) in enumerate(zip(in_entries, types, block.locations, strict=True))
    )
    outputs = tuple(
        _read_value(f"result {i}", entry, type_, read, result_name(entry))
        for i, (entry, type_) in enumerate(zip(out_entries, results, strict=True))
    )
    return Signature(mesh, inputs, outputs)


def _check_num_partitions(module: Operation, mesh: Mesh) -> None:
    attribute = module.attributes.get("mhlo.num_partitions")
    if attribute is not None and ir.IntegerAttr(attribute).value != mesh.size:
        raise ParseError(
            f"'mhlo.num_partitions' is {ir.IntegerAttr(attribute).value}, "
            f"but the mesh {print_mesh(mesh)} has {mesh.size} devices",
            code=Code.SIGNATURE,
        )


def _read_value(
    what: str,
    entry: dict[str, ir.Attribute],
    local_type: TensorType,
    read: Callable[[str], TensorSharding],
    name: str | None,
) -> ValueSignature:
    for key in (GLOBAL_TYPE, SHARDING):
        if key not in entry:
            raise ParseError(
                f"{what} has no '{key}'; not a partitioned module",
                hint="run gspmd partition first",
                code=Code.SIGNATURE,
            )
    shape, element_type = _type_of(read_type(ir.TypeAttr(entry[GLOBAL_TYPE]).value), what)
    try:
        sharding = read(required_text(entry, SHARDING))
        donated = any(key in entry for key in DONATION)
        value = ValueSignature(shape, element_type, sharding, donated, name, memory_kind(entry))
    except Error as error:
        raise ParseError(f"{what}: {error.message}", hint=error.hint, code=error.code) from None
    if _type_of(local_type, what) != (value.local_shape, element_type):
        raise ParseError(
            f"{what} has type {local_type.text}, but a part of {value.type_text()} sharded "
            f"{print_sharding(sharding)} is {value.type_text(local=True)}",
            code=Code.SIGNATURE,
        )
    return value


def signature_of(module: ir.Module) -> Signature:
    """The signature of a partitioned MLIR module. Errors: as `read_signature`."""
    return read_signature(read_boundary(module))


def write_signature(module: Operation, signature: Signature) -> None:
    """Make `module`, with per-device types in `@main`, a partitioned module with this signature.

    Donation is read from `tf.aliasing_output` and `jax.buffer_donor`. These stay, unless the shard of an argument no
    longer has the type of its result: then it is donated to any result.

    Errors: ParseError if the number of arguments or results differs.
    """
    mesh = dataclasses.replace(signature.mesh, name=MESH_SYMBOL)
    func = main_function(module)
    block = func.regions[0]
    with context_of(module):
        known: dict[ValueSignature, dict[str, ir.Attribute]] = {}
        attributes = module.attributes
        attributes[MESH] = ir.StringAttr.get(print_mesh(mesh))
        attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), mesh.size)
        for key, values, count in (
            ("arg_attrs", signature.inputs, len(block.arguments)),
            ("res_attrs", signature.outputs, len(block.terminator.operands)),
        ):
            if len(values) != count:
                raise ParseError(f"signature has {len(values)} '{key}', but '@main' has {count}", code=Code.SIGNATURE)
            entries = dictionaries(func, key, count)
            for entry, value in zip(entries, values, strict=True):
                entry.pop("sdy.sharding", None)
                form = dataclasses.replace(value, donated=False, name=None, memory_kind=None)
                if form not in known:
                    known[form] = _value_attributes(form, mesh)
                entry.update(known[form])
                if value.name is not None:
                    entry[NAME] = ir.StringAttr.get(value.name)
                _give_up_alias(entry, value, signature.outputs)
            set_dictionaries(func, key, entries)


def _give_up_alias(entry: dict[str, ir.Attribute], value: ValueSignature, outputs: Sequence[ValueSignature]) -> None:
    """Donate to any result where the shard of the named one has another size."""
    alias, donor = DONATION
    if alias in entry:
        result = outputs[ir.IntegerAttr(entry[alias]).value]
        if (result.local_shape, result.element_type) != (value.local_shape, value.element_type):
            del entry[alias]
            entry[donor] = ir.BoolAttr.get(True)


def _value_attributes(value: ValueSignature, mesh: Mesh) -> dict[str, ir.Attribute]:
    own = value.sharding.mesh
    mesh = mesh if own == mesh else dataclasses.replace(own, name="")  # another device order is written out
    sharding = dataclasses.replace(value.sharding.closed(), mesh=mesh)
    return {
        "mhlo.sharding": ir.StringAttr.get(print_hlo_sharding(MANUAL)),
        GLOBAL_TYPE: ir.TypeAttr.get(ir.Type.parse(value.type_text())),
        SHARDING: ir.StringAttr.get(print_sharding(sharding)),
    }
