"""Trying in another process what could end this one: to read bytecode, HLO or odd text, to run passes of others.

The other process does all that ends processes: it parses, verifies and prints. What it hands back was written by
MLIR itself.
"""

from __future__ import annotations

import enum
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError, ParseError, SourceLocation
from gspmd.dialect.limits import (
    TRIAL_MEMORY_BYTES,
    TRIAL_MEMORY_PER_BYTE,
    TRIAL_SECONDS,
    TRIAL_SECONDS_PER_MEBIBYTE,
)

if TYPE_CHECKING:
    import subprocess

FORMATS = "MLIR text or bytecode, a StableHLO portable artifact, HLO text or a serialized HloModuleProto"
_CHILD = "gspmd.transforms.parsing.trial_process"


class Format(enum.Enum):
    """What is read, and what becomes of it."""

    TEXT = "text"  # of MLIR; it is only tried, and comes back as it is
    BYTECODE = "bytecode"  # comes back as bytecode that was written anew
    PORTABLE_ARTIFACT = "portable-artifact"  # comes back as bytecode of StableHLO
    HLO_TEXT = "hlo-text"  # comes back as text of MLIR
    HLO_PROTO = "hlo-proto"  # so does this
    PASSES = "passes"  # bytecode that MLIR's own passes are run on; nothing comes back


def tried(data: bytes, kind: Format, filename: str, allow_unregistered: bool = False) -> bytes:
    """What another process makes of `data`, as `kind` says.

    Raises ParseError for what it refuses, and for what ends it or takes it too long; InputError if none can be started.
    """
    done = _done(data, kind, allow_unregistered)
    if isinstance(done, float):
        raise ParseError(f"'{filename}' is not read in {done:.0f} seconds", hint="jaxlib's parser is told to stop then")
    if isinstance(done, str):
        raise InputError(f"cannot start '{sys.executable}' to read '{filename}' in: {done}")
    header, _, result = done.stdout.partition(b"\n")
    if done.returncode == 0 and header == b"{}":
        return data if kind is Format.TEXT else result
    if done.returncode == 0 and header.startswith(b"{"):
        raise _refusal(json.loads(header), filename)
    hint = "the file is damaged, or not what it seems to be"
    if kind is Format.TEXT:
        hint = "give constants elements of their type, and attributes values that are no locations"
    ending, words = _ending(done.returncode), _last_words(done.stderr)
    raise ParseError(f"jaxlib's parser ends with {ending} on '{filename}'{words}", hint=hint)


def ending_of_passes(module: bytes, pipeline: str, allow_unregistered: bool = False) -> str:
    """How MLIR's own passes end another process that runs them on a module, given as bytecode; empty if they do not."""
    done = _done(module, Format.PASSES, allow_unregistered, pipeline)
    if isinstance(done, str):
        raise InputError(f"cannot start '{sys.executable}' to try '{pipeline}' in: {done}")
    if isinstance(done, float):
        return f"are not done in {done:.0f} seconds"
    return f"end with {_ending(done.returncode)}{_last_words(done.stderr)}" if done.returncode else ""


def _done(
    data: bytes, kind: Format, allow_unregistered: bool, *words: str
) -> subprocess.CompletedProcess[bytes] | float | str:
    """What another process did with `data`; the seconds that were too few for it, or why there is none."""
    import subprocess  # not needed for most programs

    seconds = TRIAL_SECONDS + TRIAL_SECONDS_PER_MEBIBYTE * len(data) / 2**20
    memory = TRIAL_MEMORY_BYTES + TRIAL_MEMORY_PER_BYTE * len(data)
    flags = ["--allow-unregistered"] if allow_unregistered else []
    command = [sys.executable, "-P", "-m", _CHILD, kind.value, str(memory), *words, *flags]
    try:
        return subprocess.run(
            command, input=data, capture_output=True, timeout=seconds, env=_environment(), check=False
        )
    except subprocess.TimeoutExpired:
        return seconds
    except (OSError, ValueError) as error:
        return str(error)


def _environment() -> dict[str, str]:
    """Modules are found where this process finds them."""
    paths = [path or os.getcwd() for path in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "2"}


def _refusal(said: dict[str, object], filename: str) -> Error:
    place = said.get("location")
    location = SourceLocation(*place) if isinstance(place, list) else None
    if location is not None and location.file == "-":
        location = SourceLocation(filename, location.line, location.column)
    op, hint = (value if isinstance(value := said.get(key), str) else None for key in ("op", "hint"))
    message = str(said["message"]).replace("'-'", f"'{filename}'")
    return ParseError(message, location=location, op=op, hint=hint, code=Code(str(said["code"])))


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    return f"signal {signal.Signals(-status).name}" if -status in set(signal.Signals) else f"signal {-status}"


def _last_words(stderr: bytes) -> str:
    """What XLA or the C++ runtime said when they gave up, if anything."""
    lines = [line.strip() for line in stderr.decode(errors="backslashreplace").splitlines()]
    telling = [line for line in lines if "Check failed" in line or "what():" in line or line.endswith("Error")]
    return f" ({telling[0].partition('] ')[2] or telling[0]})" if telling else ""
