"""Partitioned programs in the folder of JAX's compilation cache, for other processes.

JAX caches executables by the module that XLA compiles. This cache finds that module without partitioning again. Its
key consists of the lowered module, the specs of arguments and results, the options, the devices, and the sources of
gspmd, but not of source locations. Only if these are equal, too, the cached program also serves explanations and
costs, and the diagnostics of its partitioning are sent again.

An entry is complete or ignored: it has a checksum, and is written atomically. A problem with the folder is a remark,
and the program is partitioned without the cache.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import logging
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jaxlib
from jaxlib.mlir import ir

from gspmd import dialect, transforms
from gspmd.dialect.diagnostic import Diagnostic, Severity, listener, remark_once, telling
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError, SourceLocation
from gspmd.frontend import jax_stages
from gspmd.frontend.jax_stages import DiskCache
from gspmd.transforms.parsing.mlir import new_context, parse_written

_log = logging.getLogger(__name__)
_FORMAT = b"gspmd program 1\n"
_DIGEST = hashlib.sha256


@dataclasses.dataclass(frozen=True, slots=True)
class CachedProgram:
    """The program of one device as bytecode: gspmd's own module, and the `final` one for PJRT.

    `places` distinguishes programs that differ only in their source locations. `diagnostics` are the remarks and
    warnings of the passes.
    """

    partitioned: bytes
    final: bytes
    places: str
    diagnostics: tuple[Diagnostic, ...]

    def written(self) -> bytes:
        """The bytes that `read` reads."""
        parts = {"partitioned": self.partitioned, "final": self.final}
        about = {name: base64.b64encode(part).decode() for name, part in parts.items()}
        text = json.dumps({**about, "places": self.places, "diagnostics": [*map(_as_json, self.diagnostics)]})
        content = zlib.compress(text.encode(), 1)
        return _FORMAT + _DIGEST(content).digest() + content

    @staticmethod
    def read(data: bytes) -> CachedProgram:
        """Raises ValueError for anything but the complete output of `written`."""
        head = len(_FORMAT)
        digest, content = data[head : head + 32], data[head + 32 :]
        if not data.startswith(_FORMAT) or _DIGEST(content).digest() != digest:
            raise ValueError("it is damaged")
        about = json.loads(zlib.decompress(content))
        partitioned, final = (base64.b64decode(about[name]) for name in ("partitioned", "final"))
        return CachedProgram(partitioned, final, about["places"], tuple(map(_from_json, about["diagnostics"])))


def module_of(bytecode: bytes) -> ir.Module:
    """The module that `bytecode_of` wrote, in a context of its own."""
    return parse_written(bytecode, new_context())


def bytecode_of(module: ir.Module) -> bytes:
    """A module with its source locations, for this version of jaxlib."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


class CacheEntry:
    """The cache entry of one program for a platform: `find` the program, or partition it and `keep` it."""

    def __init__(self, cache: DiskCache, key: str, name: str, places: str, platform: str) -> None:
        self.places, self.platform = places, platform
        self._cache, self._key, self._name = cache, f"gspmd-{key}", name

    def find(self) -> CachedProgram | None:
        """The program of an earlier process, unless it has diagnostics whose locations have changed."""
        with self._remarking("read"):
            data = self._cache.get(self._key)
            if data is None:
                self._log_event("explain_cache_misses", "partitioned '%s', which is not in the cache as %s")
                return None
            try:
                found = CachedProgram.read(data)
            except (ValueError, KeyError, TypeError, zlib.error) as error:
                self._cache.remove(self._key)
                raise InputError(f"'{self._key}' is damaged: {error}", code=Code.SYNTAX) from None
            if found.diagnostics and found.places != self.places:
                return None
            self._log_event("log_compiles", "found '%s' partitioned in the cache as %s")
            return found
        return None

    def keep(self, program: CachedProgram, taken_s: float) -> None:
        """Write the program, if partitioning and compiling took as long as JAX's settings require."""
        if taken_s < _setting("persistent_cache_min_compile_time_secs") or jax.process_index() != 0:
            return
        data = program.written()
        if len(data) >= _setting("persistent_cache_min_entry_size_bytes"):
            with self._remarking("write"):
                self._cache.put(self._key, data)

    @contextlib.contextmanager
    def _remarking(self, what: str) -> Iterator[None]:
        """Turn an exception inside into a remark, or into an error if JAX's setting requires it."""
        try:
            yield
        except Exception as error:
            if _setting("raise_persistent_cache_errors"):
                raise error if isinstance(error, Error) else InputError(f"cannot {what} the cache: {error}") from error
            again = f"so '{self._name}' may be partitioned again"
            remark_once(f"cannot {what} the compilation cache, {again}: {_error_line(error)}")

    def _log_event(self, setting: str, message: str) -> None:
        level = logging.WARNING if _setting(setting) else logging.DEBUG
        _log.log(level, message, self._name, self._key)


def _setting(name: str) -> Any:
    return getattr(jax.config, f"jax_{name}")


def _error_line(error: Exception) -> str:
    return error.message if isinstance(error, Error) else str(error).strip().partition("\n")[0]


@contextlib.contextmanager
def recording_diagnostics() -> Iterator[list[Diagnostic]]:
    """Record the diagnostics that are sent inside; they also reach the listener outside."""
    recorded: list[Diagnostic] = []
    outside = listener()

    def record(diagnostic: Diagnostic) -> None:
        recorded.append(diagnostic)
        outside(diagnostic)

    with telling(record):
        yield recorded


# ---- keys ----


def cache_entry(
    name: str,
    module: ir.Module,
    specs: Any,
    options: Mapping[str, Any],
    devices: Sequence[Any],
    host_calls: Sequence[Any],
) -> CacheEntry | None:
    """The cache entry of a module that JAX lowered, for these devices.

    `specs` describes its arguments and results. None if JAX has no cache, and if the program depends on Python
    functions, which cannot be compared with those of another process; JAX does not cache such programs either.
    """
    try:
        cache = jax_stages.disk_cache(devices[0].client)
    except Exception as error:  # noqa: BLE001 - any exception of the file system, or of a library for remote ones
        remark_once(f"cannot use the compilation cache: {_error_line(error)}")
        return None
    if cache is None or host_calls or _is_extended():
        return None
    given, version = _plain(options), _version()
    text = str(module.operation.get_asm(enable_debug_info=False))
    if given is None or version is None:
        return None
    hardware = [_hardware(device) for device in devices]
    parts = (version, jax.__version__, jaxlib.__version__, text, repr(specs), given, repr(hardware))
    key = _DIGEST("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
    return CacheEntry(cache, key, name, _DIGEST(bytecode_of(module)).hexdigest(), devices[0].platform)


def _is_extended() -> bool:
    """Whether the user defined operations in Python; this is only possible after the table was loaded."""
    table = sys.modules.get("gspmd.transforms.ops")
    return table is not None and table.is_extended()


def _hardware(device: Any) -> tuple[Any, ...]:
    """The properties of a device on which programs may depend; the executable determines the devices themselves."""
    names = ("platform", "device_kind", "coords", "core_on_chip", "slice_index", "process_index")
    return tuple(getattr(device, name, None) for name in names)


def _plain(options: Mapping[str, Any]) -> str | None:
    """Options as a text that is the same in every process; None if they have none."""
    try:
        described = json.dumps({**options, "target": _target(str(options.get("target") or ""))}, sort_keys=True)
    except (TypeError, ValueError):
        return None
    return described


def _target(text: str) -> str:
    """The name of a target, or the content of its file."""
    with contextlib.suppress(OSError, ValueError):
        if text.endswith(".toml") or os.path.isfile(text):
            return Path(text).read_text()
    return text


@functools.cache
def _version() -> str | None:
    """A digest of gspmd's sources; None if they cannot be read."""
    digest = _DIGEST()
    folders = (Path(package.__path__[0]) for package in (dialect, transforms))
    roots = (Path(__file__).parents[1], *folders)  # links in ours are not followed
    found = sorted({path for root in roots for path in root.rglob("*.py")}, key=Path.as_posix)
    for path in found:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest() if found else None


# ---- diagnostics ----


def _as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    where = diagnostic.location
    return {
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "location": None if where is None else [where.file, where.line, where.column],
        "notes": [_as_json(note) for note in diagnostic.notes],
        "hint": diagnostic.hint,
        "code": None if diagnostic.code is None else diagnostic.code.name,
    }


def _from_json(about: Mapping[str, Any]) -> Diagnostic:
    where, code = about["location"], about["code"]
    return Diagnostic(
        Severity(about["severity"]),
        about["message"],
        None if where is None else SourceLocation(*where),
        tuple(map(_from_json, about["notes"])),
        about["hint"],
        None if code is None else Code[code],
    )
