"""Where output may have to go: what is there before, and what may be there after."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import stat
from pathlib import Path

BEFORE = b"before"
HELD_FIFO = "a fifo that is fed later"
_F_SETPIPE_SZ = 1031  # of Linux
LONG = "o" * 300

# What is at the place, and the name that is given for it.
KINDS: dict[str, str] = {
    "nothing": "out.file",
    "a file": "out.file",
    "a directory": "folder",
    "a full device": "full",
    "a null device": "null",
    "a fifo": "fifo",
    "a link to a file": "link",
    "a dangling link": "dangling",
    "a link into a missing folder": "astray",
    "a link to a null device": "link",
    "a link to a fifo": "link",
    "a link to itself": "circle",
    "a read-only file": "locked",
    "a missing folder": "missing/out.file",
    "a file as a folder": "plain/out.file",
    "a read-only folder": "closed/out.file",
    "stdout": "-",
    "an empty name": "",
    "a long name": LONG,
    "a name with a slash at the end": "out.file/",
    "a name with braces": "p{1}.out",
    "a name with a line break": "a\nb",
    "a name that is no text": "a\udcff",
    "a name with a null": "a\0b",
    "a name with a dash": "-x.out",
    "another kind of name": "é \U0001d54f.mlirbc",
}
_REFUSED = {
    "a directory", "a full device", "a link into a missing folder", "a link to itself", "a missing folder",
    "a file as a folder",
    "an empty name", "a long name", "a name with a slash at the end", "a name with a null",
}  # fmt: skip
REFUSED_TO_USERS = {"a read-only file", "a read-only folder"}  # root may write these
_DEVICES = {"a full device": (1, 7), "a null device": (1, 3), "a link to a null device": (1, 3)}

State = dict[str, tuple[str, ...]]


def refuses(kind: str) -> bool:
    """Whether nothing can be written there."""
    return kind in _REFUSED or (kind in REFUSED_TO_USERS and os.geteuid() != 0)


@dataclasses.dataclass(slots=True)
class Place:
    """What was made, and the descriptor that reads the FIFO there."""

    reader: int | None = None

    def close(self) -> None:
        if self.reader is not None:
            os.close(self.reader)


_FILES = {
    "a file": "out.file",
    "a read-only file": "locked",
    "a file as a folder": "plain",
    "a link to a file": "target.file",
}
_FOLDERS = {"a directory": "folder", "a read-only folder": "closed"}
_LINKS = {
    "a link to a file": "target.file", "a dangling link": "target.file",
    "a link into a missing folder": "missing/target.file",
    "a link to a null device": "device", "a link to a fifo": "pipe", "a link to itself": "circle",
}  # fmt: skip


def prepare(kind: str) -> Place:
    """Make the place in the current folder. Devices are made only here, never those of the system."""
    name = KINDS[kind]
    place = Place()
    if kind in _FILES:
        Path(_FILES[kind]).write_bytes(BEFORE)
        os.chmod(_FILES[kind], 0o444 if kind == "a read-only file" else 0o640)
    if kind in _FOLDERS:
        os.mkdir(_FOLDERS[kind], 0o555 if kind == "a read-only folder" else 0o755)
    if kind in _LINKS:
        os.symlink(_LINKS[kind], name)
    if kind in _DEVICES:
        os.mknod(_LINKS.get(kind, name), 0o666 | stat.S_IFCHR, os.makedev(*_DEVICES[kind]))
    if kind in ("a fifo", "a link to a fifo"):
        place.reader = _fifo(_LINKS.get(kind, name))
    return place


def _fifo(name: str) -> int:
    """A FIFO with a reader that never reads, and room enough for what is written."""
    os.mkfifo(name)
    reader = os.open(name, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reader, _F_SETPIPE_SZ, 1 << 20)
    return reader


def state(folder: Path) -> State:
    """All that is in a folder: by path the kind of thing, and what it holds or points to."""
    found: State = {}
    for path in sorted(folder.rglob("*")):
        name, info = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace"), path.lstat()
        mode = oct(stat.S_IMODE(info.st_mode))
        if stat.S_ISLNK(info.st_mode):
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISREG(info.st_mode):
            found[name] = ("file", mode, "before" if path.read_bytes() == BEFORE else str(info.st_size))
        elif stat.S_ISDIR(info.st_mode):
            found[name] = ("folder", mode)
        else:
            found[name] = ("fifo" if stat.S_ISFIFO(info.st_mode) else "device", mode, str(info.st_rdev))
    return found


def complaint(kind: str, succeeded: bool, before: State, after: State) -> str:
    """What is wrong with what is there after a command, "" if nothing is."""
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if not succeeded:
        return f"after a refusal: {_told(changed, before, after)}" if changed else ""
    if kind and refuses(kind):
        return f"success, though the output is {kind}"
    for name in changed:
        was, now = before.get(name), after.get(name)
        if now is None or (was is not None and was[0] != now[0]):
            return f"replaced: {_told([name], before, after)}"
    new = [name for name in after if name not in before]
    if len(new) > 1:
        return f"more files than the output: {_told(new, before, after)}"
    if new and (not kind or kind == "stdout"):
        return f"a file that nobody named: {_told(new, before, after)}"
    if kind in ("nothing", "a dangling link") and not new:
        return "success without an output"
    if kind in ("a file", "a link to a file") and not changed:
        return "success, and the output is as before"
    return ""


def _told(names: list[str], before: State, after: State) -> str:
    return ", ".join(
        f"{name} {' '.join(before.get(name, ('nothing',)))} -> {' '.join(after.get(name, ('nothing',)))}"
        for name in names
    )
