"""Shardings as attributes of the `sdy` dialect, each read and written once."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, parse_sharding, print_mesh, print_sharding
from gspmd.dialect.sharding import TensorSharding


class SdyCodec:
    """Reads and writes the sharding attributes of one module, whose meshes it knows."""

    def __init__(self, context: ir.Context, meshes: dict[str, Mesh]) -> None:
        self.context = context
        self.meshes = meshes
        self._read: dict[Any, TensorSharding] = {}
        self._read_lists: dict[Any, tuple[TensorSharding, ...]] = {}
        self._written: dict[TensorSharding, Any] = {}
        self._written_lists: dict[tuple[TensorSharding, ...], Any] = {}

    @classmethod
    def of_module(cls, module: ir.Module) -> SdyCodec:
        meshes = {}
        for op in module.body.operations:
            if op.operation.name == "sdy.mesh":
                name = ir.StringAttr(op.operation.attributes["sym_name"]).value
                meshes[name] = parse_mesh(str(op.operation.attributes["mesh"]), name)
                meshes[name].check_devices()
        return cls(module.context, meshes)

    def read(self, attribute: Any) -> TensorSharding:
        """A `#sdy.sharding`. Raises ParseError or AnnotationError."""
        found = self._read.get(attribute)
        if found is None:
            found = self._read[attribute] = parse_sharding(str(attribute), self.meshes)
        return found

    def read_list(self, attribute: Any) -> tuple[TensorSharding, ...]:
        """A `#sdy.sharding_per_value`, one entry a result."""
        found = self._read_lists.get(attribute)
        if found is None:
            parts = sdy.TensorShardingPerValueAttr(attribute).shardings
            found = self._read_lists[attribute] = tuple(self.read(part) for part in parts)
        return found

    def write(self, sharding: TensorSharding) -> Any:
        """The attribute of one value."""
        found = self._written.get(sharding)
        if found is None:
            text = f"#sdy.sharding{print_sharding(sharding)}"
            found = self._written[sharding] = ir.Attribute.parse(text, self.context)
        return found

    def write_list(self, shardings: tuple[TensorSharding, ...]) -> Any:
        """The attribute of an operation's results."""
        found = self._written_lists.get(shardings)
        if found is None:
            text = f"#sdy.sharding_per_value<[{', '.join(map(print_sharding, shardings))}]>"
            found = self._written_lists[shardings] = ir.Attribute.parse(text, self.context)
        return found

    def mesh_attribute(self, mesh: Mesh) -> Any:
        return ir.Attribute.parse(f"#sdy.mesh{print_mesh(mesh)}", self.context)
