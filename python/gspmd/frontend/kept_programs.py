"""What a function was partitioned to, kept in the folder of JAX's compilation cache for other processes.

JAX keeps what XLA compiled, by the module that XLA got. Here is how that module is found without partitioning again: by
what JAX lowered, what is said of arguments and results, the options, the devices, and the sources of gspmd. Places in
the source are no part of that. Only where they are the same, too, a kept program also stands for what explanations and
costs are about, and for what was said while it was partitioned, which is said again.

An entry is whole or ignored: it has a checksum, and appears under its name when it has been written. What is wrong with
the folder is a remark, and the program is partitioned as if there were none.
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
class KeptProgram:
    """The program of one device, as bytecode: as gspmd made it, and as PJRT takes it.

    `places` tells programs from each other that differ in their places in the source only. `said` are the remarks and
    warnings of the passes.
    """

    partitioned: bytes
    final: bytes
    places: str
    said: tuple[Diagnostic, ...]

    def written(self) -> bytes:
        """As bytes that `read` reads."""
        parts = {"partitioned": self.partitioned, "final": self.final}
        about = {name: base64.b64encode(part).decode() for name, part in parts.items()}
        text = json.dumps({**about, "places": self.places, "said": [_as_json(told) for told in self.said]})
        content = zlib.compress(text.encode(), 1)
        return _FORMAT + _DIGEST(content).digest() + content

    @staticmethod
    def read(data: bytes) -> KeptProgram:
        """Raises ValueError for anything but what `written` wrote, whole."""
        head = len(_FORMAT)
        digest, content = data[head : head + 32], data[head + 32 :]
        if not data.startswith(_FORMAT) or _DIGEST(content).digest() != digest:
            raise ValueError("it is damaged")
        about = json.loads(zlib.decompress(content))
        partitioned, final = (base64.b64decode(about[name]) for name in ("partitioned", "final"))
        return KeptProgram(partitioned, final, about["places"], tuple(map(_from_json, about["said"])))


def module_of(bytecode: bytes) -> ir.Module:
    """The module that `bytecode_of` wrote, in a context of its own."""
    return parse_written(bytecode, new_context())


def bytecode_of(module: ir.Module) -> bytes:
    """A module with its places in the source, for this version of jaxlib."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


class Shelf:
    """The place of one program for devices of a platform in the cache: `find` it, or partition it and `keep` it."""

    def __init__(self, cache: DiskCache, key: str, name: str, places: str, platform: str) -> None:
        self.places, self.platform = places, platform
        self._cache, self._key, self._name = cache, f"gspmd-{key}", name

    def find(self) -> KeptProgram | None:
        """What an earlier process kept, unless something was said of places that have changed."""
        with self._remarking("read"):
            data = self._cache.get(self._key)
            if data is None:
                self._tell("explain_cache_misses", "partitioned '%s', which is not in the cache as %s")
                return None
            try:
                found = KeptProgram.read(data)
            except (ValueError, KeyError, TypeError, zlib.error) as error:
                self._cache.remove(self._key)
                raise InputError(f"'{self._key}' is damaged: {error}", code=Code.SYNTAX) from None
            if found.said and found.places != self.places:
                return None
            self._tell("log_compiles", "found '%s' partitioned in the cache as %s")
            return found
        return None

    def keep(self, program: KeptProgram, taken_s: float) -> None:
        """Write it, if partitioning and compiling have taken as long as JAX's settings ask for."""
        if taken_s < _setting("persistent_cache_min_compile_time_secs") or jax.process_index() != 0:
            return
        data = program.written()
        if len(data) >= _setting("persistent_cache_min_entry_size_bytes"):
            with self._remarking("write"):
                self._cache.put(self._key, data)

    @contextlib.contextmanager
    def _remarking(self, what: str) -> Iterator[None]:
        """What goes wrong inside is a remark, or an error if JAX's setting asks for it."""
        try:
            yield
        except Exception as error:
            if _setting("raise_persistent_cache_errors"):
                raise error if isinstance(error, Error) else InputError(f"cannot {what} the cache: {error}") from error
            again = f"so '{self._name}' may be partitioned again"
            remark_once(f"cannot {what} the compilation cache, {again}: {_told(error)}")

    def _tell(self, setting: str, message: str) -> None:
        level = logging.WARNING if _setting(setting) else logging.DEBUG
        _log.log(level, message, self._name, self._key)


def _setting(name: str) -> Any:
    return getattr(jax.config, f"jax_{name}")


def _told(error: Exception) -> str:
    return error.message if isinstance(error, Error) else str(error).strip().partition("\n")[0]


@contextlib.contextmanager
def overhearing() -> Iterator[list[Diagnostic]]:
    """Inside, what is said is told to who listens, and put into a list."""
    said: list[Diagnostic] = []
    outside = listener()

    def hear(diagnostic: Diagnostic) -> None:
        said.append(diagnostic)
        outside(diagnostic)

    with telling(hear):
        yield said


# ---- keys ----


def shelf(
    name: str,
    module: ir.Module,
    said: Any,
    options: Mapping[str, Any],
    devices: Sequence[Any],
    host_calls: Sequence[Any],
) -> Shelf | None:
    """Where the partitioned form of what JAX lowered is kept, for these devices.

    `said` is what is known of its arguments and results. None where JAX has no cache, and where something that the
    program depends on cannot be compared with that of another process: functions of Python, as JAX has it.
    """
    try:
        cache = jax_stages.disk_cache(devices[0].client)
    except Exception as error:  # noqa: BLE001 - whatever the file system, or a library for remote ones, raises
        remark_once(f"cannot use the compilation cache: {_told(error)}")
        return None
    if cache is None or host_calls or _is_extended():
        return None
    given, version = _plain(options), _version()
    text = str(module.operation.get_asm(enable_debug_info=False))
    if given is None or version is None:
        return None
    hardware = [_hardware(device) for device in devices]
    parts = (version, jax.__version__, jaxlib.__version__, text, repr(said), given, repr(hardware))
    key = _DIGEST("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
    return Shelf(cache, key, name, _DIGEST(bytecode_of(module)).hexdigest(), devices[0].platform)


def _is_extended() -> bool:
    """Whether there are operations that functions of the user partition; the table is loaded where there may be."""
    table = sys.modules.get("gspmd.transforms.ops")
    return table is not None and table.is_extended()


def _hardware(device: Any) -> tuple[Any, ...]:
    """What programs may depend on of a device; which ones of many alike they are, the executable says."""
    names = ("platform", "device_kind", "coords", "core_on_chip", "slice_index", "process_index")
    return tuple(getattr(device, name, None) for name in names)


def _plain(options: Mapping[str, Any]) -> str | None:
    """Options as a text that is the same in every process; None where they have none."""
    try:
        described = json.dumps({**options, "target": _target(str(options.get("target") or ""))}, sort_keys=True)
    except (TypeError, ValueError):
        return None
    return described


def _target(text: str) -> str:
    """A target by name, or what is in its file."""
    with contextlib.suppress(OSError, ValueError):
        if text.endswith(".toml") or os.path.isfile(text):
            return Path(text).read_text()
    return text


@functools.cache
def _version() -> str | None:
    """The sources of gspmd; None where there are none to be read."""
    digest = _DIGEST()
    folders = (Path(package.__path__[0]) for package in (dialect, transforms))
    roots = (Path(__file__).parents[1], *folders)  # links in ours are not followed
    found = sorted({path for root in roots for path in root.rglob("*.py")}, key=Path.as_posix)
    for path in found:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest() if found else None


# ---- what was said ----


def _as_json(told: Diagnostic) -> dict[str, Any]:
    where = told.location
    return {
        "severity": told.severity.value,
        "message": told.message,
        "location": None if where is None else [where.file, where.line, where.column],
        "notes": [_as_json(note) for note in told.notes],
        "hint": told.hint,
        "code": None if told.code is None else told.code.name,
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
