"""A summary of a partitioned program, as lines of text."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from gspmd import examples
from gspmd.collectives import Collective
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.tables import table
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.ir.signature import Signature, ValueSignature
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.machine.torus import Placement

_ALIKE = 3  # rows that are worth a line that counts them


def bytes_text(count: float) -> str:
    """`1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def time_text(seconds: float) -> str:
    """`1.5 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1e9:.1f} ns" if seconds else "0"


def mesh_text(mesh: Mesh) -> str:
    """`x=4, y=2 (8 devices)`."""
    axes = ", ".join(f"{name}={size}" for name, size in mesh.axes) or "no axes"
    order = ", in its own device order" if mesh.device_ids else ""
    return f"{axes} ({mesh.size} device{'s' if mesh.size != 1 else ''}{order})"


def value_lines(values: Sequence[ValueSignature], what: str, mesh: Mesh) -> list[str]:
    """The types and shardings of arguments or results; those with the same last name and form share a line.

    A sharding whose device order differs from that of the mesh names its devices.
    """
    return table([_head(what), *_value_rows(values, what, mesh)])


def _head(what: str) -> tuple[str, ...]:
    return what, "global", "sharding", "per device"


def _value_rows(values: Sequence[ValueSignature], what: str, mesh: Mesh) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str, str, str], int] = {}
    for index, value in enumerate(values):
        name = last_name(value.name) or f"{what} {index}"
        sharding = sharding_text(value.sharding, mesh)
        key = (
            name,
            TensorType(value.shape, value.element_type, not value.is_token).brief,
            sharding,
            _shape(value.local_shape),
        )
        groups[key] = groups.get(key, 0) + 1
    return [
        (name + (f" (x{count})" if count > 1 else ""), type_, sharding, local)
        for (name, type_, sharding, local), count in groups.items()
    ]


def _result_lines(signature: Signature) -> list[str]:
    """The results; those that are like arguments of the same names, as the state after a step is, are only counted."""
    arguments = _value_rows(signature.inputs, "argument", signature.mesh)
    results = _value_rows(signature.outputs, "result", signature.mesh)
    others = [row for row in results if row not in arguments]
    alike = len(results) - len(others)
    if alike < _ALIKE:
        return table([_head("result"), *results])
    return [*table([_head("result"), *others]), f"  and {alike} rows like those of the arguments"]


def collective_lines(collectives: Sequence[Collective]) -> list[str]:
    """Collectives by kind and axes: how often each runs, and the bytes that a device sends."""
    groups: dict[tuple[str, str], list[Collective]] = {}
    for collective in collectives:
        groups.setdefault((collective.kind, collective.axes), []).append(collective)
    if not groups:
        return ["  none"]
    rows = []
    for (kind, axes), members in sorted(groups.items()):
        runs = [m.count for m in members]
        count = "?" if None in runs else str(sum(n or 0 for n in runs))
        sent = sum(m.bytes * (m.count or 1) for m in members)
        rows.append((kind, axes.replace('"', ""), str(len(members)), count, sent_text(sent, members)))
    total = sum(m.bytes * (m.count or 1) for m in collectives)
    rows.append(("total", "", str(len(collectives)), "", sent_text(total, collectives)))
    return table([("kind", "axes", "in program", "runs", "sent per device"), *rows], right=(2, 3, 4))


def sent_text(sent: float, collectives: Iterable[Collective]) -> str:
    """The bytes that collectives send, as an upper bound if they depend on data."""
    return "at most " * any(collective.at_most for collective in collectives) + bytes_text(sent)


def placement_lines(mesh: Mesh, hardware: Hardware, placement: Placement | None) -> list[str]:
    """The placement of each axis on a topology, and whether it forms a ring there; empty without a placement."""
    if placement is None:
        return []
    rows = []
    for name, size in mesh.axes:
        links = hardware.axes[name]
        ring = any(link.ring and link.size * link.stride == link.length for link in links)
        rows.append((name, str(size), placement.describe(name), "ring" if ring else ""))
    return ["axes on the machine:", *table(rows, right=(1,))]


def placement_dict(placement: Placement | None) -> dict[str, str] | None:
    """The same for JSON, by axis."""
    return {name: placement.describe(name) for name, _ in placement.slots} if placement else None


def largest_lines(collectives: Sequence[Collective], most: int = 5) -> list[str]:
    """The collectives that send most, with their causes and source locations; equal ones share a line."""
    alike = Counter(collectives)
    ranked = sorted(alike, key=lambda c: -c.bytes * (c.count or 1))[:most]
    lines = []
    for c in ranked:
        times = f" x {c.count * alike[c] if c.count is not None else None}" if (c.count, alike[c]) != (1, 1) else ""
        where = f" at {_place(c.location)}" if c.location else ""
        lines.append(f"  {sent_text(c.bytes, [c])}{times}  {c.kind} over {c.axes.replace(chr(34), '')}{where}")
        lines.append(f"      {c.cause}")
    return lines


def memory_line(signature: Signature) -> str:
    """The size of the arguments in total and on each device."""
    whole = sum(bytes_of(TensorType(v.shape, v.element_type)) for v in signature.inputs)
    local = sum(bytes_of(TensorType(v.local_shape, v.element_type)) for v in signature.inputs)
    factor = f" ({whole / local:.1f} times less)" if local else ""
    return f"{bytes_text(whole)} in all, {bytes_text(local)} on each device{factor}"


def sharding_text(sharding: TensorSharding, mesh: Mesh) -> str:
    """`[{"x"}, {}]`, followed by the devices if they are not in the order of the program's mesh."""
    own = sharding.mesh.device_ids
    return print_dims(sharding) + ("" if own == mesh.device_ids else f" on {devices_text(own or range(mesh.size))}")


def devices_text(ids: Sequence[int]) -> str:
    """`devices 0, 2, 1, 3`; only the first and the last of many."""
    shown = [*ids] if len(ids) <= 16 else [*ids[:8], "..", *ids[-2:]]
    return f"devices {', '.join(map(str, shown))}"


def program_lines(signature: Signature, collectives: Sequence[Collective]) -> list[str]:
    """Mesh, arguments, results, collectives and memory of a partitioned program."""
    return [
        f"mesh: {mesh_text(signature.mesh)}",
        "",
        *value_lines(signature.inputs, "argument", signature.mesh),
        "",
        *_result_lines(signature),
        "",
        "collectives:",
        *collective_lines(collectives),
        "",
        *(["largest, with their causes:", *largest_lines(collectives), ""] if collectives else []),
        f"memory of the arguments: {memory_line(signature)}",
    ]


def _place(location: SourceLocation) -> str:
    """The location, with the shortest path of its file."""
    return str(dataclasses.replace(location, file=shortest_path(location.file)))


def shortest_path(file: str) -> str:
    """A path from the working directory or, of an example of gspmd, from the package, where that is shorter."""
    forms = [file]
    with contextlib.suppress(ValueError):  # another drive
        forms.append(os.path.relpath(file))
    for folder in examples.__path__:
        if os.path.realpath(file).startswith(os.path.realpath(folder) + os.sep):
            inside = os.path.relpath(os.path.realpath(file), os.path.realpath(folder))
            forms.append(os.path.join("gspmd", "examples", inside))
    return min(forms, key=len)


def last_name(path: str | None) -> str:
    """`embedding` of `state['params']['embedding']`."""
    if not path:
        return ""
    keys = re.findall(r"\['([^']*)'\]", path)
    return str(keys[-1]) if keys else path


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
