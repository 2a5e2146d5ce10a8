"""Workarounds: operations that XLA computes wrongly or refuses, rewritten (docs/xla.md).

A partitioned module is the same for all platforms. `gspmd-legalize-for-xla` is the last pass before XLA, for one
platform.
"""

from __future__ import annotations

import dataclasses

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import ONE_MAIN
from gspmd.transforms.repairs.xla_repairs import repair


@dataclasses.dataclass(frozen=True)
class LegalizeForXla(Pass):
    """Rewrite operations that XLA computes wrongly or refuses, as happens to every program that gspmd runs or
    compiles.
    """

    argument = "gspmd-legalize-for-xla"
    summary = "Rewrite operations that XLA computes wrongly or refuses"

    needs = (ONE_MAIN,)

    platform: str = option("", "JAX platform whose compiler gets the program, such as cpu; empty for any")

    def run(self, module: Operation) -> None:
        repair(module, self.platform)
