"""Budgets: limits on the communication and memory of a program, kept in a file.

The file has any of the keys of `Budget`, as JSON or, if its name ends in `.toml`, as TOML.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gspmd.costs.cost_report import CostReport
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError, ParseError
from gspmd.dialect.limits import MAX_TOLERANCE, is_count
from gspmd.dialect.source_text import as_utf8, parse_toml, reading
from gspmd.text_report import bytes_text


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """Limits for one device and one call of the program; None is no limit.

    `program` and `mesh` identify the program. If `bytes_by_kind` names any kind of collective, no other kind may occur.
    `tolerance` is the fraction by which figures may exceed their limits.
    """

    program: str | None = None
    mesh: Mapping[str, int] | None = None
    collectives: int | None = None
    sent_bytes: int | None = None
    bytes_by_kind: Mapping[str, int] | None = None
    peak_memory_bytes: int | None = None
    tolerance: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Excess:
    """A figure that exceeds its limit and the tolerance."""

    what: str
    limit: int
    actual: int

    def __str__(self) -> str:
        if self.what == "collectives":
            actual, limit = str(self.actual), str(self.limit)
        else:
            actual = f"{bytes_text(self.actual)} ({self.actual} bytes)"
            limit = f"{bytes_text(self.limit)} ({self.limit} bytes)"
        if not self.limit:
            return f"{self.what}: {actual}, the budget has none"
        return f"{self.what}: {actual}, {self.actual / self.limit - 1:.1%} above the budget of {limit}"


def budget_of(report: CostReport, tolerance: float = 0.0) -> Budget:
    """The budget that a program just meets."""
    return Budget(
        report.program,
        dict(report.mesh.axes),
        report.runs,
        report.sent_bytes,
        report.bytes_by_kind,
        report.memory.peak,
        tolerance,
    )


def with_tolerance(budget: Budget, tolerance: float) -> Budget:
    """The budget with another tolerance."""
    return dataclasses.replace(budget, tolerance=tolerance)


def exceeded(report: CostReport, budget: Budget, path: str) -> tuple[Excess, ...]:
    """The figures above the budget. Raises InputError if the budget is for another program or mesh."""
    mesh = dict(report.mesh.axes)
    for what, theirs, ours in (("program", budget.program, report.program), ("mesh", budget.mesh, mesh)):
        if theirs is not None and theirs != ours:
            raise InputError(
                f"the budget in '{path}' is for {what} {_name(theirs)}, not {_name(ours)}",
                hint="name that program's budget, or write a new one with --write-budget",
                code=Code.BAD_FILE,
            )
    limits = [(what, limit, actual) for what, limit, actual in _figures(report, budget) if limit is not None]
    return tuple(Excess(*each) for each in limits if each[2] > math.floor(each[1] * (1 + budget.tolerance)))


def _figures(report: CostReport, budget: Budget) -> Iterator[tuple[str, int | None, int]]:
    yield "collectives", budget.collectives, report.runs
    yield "bytes sent", budget.sent_bytes, report.sent_bytes
    if budget.bytes_by_kind is not None:
        for kind, actual in report.bytes_by_kind.items():
            yield f"bytes sent by {kind}", budget.bytes_by_kind.get(kind, 0), actual
    yield "peak memory", budget.peak_memory_bytes, report.memory.peak


def _name(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{axis}={size}" for axis, size in value.items()) or "without axes"
    return f"'{value}'"


# ---- files ----


def budget_text(budget: Budget, path: str) -> str:
    """The text of a budget file of that name."""
    fields = {name: value for name, value in dataclasses.asdict(budget).items() if value is not None}
    if not path.endswith(".toml"):
        return json.dumps(fields, indent=2) + "\n"
    tables = {name: value for name, value in fields.items() if isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items() if name not in tables]
    for name, entries in tables.items():
        lines += ["", f"[{name}]", *(f"{json.dumps(key)} = {value}" for key, value in entries.items())]
    return "\n".join(lines) + "\n"


def read_budget(path: str) -> Budget:
    """Read a budget. Raises InputError if the file cannot be read, ParseError if it is not a budget."""
    with reading(path, hint="write it with --write-budget") as file:
        content = file.read()
    try:
        text = as_utf8(content).decode()
        fields = parse_toml(text) if path.endswith(".toml") else json.loads(text)
    except ValueError as error:  # Python raises it as well, for more digits than it converts
        raise ParseError(
            f"'{path}' is not a budget: {_lower(str(error))}", hint="write one with --write-budget", code=Code.BAD_FILE
        ) from None
    except RecursionError:
        raise ParseError(
            f"'{path}' is not a budget: it is nested too deeply",
            hint="write one with --write-budget",
            code=Code.BAD_FILE,
        ) from None
    if not isinstance(fields, dict):
        raise ParseError(
            f"'{path}' is not a budget: expected an object with limits",
            hint="write one with --write-budget",
            code=Code.BAD_FILE,
        )
    for name, value in fields.items():
        _check(path, name, value)
    return Budget(**fields)


def _check(path: str, name: str, value: Any) -> None:
    """Raise ParseError for an unknown key or a value of the wrong form."""
    if name not in _FORMS:
        raise ParseError(
            f"budget '{path}' has an unknown key '{name}'", hint=f"known are {', '.join(_FORMS)}", code=Code.BAD_FILE
        )
    fits, expected = _FORMS[name]
    if not fits(value):
        raise ParseError(
            f"budget '{path}' has '{name}' = {json.dumps(value, default=str)}",
            hint=f"expected {expected}",
            code=Code.BAD_FILE,
        )


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _part(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_TOLERANCE


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and all(is_count(each) for each in value.values())


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "program": (_text, "a text"),
    "mesh": (_counts, "sizes by axis"),
    "collectives": (is_count, "a number of at least 0"),
    "sent_bytes": (is_count, "a number of at least 0"),
    "bytes_by_kind": (_counts, "numbers by kind of collective"),
    "peak_memory_bytes": (is_count, "a number of at least 0"),
    "tolerance": (_part, "a fraction such as 0.05"),
}
