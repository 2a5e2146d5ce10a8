"""What a search found: a decision for each role, and what the program costs with them."""

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
    """Annotations for a program, and what it costs with them.

    `baselines` are the ways to split it that people know, by name, with the same figures; `tried` is how many were
    priced. No plan is faster than the `bound`. By the prices of the decision problem, its solution is at most by the
    part `gap` from the best one. `module` is the annotated program, and `compiled` what the target's compiler makes of
    it, where that was asked for. `pipelining` is a pipeline that would take less, for which the program has to be
    written otherwise; None where none would.
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
        """Python that gives the same shardings to `in_shardings`, by the names of arguments."""
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
        """All of it in plain values, as JSON holds them; `save` writes this."""
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
        """Write the decisions as JSON, which the next search can start from. Errors: InputError."""
        output.write(path, (json.dumps(self.to_dict(), indent=2) + "\n").encode())

    def __str__(self) -> str:
        """The text that `gspmd search` prints."""
        lines = [f"{mesh_text(self.mesh)}, target {self.target or 'neutral'}", ""]
        lines += outcome_table({**self.baselines, "this plan": self.outcome})
        lines += bound_lines(self.bound, self.gap, self.outcome)
        if self.compiled is not None:
            lines.append(compiled_line(self.compiled))
        lines += decision_lines(self.decisions)
        if self.pipelining is not None:
            lines += ["", *pipeline_lines(self.pipelining, self.outcome.step_s)]
        end = "no other solution promises more" if self.is_complete else "the time was up"
        lines += ["", *fitted([f"{self.tried} plans priced in {self.seconds:.0f} s; {end}"])]
        return "\n".join(lines)


_FUNCTION = '''\
def planned(name, tree):
    """The shardings of the plan for an argument of this name, for in_shardings."""

    def spec(path, leaf):
        label = name + jax.tree_util.keystr(path)
        return next((spec for pattern, spec in PLAN.items() if re.fullmatch(pattern, label)), None)

    return jax.tree_util.tree_map_with_path(spec, tree)'''.splitlines()
