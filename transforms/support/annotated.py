"""The shardings written on a module's values, read together with its program."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.mlir import source_location
from gspmd.transforms.support.program import CONSTRAINT, Op, Program


class AnnotatedProgram:
    """A program and the `sdy` shardings on it.

    `arguments` and `results` are those of @main, None where nothing is said; `of_op` gives those of an
    operation's results.
    """

    def __init__(self, module: ir.Module) -> None:
        self.program = Program(module)
        self.codec = SdyCodec.of_module(module)
        self.mesh = the_mesh(module, self.codec)
        function = self.program.function
        count = len(self.program.body.arguments)
        self.arguments = self._signature(function, "arg_attrs", count)
        self.results = self._signature(function, "res_attrs", len(self.program.body.returned))

    def _signature(self, function: Any, name: str, count: int) -> list[TensorSharding | None]:
        if name not in function.attributes:
            return [None] * count
        return [
            self.codec.read(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else None
            for attributes in function.attributes[name]
        ]

    def of_op(self, op: Op) -> tuple[TensorSharding, ...] | None:
        """Shardings of the results, None when there are none."""
        attributes = op.ir.attributes
        if op.info.name == CONSTRAINT:
            return (self.codec.read(attributes["sharding"]),)
        if "sdy.sharding" in attributes:
            return self.codec.read_list(attributes["sdy.sharding"])
        return None


def the_mesh(module: ir.Module, codec: SdyCodec) -> Mesh:
    """The one mesh of an ingested module."""
    meshes = list(codec.meshes.values())
    if len(meshes) == 1:
        return meshes[0]
    raise AnnotationError(
        f"expected one mesh but the module has {len(meshes)}",
        location=source_location(module.operation.location),
        hint="run gspmd-ingest first",
    )


def set_signature(
    program: Program, codec: SdyCodec, arguments: list[TensorSharding], results: list[TensorSharding]
) -> None:
    """Write the shardings of @main's arguments and results."""
    for name, shardings in (("arg_attrs", arguments), ("res_attrs", results)):
        attributes = program.function.attributes
        old = list(attributes[name]) if name in attributes else [ir.DictAttr.get({}, codec.context)] * len(shardings)
        new = []
        for entry, sharding in zip(old, shardings, strict=True):
            pairs = {pair.name: pair.attr for pair in entry}
            pairs["sdy.sharding"] = codec.write(sharding)
            new.append(ir.DictAttr.get(pairs, codec.context))
        program.function.attributes[name] = ir.ArrayAttr.get(new, codec.context)
