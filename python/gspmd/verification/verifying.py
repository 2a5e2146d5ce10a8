"""Both programs, run on the same arguments, and what is said of every result."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, read_signature
from gspmd.verification import index_maps
from gspmd.verification.conditions import Conditions
from gspmd.verification.devices import Devices
from gspmd.verification.equality import difference
from gspmd.verification.evaluation import Evaluation, Unknown
from gspmd.verification.index_maps import IndexMap, counted, dim
from gspmd.verification.meaning.loops import Loops
from gspmd.verification.placement import parts
from gspmd.verification.terms import INDEX, Terms
from gspmd.verification.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    verdict: str
    reason: str = ""


def verify_modules(given: ir.Module, partitioned: ir.Module) -> list[Finding]:
    return _Verification(model_of(given), model_of(partitioned)).run()


class _Verification:
    def __init__(self, given: Operation, partitioned: Operation) -> None:
        self.signature: Signature = read_signature(partitioned)
        self.algebra = Conditions(Terms())
        self.devices = Devices(self.signature.mesh)
        loops = Loops()
        self.given = Evaluation(given, self.algebra, self.devices, loops, False)
        self.partitioned = Evaluation(partitioned, self.algebra, self.devices, loops, True)
        self.given_main, self.main = main_function(given), main_function(partitioned)

    def run(self) -> list[Finding]:
        wholes = [self._argument(i, v.shape, v.element_type) for i, v in enumerate(self.signature.inputs)]
        locals_ = [
            self.algebra.moved(whole, v.local_shape, parts(self.devices, v))
            for whole, v in zip(wholes, self.signature.inputs, strict=True)
        ]
        try:
            wanted = self.given.block(self.given_main.regions[0], wholes)
        except Unknown as error:
            return [Finding("not known", f"given: {error.op.name}: {error.reason}")]
        try:
            found = self.partitioned.block(self.main.regions[0], locals_)
        except Unknown as error:
            return [Finding("not known", f"partitioned: {error.op.name}: {error.reason}")]
        findings = []
        for whole, local, v in zip(wanted, found, self.signature.outputs, strict=True):
            promised = self.algebra.moved(whole, v.local_shape, parts(self.devices, v))
            findings.append(self._compared(promised, local))
        return findings

    def _argument(self, number: int, shape: tuple[int, ...], element: str) -> Value:
        own = [(INDEX, counted(dim(d), size)) for d, size in enumerate(shape)]
        # every dimension is a slot of its own, though two of one size are bound alike
        made = self.algebra.terms.argument(number, element, len(shape))
        return self.algebra.value(made, [b for _, b in own], shape)

    def _compared(self, promised: Value, local: Value) -> Finding:
        found = difference(self.algebra, promised, local)
        if found is None:
            return Finding("proved")
        return Finding("differs", f"{found}\nwanted {promised.term}{promised.bindings}\nfound {local.term}{local.bindings}")


__all__ = ["IndexMap", "Any", "verify_modules"]
