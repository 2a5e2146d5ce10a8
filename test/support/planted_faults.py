"""Partitioned programs with one thing changed, as a partitioner that is wrong would have made them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

Edit = Callable[[random.Random, str], str | None]
"""Changes a line; None where it has nothing to change."""

_GROUPS = re.compile(r"replica_groups = dense<(\[\[[^>]*\]\])>")
_PAIRS = re.compile(r"source_target_pairs = dense<(\[\[[^>]*\]\])>")
_LIST = re.compile(r"\[[0-9, ]+\]")


def _rows(text: str) -> list[list[int]]:
    return [[int(n) for n in row.strip("[]").split(",")] for row in _LIST.findall(text)]


def _regroup(rng: random.Random, line: str) -> str | None:
    """Devices change places between groups, or within one."""
    found = _GROUPS.search(line)
    if found is None:
        return None
    rows = _rows(found[1])
    flat = [n for row in rows for n in row]
    if len(flat) < 2:
        return None
    i, j = rng.sample(range(len(flat)), 2)
    flat[i], flat[j] = flat[j], flat[i]
    size = len(rows[0])
    made = [flat[k : k + size] for k in range(0, len(flat), size)]
    return line.replace(found[1], str(made))


def _repair(rng: random.Random, line: str) -> str | None:
    """A permute sends to another device."""
    found = _PAIRS.search(line)
    if found is None:
        return None
    rows = _rows(found[1])
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    rows[i][1], rows[j][1] = rows[j][1], rows[i][1]
    return line.replace(found[1], str(rows))


def _start(rng: random.Random, line: str) -> str | None:
    """A slice begins one earlier or later."""
    found = re.search(r"stablehlo\.slice %\S+ (\[[0-9:, ]+\])", line)
    if found is None:
        return None
    spans = re.findall(r"(\d+):(\d+)(:\d+)?", found[1])
    d = rng.randrange(len(spans))
    begin, end, step = int(spans[d][0]), int(spans[d][1]), spans[d][2]
    by = rng.choice([-1, 1])
    if begin + by < 0:
        return None
    spans[d] = (str(begin + by), str(end + by), step)
    return line.replace(found[1], "[" + ", ".join(f"{a}:{b}{c}" for a, b, c in spans) + "]")


def _mask(rng: random.Random, line: str) -> str | None:
    """A comparison is another one."""
    found = re.search(r"stablehlo\.compare (\w+),", line)
    if found is None:
        return None
    others = [d for d in ("LT", "LE", "GT", "GE", "EQ", "NE") if d != found[1]]
    return line.replace(f"compare {found[1]},", f"compare {rng.choice(others)},")


def _number(rng: random.Random, line: str) -> str | None:
    """A constant of integers is one more or less."""
    found = re.search(r"stablehlo\.constant dense<(-?\d+)> : tensor<(\d+x)*i32>", line)
    if found is None:
        return None
    return line.replace(f"dense<{found[1]}>", f"dense<{int(found[1]) + rng.choice([-1, 1])}>")


def _two_swapped(rng: random.Random, text: str) -> str:
    """A list of numbers in which two have changed places."""
    numbers = [int(n) for n in text.strip("[]").split(",")]
    i, j = rng.sample(range(len(numbers)), 2)
    numbers[i], numbers[j] = numbers[j], numbers[i]
    return str(numbers)


def _table(rng: random.Random, line: str) -> str | None:
    """Two entries of a table change places."""
    found = re.search(r"stablehlo\.constant dense<(\[[0-9, ]+\])> : tensor<\d+xi32>", line)
    if found is None:
        return None
    return line.replace(found[1], _two_swapped(rng, found[1]))


def _padding(rng: random.Random, line: str) -> str | None:
    """Padding goes to the other side."""
    found = re.search(r"low = (\[[0-9, -]+\]), high = (\[[0-9, -]+\])", line)
    if found is None or found[1] == found[2]:
        return None
    return line.replace(found[0], f"low = {found[2]}, high = {found[1]}")


def _dimension(rng: random.Random, line: str) -> str | None:
    """A transpose or broadcast takes its dimensions in another order, where the shapes allow it."""
    found = re.search(r"dims = (\[[0-9]+, [0-9, ]+\]) : \(tensor<([0-9x]+)x\w+>\) -> tensor<([0-9x]+)x\w+>", line)
    if found is None:
        return None
    return line.replace(found[1], _two_swapped(rng, found[1]))


def _operands(rng: random.Random, line: str) -> str | None:
    """Two operands change places."""
    found = re.search(
        r"stablehlo\.(subtract|divide|select|concatenate|dynamic_slice) ([^:{]*?)(, (dim|sizes) =[^:]*)? :", line
    )
    if found is None:
        return None
    names = found[2].split(", ")
    begin = 1 if found[1] in ("select", "dynamic_slice") else 0
    if len(names) - begin < 2:
        return None
    i, j = rng.sample(range(begin, len(names)), 2)
    names[i], names[j] = names[j], names[i]
    return line.replace(found[2], ", ".join(names))


_ALIKE = (
    ("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    ("and", "or", "xor"),
    ("cosine", "sine", "tanh", "exponential", "negate", "abs", "floor", "ceil"),
)
"""Operations that take and return the same types."""


def _operation(rng: random.Random, line: str) -> str | None:
    """Another operation is in its place, in the program or in a region."""
    found = re.search(r"stablehlo\.(\w+) (?=%|across)", line)
    alike = next((names for names in _ALIKE if found is not None and found[1] in names), None)
    if found is None or alike is None:
        return None
    other = rng.choice([name for name in alike if name != found[1]])
    return line[: found.start(1)] + other + line[found.end(1) :]


def _attribute(rng: random.Random, line: str) -> str | None:
    """A flag is the other one, or a number of an attribute one more or less."""
    flags = [*re.finditer(r"\w+ = (true|false)", line)]
    counts = [
        found for found in re.finditer(r"(\w+) = (\d+)(?: : i\d+)?[,>}]", line) if found[1] not in ("handle", "type")
    ]
    if not flags and not counts:
        return None
    found = rng.choice([*flags, *counts])
    if found in flags:
        return line[: found.start(1)] + ("false" if found[1] == "true" else "true") + line[found.end(1) :]
    return line[: found.start(2)] + str(max(0, int(found[2]) + rng.choice([-1, 1]))) + line[found.end(2) :]


EDITS: dict[str, Edit] = {
    "group": _regroup,
    "permutation": _repair,
    "start": _start,
    "mask": _mask,
    "number": _number,
    "table": _table,
    "padding": _padding,
    "dimension": _dimension,
    "operands": _operands,
    "operation": _operation,
    "attribute": _attribute,
}

_REDUCE = re.compile(r'^(\s*)(%\S+) = "stablehlo\.all_reduce"\((%\S+)\)')


def _without_a_sum(rng: random.Random, lines: list[str]) -> list[str] | None:
    """An all-reduce is left out, or done twice."""
    begins = [i for i, line in enumerate(lines) if _REDUCE.match(line)]
    if not begins:
        return None
    begin = rng.choice(begins)
    end = next(i for i in range(begin, len(lines)) if lines[i].lstrip().startswith("})"))
    found = _REDUCE.match(lines[begin])
    assert found is not None
    type_ = lines[end].rpartition("-> ")[2]
    if rng.random() < 0.5:
        same = f"{found[1]}{found[2]} = stablehlo.optimization_barrier {found[3]} : {type_}"
        return [*lines[:begin], same, *lines[end + 1 :]]
    first = [line.replace(f"{found[2]} = ", f"{found[2]}x = ", 1) for line in lines[begin : begin + 1]]
    inner = [re.sub(r"%(arg\d+|\d+)(?= = |\b)", lambda m: f"%z{m[1]}", line) for line in lines[begin + 1 : end]]
    again = [lines[begin].replace(f"({found[3]})", f"({found[2]}x)", 1), *lines[begin + 1 : end + 1]]
    return [*lines[:begin], *first, *inner, lines[end], *again, *lines[end + 1 :]]


def faults(text: str, rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Programs with one fault each, and the kind of that; some may still be right, or no program at all."""
    lines = text.splitlines()
    places = [(kind, i) for kind, edit in EDITS.items() for i, line in enumerate(lines) if edit(rng, line) is not None]
    kinds = sorted({kind for kind, _ in places})
    for _ in range(count):
        if not kinds or rng.random() < 0.15:
            made = _without_a_sum(rng, lines)
            if made is not None:
                yield "sum", "\n".join(made)
            continue
        kind = rng.choice(kinds)
        i = rng.choice([i for k, i in places if k == kind])
        line = EDITS[kind](rng, lines[i])
        if line is not None and line != lines[i]:
            yield kind, "\n".join([*lines[:i], line, *lines[i + 1 :]])
