"""The result of a search: a decision for each role, and the cost of the program."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import output
from gspmd.costs.outcome import Outcome
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError, ParseError, reason_of
from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.bound import Bound
from gspmd.plan_search.judging import CompiledOutcome
from gspmd.plan_search.pipelining import PipelineProposal
from gspmd.plan_search.pricing import Dims, sharding_of
from gspmd.suggestions.annotating import GivenValue
from gspmd.suggestions.source_patch import SourcePatch, spec_text

_FORM = 1
_MOST_BYTES = 2**26


@dataclasses.dataclass(frozen=True, slots=True)
class PlanDecision:
    """The sharding of the arguments of one role, or of values inside the program.

    `label` is their name, with `*` for numbers that differ between the `arguments`; `shape` is that of each. `values`
    are those inside the program, and `patches` the changes of the source that constrain them, if it shows their
    expressions. `dims` are the axes of each dimension, None if left to propagation. `is_given` says that the program
    has the annotation, `is_pinned` that a plan file pins it. `next_dims` is the sharding in the best solution with
    another one, and `next_cost` the cost of that solution at the problem's prices, relative to the best one; None if it
    was not computed.
    """

    label: str
    arguments: tuple[str, ...]
    shape: tuple[int, ...]
    type: str
    dims: Dims | None
    is_given: bool
    is_pinned: bool
    next_dims: Dims | None = None
    next_cost: float | None = None
    values: tuple[GivenValue, ...] = ()
    patches: tuple[SourcePatch, ...] = ()

    @property
    def count(self) -> int:
        """The number of arguments or values."""
        return len(self.arguments) + len(self.values)

    def places(self) -> list[str]:
        """The distinct source lines of the values inside, as `file:line`."""
        located = (value.location for value in self.values if value.location is not None)
        return list(dict.fromkeys(f"{os.path.basename(at.file)}:{at.line}" for at in located))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "argument": self.label,
            "kind": "values" if self.values else "arguments",
            "count": self.count,
            "type": self.type,
            "sharding": _listed(self.dims),
            "given": self.is_given,
            "pinned": self.is_pinned,
            "next_sharding": _listed(self.next_dims),
            "next_cost": self.next_cost,
            "places": self.places(),
            "patches": [patch.to_dict() for patch in self.patches],
        }


def _listed(dims: Dims | None) -> list[list[str]] | None:
    return None if dims is None else [list(names) for names in dims]


@dataclasses.dataclass(frozen=True, slots=True)
class ShardingPlan:
    """Annotations for a program, and its cost with them.

    `baselines` are well-known parallelisms by name, with the same figures; `tried` is the number of priced plans. No
    plan is faster than `bound`. `gap` is the relative distance of the solution from the optimum at the prices of the
    decision problem, at most. `module` is the annotated program, and `compiled` the result of the target's compiler, if
    requested. `pipelining` is a faster pipeline, for which the program has to be rewritten; None if there is none.
    """

    mesh: Mesh
    target: str
    outcome: Outcome
    most_bytes: float
    bound: Bound
    gap: float
    baselines: Mapping[str, Outcome]
    decisions: tuple[PlanDecision, ...]
    tried: int
    seconds: float
    is_complete: bool
    module: ir.Module = dataclasses.field(repr=False)
    compiled: CompiledOutcome | None = None
    pipelining: PipelineProposal | None = None

    def jax_code(self) -> str:
        """Python code with the same shardings for `in_shardings`, by the names of arguments."""
        lines = ["import re", "", "import jax", "from jax.sharding import PartitionSpec as P", "", "PLAN = {"]
        for decision in self.decisions:
            if decision.values:
                continue
            if decision.dims is not None and decision.label.startswith("%"):
                lines.append(f"    # {decision.label}: {spec_text(sharding_of(self.mesh, decision.dims), 'P')}")
            elif decision.dims is not None:
                pattern = re.escape(decision.label).replace(r"\*", r"\d+")
                lines.append(f"    {pattern!r}: {spec_text(sharding_of(self.mesh, decision.dims), 'P')},")
        lines.append("}")
        for decision in self.decisions:
            if decision.values and decision.dims is not None:
                spec = spec_text(sharding_of(self.mesh, decision.dims), "P")
                places = decision.places() or [value.name for value in decision.values]
                lines += ["", f"# jax.lax.with_sharding_constraint(value, {spec}) around what is made at"]
                lines += [f"#   {place}" for place in places]
        lines += ["", "", *_FUNCTION]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values; `save` writes this."""
        return {
            "form": _FORM,
            "mesh": dict(self.mesh.axes),
            "target": self.target,
            "most_bytes": self.most_bytes,
            "outcome": self.outcome.to_dict(),
            "bound": self.bound.to_dict(),
            "gap": self.gap,
            "baselines": {name: outcome.to_dict() for name, outcome in self.baselines.items()},
            "decisions": [decision.to_dict() for decision in self.decisions],
            "compiled": None if self.compiled is None else self.compiled.to_dict(),
            "pipelining": None if self.pipelining is None else self.pipelining.to_dict(),
            "tried": self.tried,
            "seconds": self.seconds,
            "complete": self.is_complete,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the decisions as JSON, from which another search can start. Errors: InputError."""
        output.write(path, (json.dumps(self.to_dict(), indent=2) + "\n").encode())

    def __str__(self) -> str:
        """The text printed by `gspmd search`."""
        from gspmd.plan_search.text import plan_lines

        return "\n".join(plan_lines(self))


_FUNCTION = '''\
def planned(name, tree):
    """The shardings of the plan for an argument of this name, for in_shardings."""

    def spec(path, leaf):
        label = name + jax.tree_util.keystr(path)
        return next((spec for pattern, spec in PLAN.items() if re.fullmatch(pattern, label)), None)

    return jax.tree_util.tree_map_with_path(spec, tree)'''.splitlines()


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
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise InputError(
                f"cannot read '{os.fspath(path)}': {reason_of(error).lower()}", code=Code.CANNOT_READ
            ) from None
        try:
            if len(data) > _MOST_BYTES:
                raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
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
    if not isinstance(data, dict) or data["form"] != _FORM:
        raise ValueError(f"its form is not {_FORM}")
    mesh = data["mesh"]
    if not isinstance(mesh, dict) or not all(type(size) is int and size > 0 for size in mesh.values()):
        raise ValueError("its mesh is not sizes by name")
    dims: dict[str, Dims | None] = {}
    pinned = set()
    if not isinstance(data["decisions"], list):
        raise ValueError("its decisions are no list")
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
