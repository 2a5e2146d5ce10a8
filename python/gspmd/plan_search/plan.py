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
from gspmd.costs.outcome import Outcome, outcome_table
from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.bound import Bound
from gspmd.plan_search.judging import CompiledOutcome
from gspmd.plan_search.pipelining import PipelineProposal
from gspmd.plan_search.plan_decision import PlanDecision
from gspmd.plan_search.plan_file import FORM
from gspmd.plan_search.pricing import sharding_of
from gspmd.plan_search.text import bound_lines, compiled_line, decision_lines, pipeline_lines
from gspmd.suggestions.source_patch import spec_text
from gspmd.tables import fitted
from gspmd.text_report import mesh_text


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
            "form": FORM,
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
        lines = [f"{mesh_text(self.mesh)}, target {self.target or 'neutral'}", ""]
        is_best = all(self.outcome.step_s < outcome.step_s for outcome in self.baselines.values())
        lines += outcome_table({**self.baselines, "this plan": self.outcome}, "this plan" if is_best else "")
        lines += bound_lines(self.bound, self.gap, self.outcome)
        if self.compiled is not None:
            lines.append(compiled_line(self.compiled))
        lines += decision_lines(self.decisions)
        if self.pipelining is not None:
            lines += ["", *pipeline_lines(self.pipelining, self.outcome.step_s)]
        end = "no other solution looks better" if self.is_complete else "time limit reached"
        lines += ["", *fitted([f"{self.tried} plans priced in {self.seconds:.0f} s; {end}"])]
        return "\n".join(lines)


_FUNCTION = '''\
def planned(name, tree):
    """The shardings of the plan for an argument of this name, for in_shardings."""

    def spec(path, leaf):
        label = name + jax.tree_util.keystr(path)
        return next((spec for pattern, spec in PLAN.items() if re.fullmatch(pattern, label)), None)

    return jax.tree_util.tree_map_with_path(spec, tree)'''.splitlines()
