"""Temporary stand-in."""
from __future__ import annotations
import dataclasses
from typing import ClassVar
from jaxlib.mlir import ir
from gspmd.transforms.support.passes import Pass, option
from jaxlib.mlir import passmanager
@dataclasses.dataclass(frozen=True)
class Ingest(Pass):
    argument: ClassVar[str] = "gspmd-ingest"
    summary: ClassVar[str] = "ingest"
    num_partitions: int = option(0, "x")
    def run(self, module: ir.Module) -> None:
        passmanager.PassManager.parse("builtin.module(inline,symbol-dce)").run(module.operation)
