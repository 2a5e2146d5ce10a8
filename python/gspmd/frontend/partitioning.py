"""A lowered function, partitioned when that is first needed, or found as an earlier process left it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.api import Partitioned
from gspmd.dialect.diagnostic import Diagnostic, send
from gspmd.dialect.mesh import Mesh
from gspmd.frontend.kept_programs import KeptProgram, Shelf, bytecode_of, module_of, overhearing
from gspmd.runtime import executable_module
from gspmd.transforms.ir.signature import Signature, signature_of


class Partitioning:
    """The annotated `program` and what it becomes with these options of `gspmd.partition`.

    It is looked for on `shelf` first, if there is one. It knows nothing of the function: arrays that this has are
    freed when the function is.
    """

    def __init__(self, program: Callable[[], ir.Module], options: Mapping[str, Any], shelf: Shelf | None) -> None:
        self._program, self._options, self._shelf = program, options, shelf
        self._said: list[Diagnostic] = []
        self._taken_s = 0.0
        self._final: bytes | None = None  # what is to be kept

    @functools.cached_property
    def _kept(self) -> KeptProgram | None:
        found = None if self._shelf is None else self._shelf.find()
        for told in () if found is None else found.said:
            send(told)
        return found

    @functools.cached_property
    def _kept_signature(self) -> Signature:
        """That of what was kept."""
        assert self._kept is not None
        return signature_of(module_of(self._kept.partitioned))

    @property
    def mesh(self) -> Mesh:
        """The mesh of what the program becomes. Errors: as `partitioned`."""
        return self.partitioned.mesh if self._kept is None else self._kept_signature.mesh

    @functools.cached_property
    def partitioned(self) -> Partitioned:
        """The program of one device, with its places in the source. Errors: as `gspmd.partition`."""
        kept = self._kept
        if kept is not None and self._shelf is not None and kept.places == self._shelf.places:
            return Partitioned(module_of(kept.partitioned))
        started = time.perf_counter()
        with overhearing() as said:
            found = api.partition(self._program(), **self._options)
        self._said += said
        self._taken_s += time.perf_counter() - started
        return found

    def for_platform(self, platform: str) -> tuple[ir.Module, Signature]:
        """What PJRT is to compile for devices of a platform. Errors: as `partitioned`."""
        kept, usual = self._kept, self._shelf is not None and self._shelf.platform == platform
        if kept is not None and usual:
            return module_of(kept.final), self._kept_signature
        partitioned = self.partitioned
        started = time.perf_counter()
        with overhearing() as said:
            module, signature = executable_module.read_partitioned(partitioned.module, platform)
        self._said += said
        self._taken_s += time.perf_counter() - started
        if usual:
            self._final = bytecode_of(module)
        return module, signature

    def keep(self, compiled_s: float) -> None:
        """Put it on the shelf, where it was not. To be called once it was compiled, which took so many seconds."""
        if self._shelf is not None and self._final is not None:
            partitioned = bytecode_of(self.partitioned.module)
            program = KeptProgram(partitioned, self._final, self._shelf.places, tuple(self._said))
            self._shelf.keep(program, self._taken_s + compiled_s)
            self._final = None
