"""Temporary stand-in."""
from __future__ import annotations
import dataclasses
from typing import ClassVar
from jaxlib.mlir import ir
from gspmd.transforms.support.passes import Pass, option
@dataclasses.dataclass(frozen=True)
class Optimize(Pass):
    argument: ClassVar[str] = "gspmd-optimize"
    summary: ClassVar[str] = "optimize"
    def run(self, module: ir.Module) -> None:
        pass
