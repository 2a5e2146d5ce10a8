"""What an optimised HLO module does on a device in one call: collectives and arithmetic, loops as they run."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator

from traffic import COLLECTIVE, hlo_transfer

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_CALLED = re.compile(r"(?:body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_SHAPE = re.compile(r"\w+\[([\d,]*)\]")
_DOT = re.compile(
    r" dot\((?:\w+\[(?P<given>[\d,]*)\]\S* )?%?(?P<lhs>[\w.\-]+), .*lhs_contracting_dims=\{(?P<dims>[\d,]*)\}"
)
_NAME = re.compile(r"^ *(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) ")
_CONVOLUTION = re.compile(
    r" convolution\(.*?%?[\w.\-]+, (?:\w+\[(?P<given>[\d,]*)\]\S* )?%?(?P<rhs>[\w.\-]+)\)"
    r".*dim_labels=\w+_(?P<labels>\w+)->"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """`sent` are bytes a device sends and `number` the collectives it takes part in, by kind; `flops` of products and

    convolutions. `unknown_loops` is how many loops with collectives have a length that is not known; they count once.
    """

    sent: dict[str, float]
    number: dict[str, int]
    flops: float
    unknown_loops: int

    @property
    def bytes(self) -> float:
        return sum(self.sent.values())


def count(text: str) -> Counts:
    """Count the entry computation of a module's text, and what it calls."""
    bodies, entry = _computations(text)
    sent: dict[str, float] = {}
    number: dict[str, int] = {}
    flops, unknown = 0.0, 0
    for name, times in _visits(bodies, entry):
        shapes = {m["name"]: m["type"] for line in bodies[name] if (m := _NAME.match(line))}
        for line in bodies[name]:
            if match := COLLECTIVE.match(line):
                transfer = hlo_transfer(match)
                sent[transfer.kind] = sent.get(transfer.kind, 0.0) + transfer.bytes * max(times, 1)
                number[transfer.kind] = number.get(transfer.kind, 0) + max(times, 1)
                unknown += times < 1
            flops += _flops(line, shapes) * max(times, 1)
    return Counts(sent, number, flops, unknown)


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    bodies: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            name = head["name"]
            bodies[name] = []
            entry = name if head["entry"] else entry
        elif name:
            bodies[name].append(line)
    return bodies, entry


def _visits(bodies: dict[str, list[str]], entry: str) -> Iterator[tuple[str, int]]:
    """Every computation that runs, and how often in one call, 0 where that is not known."""
    stack = [(entry, 1)]
    while stack:
        name, times = stack.pop()
        yield name, times
        for line in bodies[name]:
            called = _CALLED.findall(line)
            called += [part.strip().lstrip("%") for found in _BRANCHES.findall(line) for part in found.split(",")]
            inner = times
            if " while(" in line:
                trips = _TRIPS.search(line)
                inner = times * int(trips[1]) if trips else 0
            if (
                not COLLECTIVE.match(line)
                and " reduce" not in line
                and " scatter(" not in line
                and " sort(" not in line
            ):
                stack += [(other, inner) for other in called if other in bodies]


def _flops(line: str, shapes: dict[str, str]) -> float:
    if match := _DOT.search(line):
        result = _SHAPE.search(line)
        lhs = match["given"] if match["given"] is not None else _dims(shapes.get(match["lhs"], ""))
        sizes = [int(n) for n in lhs.split(",") if n]
        contracted = math.prod(sizes[int(d)] for d in match["dims"].split(",") if d)
        return 2.0 * _elements(result[1] if result else "") * contracted
    if match := _CONVOLUTION.search(line):
        result = _SHAPE.search(line)
        kernel = match["given"] if match["given"] is not None else _dims(shapes.get(match["rhs"], ""))
        sizes = [int(n) for n in kernel.split(",") if n]
        taps = math.prod(sizes) / sizes[match["labels"].index("o")]
        return 2.0 * _elements(result[1] if result else "") * taps
    return 0.0


def _dims(type_text: str) -> str:
    found = _SHAPE.search(type_text)
    return found[1] if found else ""


def _elements(dims: str) -> int:
    return math.prod(int(n) for n in dims.split(",") if n)
