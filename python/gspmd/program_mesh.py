"""The mesh of a program's annotations."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.mesh import Mesh
from gspmd.pass_manager.manager import run_in_memory
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.annotated import AnnotatedModule
from gspmd.transforms.ir.reading import model_of


def mesh_of(module: ir.Module, num_partitions: int | None) -> Mesh:
    """The mesh of a program, which is not changed. Errors: those of `gspmd-ingest`."""
    with module.context, ir.Location.unknown():
        top = model_of(module)
        run_in_memory([Ingest(num_partitions=num_partitions or 0)], top, module)
        return AnnotatedModule(top).mesh
