"""A program with the shardings of its values."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.own_attributes import FREE_ARGUMENTS, FREE_RESULTS
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.manual import ManualRegion, read_region
from gspmd.transforms.ir.modules import codec_of, function_types, main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import CONSTRAINT, MANUAL, Op, Program
from gspmd.transforms.ir.signature import DONATION, MEMORY_KIND, dictionaries, set_dictionaries
from gspmd.transforms.parsing.mlir import source_location


class AnnotatedModule:
    """The mesh of a module, and the shardings of the arguments and results of @main.

    `arguments` and `results` are the shardings, None without an annotation.
    """

    def __init__(self, module: Operation) -> None:
        self.module = module
        self.codec = codec_of(module)
        self.mesh = the_mesh(module, self.codec)
        self.function = main_function(module)
        inputs, results = function_types(self.function)
        self.arguments = self._signature("arg_attrs", len(inputs))
        self.results = self._signature("res_attrs", len(results))

    def _signature(self, name: str, count: int) -> list[TensorSharding | None]:
        if name not in self.function.attributes:
            return [None] * count
        return [
            self.codec.read(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else None
            for attributes in self.function.attributes[name]
        ]

    def set_free_ends(self) -> None:
        """Before completion, mark the arguments and results that have no annotation: they may get any sharding."""
        attributes, context = self.function.attributes, self.codec.context
        inputs, results = function_types(self.function)
        entries = dictionaries(self.function, "arg_attrs", 0)
        held = (*DONATION, MEMORY_KIND)
        kept = {number for number, entry in enumerate(entries) if any(name in entry for name in held)}
        aliased = {ir.IntegerAttr(entry[DONATION[0]]).value for entry in entries if DONATION[0] in entry}
        for name, types, given, taken in (
            (FREE_ARGUMENTS, inputs, self.arguments, kept),
            (FREE_RESULTS, results, self.results, aliased),
        ):
            free = [
                number
                for number, (type_, sharding) in enumerate(zip(types, given, strict=True))
                if type_.rank and number not in taken and not (sharding and sharding.says_something())
            ]
            if free:
                attributes[name] = ir.DenseI64ArrayAttr.get(free, context)

    def free_ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers of the arguments and results without annotations."""
        attributes = self.function.attributes
        found = [tuple(attributes[name]) if name in attributes else () for name in (FREE_ARGUMENTS, FREE_RESULTS)]
        return found[0], found[1]

    def forget_free_ends(self) -> None:
        """Remove the mark."""
        for name in (FREE_ARGUMENTS, FREE_RESULTS):
            self.function.attributes.pop(name, None)

    def set_signature(self, arguments: list[TensorSharding], results: list[TensorSharding]) -> None:
        """Write the shardings of arguments and results of @main."""
        for name, shardings in (("arg_attrs", arguments), ("res_attrs", results)):
            entries = dictionaries(self.function, name, len(shardings))
            for entry, sharding in zip(entries, shardings, strict=True):
                entry["sdy.sharding"] = self.codec.write(sharding)
            set_dictionaries(self.function, name, entries)


class AnnotatedProgram(AnnotatedModule):
    """A program and the `sdy` shardings on its operations."""

    def __init__(self, module: Operation) -> None:
        super().__init__(module)
        self.program = Program(module)

    def of_op(self, op: Op) -> tuple[TensorSharding, ...] | None:
        """The shardings of the results of an operation, or None."""
        attributes = op.ir.attributes
        if op.info.name == CONSTRAINT:
            return (self.codec.read(attributes["sharding"]),)
        if op.info.name == MANUAL:
            return self.region(op).out_shardings
        if "sdy.sharding" in attributes:
            return self.codec.read_list(attributes["sdy.sharding"])
        return None

    def set_of_op(self, op: Op, shardings: tuple[TensorSharding, ...]) -> None:
        """Write the shardings of the results of an operation other than a manual computation."""
        attributes = op.ir.attributes
        if op.info.name == CONSTRAINT:
            attributes["sharding"] = self.codec.write(shardings[0])
        elif all(sharding.is_replicated() for sharding in shardings):
            attributes.pop("sdy.sharding", None)
        else:
            attributes["sdy.sharding"] = self.codec.write_list(shardings)

    def region(self, op: Op) -> ManualRegion:
        """The shardings and axes of a manual computation."""
        return read_region(op.ir, self.codec, self.mesh)


def the_mesh(module: Operation, codec: SdyCodec) -> Mesh:
    """The one mesh of an ingested module."""
    meshes = list(codec.meshes.values())
    if len(meshes) == 1:
        return meshes[0]
    raise AnnotationError(
        f"expected one mesh but the module has {len(meshes)}",
        location=source_location(module.location),
        hint="run gspmd-ingest first",
        code=Code.MESH,
    )
