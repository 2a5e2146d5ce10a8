"""Trials: read bytecode, HLO or unusual text, or run MLIR's passes, in another process that may crash.

The other process parses, verifies and prints. Its output was written by MLIR and is safe to read.
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
    """The kind of input of a trial, and of its output."""

    TEXT = "text"  # MLIR text; it is only tried and returned unchanged
    BYTECODE = "bytecode"  # returned as new bytecode
    PORTABLE_ARTIFACT = "portable-artifact"  # returned as bytecode of StableHLO
    HLO_TEXT = "hlo-text"  # returned as MLIR text
    HLO_PROTO = "hlo-proto"  # the same
    PASSES = "passes"  # bytecode on which MLIR's passes run; nothing is returned


def tried(data: bytes, kind: Format, filename: str, allow_unregistered: bool = False) -> bytes:
    """The result of a trial of `data` of this kind.

    Raises ParseError if the input is refused, crashes the process or takes too long; InputError if no process can
    start.
    """
    done = _done(data, kind, allow_unregistered)
    if isinstance(done, float):
        raise ParseError(f"'{filename}' is not read in {done:.0f} seconds", hint="the parser was stopped")
    if isinstance(done, str):
        raise InputError(f"cannot start '{sys.executable}' to read '{filename}' in: {done}")
    header, _, result = done.stdout.partition(b"\n")
    if done.returncode == 0 and header == b"{}":
        return data if kind is Format.TEXT else result
    if done.returncode == 0 and header.startswith(b"{"):
        raise _refusal(json.loads(header), filename)
    hint = "the file is damaged, or has another format than it seems"
    if kind is Format.TEXT:
        hint = "give constants elements of their type, and attributes values other than locations"
    ending, words = _ending(done.returncode), _last_words(done.stderr)
    raise ParseError(f"jaxlib's parser ends with {ending} on '{filename}'{words}", hint=hint)


def ending_of_passes(module: bytes, pipeline: str, allow_unregistered: bool = False) -> str:
    """How MLIR's passes crash on a module, given as bytecode; empty if they do not."""
    done = _done(module, Format.PASSES, allow_unregistered, pipeline)
    if isinstance(done, str):
        raise InputError(f"cannot start '{sys.executable}' to try '{pipeline}' in: {done}")
    if isinstance(done, float):
        return f"are not done in {done:.0f} seconds"
    return f"end with {_ending(done.returncode)}{_last_words(done.stderr)}" if done.returncode else ""


def _done(
    data: bytes, kind: Format, allow_unregistered: bool, *words: str
) -> subprocess.CompletedProcess[bytes] | float | str:
    """The finished process for `data`; the seconds of a timeout, or the reason why it could not start."""
    import subprocess  # most programs need no trial

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
    """The environment, with the import path of this process."""
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
    """The last message of XLA or the C++ runtime, if any."""
    lines = [line.strip() for line in stderr.decode(errors="backslashreplace").splitlines()]
    telling = [line for line in lines if "Check failed" in line or "what():" in line or line.endswith("Error")]
    return f" ({telling[0].partition('] ')[2] or telling[0]})" if telling else ""
