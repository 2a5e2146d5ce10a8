"""Decisions of an earlier search, as they are read from a file."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError, ParseError, reason_of
from gspmd.plan_search.pricing import Dims

FORM = 1
"""The number of the form that plans are written in."""
_MAX_BYTES = 2**26


@dataclasses.dataclass(frozen=True, slots=True)
class PlanFile:
    """Decisions of an earlier search, by label: the axes of each dimension, and the labels that are pinned."""

    mesh: Mapping[str, int]
    dims: Mapping[str, Dims | None]
    pinned: frozenset[str]

    @staticmethod
    def read(path: str | os.PathLike[str]) -> PlanFile:
        """Read a file of `ShardingPlan.save`, possibly edited. Errors: InputError, ParseError."""
        try:
            with open(path, "rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise InputError(
                f"cannot read '{os.fspath(path)}': {reason_of(error).lower()}", code=Code.CANNOT_READ
            ) from None
        try:
            if len(data) > _MAX_BYTES:
                raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
            return _read_plan(json.loads(data))
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            what = f"no '{error.args[0]}'" if isinstance(error, KeyError) else str(error)
            raise ParseError(
                f"'{os.fspath(path)}' is not a plan: {what}",
                hint="give a file written by gspmd search --plan",
                code=Code.BAD_FILE,
            ) from None


def _read_plan(data: Any) -> PlanFile:
    """Raises ValueError, TypeError and KeyError for an invalid plan."""
    if not isinstance(data, dict) or data["form"] != FORM:
        raise ValueError(f"its form is not {FORM}")
    mesh = data["mesh"]
    if not isinstance(mesh, dict) or not all(type(size) is int and size > 0 for size in mesh.values()):
        raise ValueError("its mesh is not sizes by name")
    dims: dict[str, Dims | None] = {}
    pinned = set()
    if not isinstance(data["decisions"], list):
        raise ValueError("its decisions are not a list")
    for decision in data["decisions"]:
        if not isinstance(decision, dict) or not isinstance(decision["argument"], str):
            raise ValueError("a decision names no argument")
        label, found = decision["argument"], decision["sharding"]
        dims[label] = None if found is None else _read_dims(found, mesh)
        if decision.get("pinned", False) is True:
            pinned.add(label)
    return PlanFile(mesh, dims, frozenset(pinned))


def _read_dims(found: Any, mesh: Mapping[str, int]) -> Dims:
    if not isinstance(found, list) or not all(isinstance(names, list) for names in found):
        raise ValueError("a sharding is not the axes of each dimension")
    names = [name for listed in found for name in listed]
    if not all(isinstance(name, str) and name in mesh for name in names) or len(set(names)) < len(names):
        raise ValueError("a sharding has axes that the mesh has not, or one twice")
    return tuple(tuple(listed) for listed in found)
