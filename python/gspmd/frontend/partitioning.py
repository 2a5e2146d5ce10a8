"""Partitions a lowered function on first use, or finds the result of an earlier process in the cache."""

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
from gspmd.frontend.program_cache import CachedProgram, CacheEntry, bytecode_of, module_of, recording_diagnostics
from gspmd.runtime import executable_module
from gspmd.transforms.ir.signature import Signature, signature_of


class Partitioning:
    """The annotated `program`, and its partitioned module with these options of `gspmd.partition`.

    The cache `entry` is read first, if there is one. The object has no reference to the function, so that arrays of the
    function are freed with it.
    """

    def __init__(self, program: Callable[[], ir.Module], options: Mapping[str, Any], entry: CacheEntry | None) -> None:
        self._program, self._options, self._entry = program, options, entry
        self._diagnostics: list[Diagnostic] = []
        self._taken_s = 0.0
        self._final: bytes | None = None  # to be cached

    @functools.cached_property
    def _kept(self) -> CachedProgram | None:
        found = None if self._entry is None else self._entry.find()
        for diagnostic in () if found is None else found.diagnostics:
            send(diagnostic)
        return found

    @functools.cached_property
    def _kept_signature(self) -> Signature:
        """The signature of the cached program."""
        assert self._kept is not None
        return signature_of(module_of(self._kept.partitioned))

    @property
    def mesh(self) -> Mesh:
        """The mesh of the partitioned program. Errors: as `partitioned`."""
        return self.partitioned.mesh if self._kept is None else self._kept_signature.mesh

    @functools.cached_property
    def partitioned(self) -> Partitioned:
        """The program of one device, with source locations. Errors: as `gspmd.partition`."""
        kept = self._kept
        if kept is not None and self._entry is not None and kept.places == self._entry.places:
            return Partitioned(module_of(kept.partitioned))
        started = time.perf_counter()
        with recording_diagnostics() as diagnostics:
            found = api.partition(self._program(), **self._options)
        self._diagnostics += diagnostics
        self._taken_s += time.perf_counter() - started
        return found

    def for_platform(self, platform: str) -> tuple[ir.Module, Signature]:
        """The module that PJRT compiles for devices of a platform. Errors: as `partitioned`."""
        kept, usual = self._kept, self._entry is not None and self._entry.platform == platform
        if kept is not None and usual:
            return module_of(kept.final), self._kept_signature
        partitioned = self.partitioned
        started = time.perf_counter()
        with recording_diagnostics() as diagnostics:
            module, signature = executable_module.read_partitioned(partitioned.module, platform)
        self._diagnostics += diagnostics
        self._taken_s += time.perf_counter() - started
        if usual:
            self._final = bytecode_of(module)
        return module, signature

    def keep(self, compiled_s: float) -> None:
        """Write it to the cache, unless it came from there. Called after compilation, which took so many seconds."""
        if self._entry is not None and self._final is not None:
            partitioned = bytecode_of(self.partitioned.module)
            program = CachedProgram(partitioned, self._final, self._entry.places, tuple(self._diagnostics))
            self._entry.keep(program, self._taken_s + compiled_s)
            self._final = None
