"""The file of a compiled program: the executable, and what has to be known to run it. Needs no jax."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError
from gspmd.executable_module import write_whole

_ABOUT, _MODULE, _EXECUTABLE = "about.json", "partitioned.mlirbc", "executable"


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledFile:
    """`partitioned` is the module as bytecode, with the signature; `executable` is PJRT's own form.

    `about` has `target`, `devices` (a number), their `ids` in the order of partitions, `jaxlib` and `compiler`.
    """

    about: dict[str, Any]
    partitioned: bytes
    executable: bytes


def write_compiled(path: str | os.PathLike[str], file: CompiledFile) -> None:
    """Write it whole or not at all. Raises InputError."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_ABOUT, json.dumps(file.about, indent=1))
        archive.writestr(_MODULE, file.partitioned)
        archive.writestr(_EXECUTABLE, file.executable)
    write_whole(Path(path), buffer.getvalue())


def read_compiled(path: str | os.PathLike[str]) -> CompiledFile:
    """Raises InputError for what cannot be read or is something else."""
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read(_ABOUT))
            return CompiledFile(about, archive.read(_MODULE), archive.read(_EXECUTABLE))
    except OSError as error:
        raise InputError(f"cannot read '{os.fspath(path)}': {(error.strerror or str(error)).lower()}") from None
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise InputError(
            f"'{os.fspath(path)}' is not a compiled program", hint="gspmd compile -o writes one", code=Code.BAD_FILE
        ) from None
