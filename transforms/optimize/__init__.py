"""Tidying the per-device program: equal operations merged, unused ones dropped."""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir, passmanager

from gspmd.transforms.support.passes import Pass


@dataclasses.dataclass(frozen=True)
class Optimize(Pass):
    """Merge equal operations and drop unused ones, with MLIR's own passes."""

    argument = "gspmd-optimize"
    summary = "Merge equal operations and drop unused ones"

    def run(self, module: ir.Module) -> None:
        with module.context:
            passmanager.PassManager.parse("builtin.module(cse)").run(module.operation)
