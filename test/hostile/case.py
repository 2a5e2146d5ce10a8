"""One hostile case as a plain value: what is run, on which files, and where its output goes."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostile.generated import BUILDERS

_READABLE = re.compile(r"[\t\n -~\u00a0-\ud7ff]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """Everything that a case needs; two equal ones do the same.

    `command` is `opt`, a subcommand of gspmd, or a name of `entries.CALLS`; `words` are its arguments, with files named
    as in the folder that the case runs in. `place` is the kind of thing that is already at `output`
    (`places.KINDS`), `inlet` the kind of thing that the first file is. `terminal` says in what process of its own it
    runs (`consoles.KINDS`); one without runs in the worker. What it
    `expects` is "refusal", "success", or "" where both will do.
    """

    command: str
    words: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...] = ()
    stdin: bytes = b""
    place: str = ""
    output: str = ""
    inlet: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    terminal: str = ""
    expects: str = ""
    format: str = ""

    def with_file(self, name: str, data: bytes) -> Case:
        """The case with other contents of a file."""
        return dataclasses.replace(self, files=tuple((n, data if n == name else d) for n, d in self.files))

    def __str__(self) -> str:
        """The command line, as in a shell."""
        program = "gspmd-opt" if self.command == "opt" else f"gspmd {self.command}"
        if "." in self.command:
            program = self.command
        parts = [f"{name}={_shell(value)}" for name, value in self.environment]
        parts += [program, *map(_shell, self.words)]
        if self.stdin:
            parts.append("< stdin")
        notes = [text for text in (self.terminal, self.inlet and f"input is {self.inlet}", self.place) if text]
        return " ".join(parts) + (f"  # {', '.join(notes)}" if notes else "")


def _shell(word: str) -> str:
    if re.fullmatch(r"[\w./=:,+%@-]+", word, re.ASCII):
        return word
    shown = word if len(word) <= 200 else f"{word[:100]}...({len(word)} characters)...{word[-60:]}"
    return "'" + shown.replace("'", "'\\''").encode("unicode_escape").decode() + "'"


# ---- files ----


def to_json(case: Case) -> str:
    """The case as text that a person can read where its files can be read."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(case):
        value = getattr(case, field.name)
        if value == field.default:
            continue
        if field.name == "files":
            value = {name: _plain(data) for name, data in value}
        elif field.name == "environment":
            value = dict(value)
        elif isinstance(value, bytes):
            value = _plain(value)
        fields[field.name] = value
    return json.dumps(fields, indent=1, ensure_ascii=True) + "\n"


def from_json(text: str) -> Case:
    """The case that `to_json` wrote."""
    fields = json.loads(text)
    fields["words"] = tuple(fields["words"])
    fields["files"] = tuple((name, _data(plain)) for name, plain in fields.get("files", {}).items())
    fields["environment"] = tuple(fields.get("environment", {}).items())
    fields["stdin"] = _data(fields["stdin"]) if "stdin" in fields else b""
    return Case(**fields)


def read_cases(folder: Path) -> dict[str, Case]:
    """The cases of a folder, by name."""
    return {path.stem: from_json(path.read_text()) for path in sorted(folder.glob("*.json"))}


def _plain(data: bytes) -> list[Any] | Mapping[str, str]:
    """Lines of text, a piece that is repeated as an object with a number of times; else base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    if not _READABLE.fullmatch(text):
        return {"base64": base64.b64encode(data).decode()}
    return [_pieces(line) if len(line) > 400 else line for line in text.split("\n")]


_REPEATED = re.compile(r"(.{1,100}?)\1{19,}", re.DOTALL)


def _pieces(line: str) -> list[Any]:
    """A long line as texts and pairs of a text and how often it is repeated."""
    pieces: list[Any] = []
    start = 0
    for match in _REPEATED.finditer(line):
        if match.start() > start:
            pieces.append(line[start : match.start()])
        pieces.append([match[1], len(match[0]) // len(match[1])])
        start = match.end()
    return [*pieces, line[start:]]


def _data(plain: Any) -> bytes:
    """What `_plain` wrote, or, as `{"made": [...]}` by hand, what a function of `generated` gives for arguments."""
    if isinstance(plain, Mapping) and "made" in plain:
        name, *arguments = plain["made"]
        return BUILDERS[name](*arguments).encode()
    if isinstance(plain, Mapping):
        return base64.b64decode(plain["base64"])
    return "\n".join(line if isinstance(line, str) else _joined(line) for line in plain).encode()


def _joined(pieces: list[Any]) -> str:
    return "".join(piece if isinstance(piece, str) else piece[0] * piece[1] for piece in pieces)
