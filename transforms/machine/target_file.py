"""Hardware by name, and descriptions in TOML files (docs/cost.md has the keys)."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ParseError, SourceLocation, UsageError, shown
from gspmd.dialect.limits import MAX_COUNT, is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.source_text import as_utf8, parse_toml, reading
from gspmd.transforms.machine.cost import BYTES_FIRST, Hardware
from gspmd.transforms.machine.targets import NEUTRAL, TARGETS, Network, PlacedCommunication, Target, Traffic
from gspmd.transforms.machine.topology import is_machine, read_machine
from gspmd.transforms.machine.torus import Placement

# Numbers whose products and quotients stay in the range of floating-point numbers.
_MAX = 1e60
_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


def read_hardware(text: str, mesh: Mesh) -> Hardware:
    """The hardware of a target for a mesh: see `read_target`. '' and 'neutral' are the default."""
    return Hardware() if text in ("", NEUTRAL) else read_target(text).hardware(mesh)


def placed_hardware(
    text: str, mesh: Mesh, traffic: Iterable[Traffic] = (), others: Sequence[PlacedCommunication] = ()
) -> tuple[Hardware, Placement | None]:
    """The same; a mesh on a machine with a shape is placed by `Target.place`."""
    if not is_machine(text):
        return read_hardware(text, mesh), None
    target = read_machine(text)
    placement = target.place(mesh, traffic, others)
    return target.placed(placement), placement


def planned_for(text: str, mesh: Mesh) -> Hardware:
    """The hardware for partitioning: without a target, bytes dominate. Raises as above."""
    return read_hardware(text, mesh) if text else BYTES_FIRST


def read_target(text: str) -> Target:
    """A target by name (`tpu-v5p`), by shape (`tpu:v5p:8x8x8`), or from a TOML file.

    Raises UsageError for an unknown name or topology, InputError for an unreadable file, ParseError for an invalid
    description.
    """
    if is_machine(text):
        return read_machine(text)
    target = TARGETS.get(text)
    if target is None:
        if not (text.endswith(".toml") or os.sep in text or os.path.isfile(text)):
            raise _unknown(text)
        target = _read_file(text)
    return target


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(name, TARGETS, n=1)
    known = ", ".join((NEUTRAL, *TARGETS))
    guess = f"did you mean '{near[0]}'? " if near else ""
    return UsageError(
        f"unknown target '{name}'",
        hint=f"{guess}known are {known}, shapes as tpu:v5p:8x8x8 and gpu:h100:8*4; or give a .toml file",
        code=Code.UNKNOWN_TARGET,
    )


def _read_file(path: str) -> Target:
    """The description in a TOML file. Raises InputError and ParseError, located in the file."""
    with reading(path, hint="give a .toml file, or one of " + ", ".join((NEUTRAL, *TARGETS))) as file:
        content = file.read()
    try:
        text = as_utf8(content).decode()
    except UnicodeDecodeError:
        raise ParseError(
            f"'{path}' is not TOML: it is not text", hint="give a .toml file", code=Code.TARGET_FILE
        ) from None
    return _Reader(path, text).target()


class _Reader:
    """Reads the tables of one file; every error names the file and the key."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def target(self) -> Target:
        table = self._parsed()
        base = self._base(table)
        self._known(table, "", {"like", "flops", "memory", "network", "outside", "axes"})
        memory = self._table(table, "memory")
        self._known(memory, "memory.", {"bytes", "bytes_per_s"})
        axes = self._table(table, "axes")
        flops = self._table(table, "flops")
        if base is None and not flops:
            raise self._error("flops", "is missing", "give operations a second by element type, as 'flops.bf16 = 4e14'")
        network = self._network(table, "network", base.network if base else None)
        outside = base.outside if base else None
        if "outside" in table:
            outside = self._network(table, "outside", outside)
        return Target(
            self.path,
            {**(base.flops if base else {}), **{key: self._number(flops, key, "flops.") for key in flops}},
            self._number(memory, "bytes", "memory.", base.memory_bytes if base else 0.0, zero=True),
            self._number(memory, "bytes_per_s", "memory.", base.memory_bytes_per_s if base else None),
            network,
            self._integer(self._table(table, "network"), "devices", "network.", base.domain if base else 0),
            outside,
            {name: self._network(axes, name, network, "axes.") for name in axes},
            scatter_tiles=base.scatter_tiles if base else None,
        )

    def _parsed(self) -> dict[str, Any]:
        try:
            return parse_toml(self.text)
        except tomllib.TOMLDecodeError as error:
            match = _TOML_PLACE.search(str(error))
            message = _TOML_PLACE.sub("", str(error))
            where = (int(match[1]), int(match[2])) if match else (self.text.count("\n") + 1, 1)
            raise ParseError(
                f"not TOML: {message[:1].lower()}{message[1:]}",
                location=SourceLocation(self.path, *where),
                code=Code.TARGET_FILE,
            ) from None
        except RecursionError:
            raise ParseError("not TOML that can be read: it is nested too deeply", location=self._at_start()) from None
        except ValueError:  # raised by Python, for more digits than it converts
            raise ParseError("not TOML that can be read: a number is too long", location=self._at_start()) from None

    def _at_start(self) -> SourceLocation:
        return SourceLocation(self.path, 1, 1)

    def _base(self, table: dict[str, Any]) -> Target | None:
        name = table.get("like")
        if name is None:
            return None
        if not isinstance(name, str) or name not in TARGETS:
            raise self._error("like", f"is {shown(name)}", f"known are {', '.join(TARGETS)}")
        return TARGETS[name]

    def _network(self, table: dict[str, Any], key: str, base: Network | None, prefix: str = "") -> Network:
        entries = self._table(table, key, prefix)
        prefix = f"{prefix}{key}."
        self._known(entries, prefix, {"bytes_per_s", "latency_s", "topology", "dims", "wrap", "devices"})
        topology = entries.get("topology", ("torus" if base.dims else "switch") if base else "switch")
        if topology not in ("torus", "switch"):
            raise self._error(f"{prefix}topology", f"is {shown(topology)}", "expected 'torus' or 'switch'")
        dims = self._integer(entries, "dims", prefix, max(1, base.dims) if base else 1) if topology == "torus" else 0
        return Network(
            self._number(entries, "bytes_per_s", prefix, base.bytes_per_s if base else None),
            self._number(entries, "latency_s", prefix, base.latency_s if base else 1e-6, zero=True),
            dims,
            self._integer(entries, "wrap", prefix, base.wrap if base else 1),
        )

    # ---- values ----

    def _table(self, table: dict[str, Any], key: str, prefix: str = "") -> dict[str, Any]:
        found = table.get(key, {})
        if not isinstance(found, dict):
            raise self._error(prefix + key, f"is {shown(found)}", "expected a table")
        return found

    def _known(self, table: dict[str, Any], prefix: str, known: set[str]) -> None:
        for key in table:
            if key not in known:
                raise self._error(prefix + key, "is not known", f"known are {', '.join(sorted(known))}")

    def _number(
        self, table: dict[str, Any], key: str, prefix: str, default: float | None = None, zero: bool = False
    ) -> float:
        value = table.get(key, default)
        if value is None:
            raise self._error(prefix + key, "is missing", "give it, or the target it is 'like'")
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX:
            raise self._error(prefix + key, f"is {shown(value)}", "expected a number")
        if value < 0 or (value == 0 and not zero):
            raise self._error(prefix + key, f"is {value}", "expected a number above 0")
        return float(value)

    def _integer(self, table: dict[str, Any], key: str, prefix: str, default: int) -> int:
        value = table.get(key, default)
        if not is_count(value):
            raise self._error(prefix + key, f"is {shown(value)}", f"expected a whole number from 0 to {MAX_COUNT}")
        return int(value)

    def _error(self, key: str, message: str, hint: str) -> ParseError:
        return ParseError(
            f"'{key}' {message}",
            location=SourceLocation(self.path, *self._place(key)),
            hint=hint,
            code=Code.TARGET_FILE,
        )

    def _place(self, key: str) -> tuple[int, int]:
        """The line and column of a key, or else of its table, or else the first line."""
        *tables, name = map(re.escape, key.split("."))
        patterns = [rf'[ \t]*(?:[\w.\-"]+\.)?"?{name}"?[ \t]*=', rf"[ \t]*\[{re.escape(key)}\]"]
        patterns += [rf"[ \t]*\[{'.'.join(tables)}\]"] if tables else []
        for pattern in patterns:
            if match := re.search(f"^{pattern}", self.text, re.MULTILINE):
                return self.text.count("\n", 0, match.start()) + 1, 1
        return 1, 1
