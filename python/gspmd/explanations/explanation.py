"""Why each value is sharded as it is, and what conflicts cost.

`explain` propagates shardings as `gspmd.partition` does and keeps the derivations: each axis of each dimension is
traced back, step by step, to an annotation.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd.api import Partitioned, attaching, passes_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.conflicts import Conflict, find_conflicts, mark_places, place_of
from gspmd.explanations.derivations import Explainer, Origin
from gspmd.explanations.explained_values import ExplainedValue, RefinedValue
from gspmd.explanations.text import (
    conflict_summary_lines,
    decision_lines,
    origin_lines,
    refinement_lines,
    unexplained_lines,
)
from gspmd.explanations.value_names import GivenNames, given_text
from gspmd.pass_manager.manager import run_in_memory
from gspmd.reading import read_program
from gspmd.text_report import mesh_text
from gspmd.transforms.decide import ChangedValue, Decide
from gspmd.transforms.decide.terms import Terms, terms_of
from gspmd.transforms.ir.modules import FUNCTION
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import write_module
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.ops.custom_rules import RuleSource
from gspmd.transforms.passes import Pass
from gspmd.transforms.propagate import Propagate, complete
from gspmd.transforms.reshard import Reshard


class Explanation:
    """The shardings of a program with their derivations, and its conflicts with their cost.

    `given_text` is the module as given, with the names of its values; `explainer` names the parts of the propagated
    program.
    """

    def __init__(
        self,
        explainer: Explainer,
        module: ir.Module,
        names: GivenNames,
        given_text: str,
        decide: Decide,
        reshard: Reshard,
        later: Sequence[Pass],
    ) -> None:
        self.explainer = explainer
        self._module = module
        self.names = names
        self._decide, self._reshard = decide, reshard
        self._later = later
        self.given_text = given_text
        self.mesh: Mesh = explainer.completion.annotated.mesh

    @functools.cached_property
    def values(self) -> tuple[ExplainedValue, ...]:
        """All arguments, results of operations, block arguments and results, in program order."""
        return tuple(
            ExplainedValue(
                name=site.name,
                kind=site.kind,
                label=site.label,
                operation=site.operation,
                type=site.type.brief,
                location=site.location,
                called_for=site.called_for,
                used_by=site.used_by,
                frames=site.frames,
                sharding=print_dims(site.sharding),
                local_shape=site.sharding.local_shape(site.type.shape),
                derivations=self.explainer.derivations(site.slot, site.sharding),
                shape=site.type.shape,
                placement=_on_devices(site.sharding, site.device_ids),
                device_ids=site.device_ids,
            )
            for site in self.explainer.sites
        )

    @functools.cached_property
    def _costs(self) -> tuple[tuple[Conflict, ...], Partitioned, tuple[RefinedValue, ...], Terms, float]:
        """Continue partitioning after propagation; the module changes only when this is finished."""
        module, top = self._module, self.explainer.completion.annotated.module
        with module.context, ir.Location.unknown(module.context):
            mark_places(self.explainer)
            self.explainer.completion.write()
            decided = self._decide.decided(top)
            unexplained = self.explainer.unexplained
            refined: tuple[RefinedValue, ...] = unexplained.attempt(
                "which shardings differ from those of propagation", lambda: (*map(self._refined, decided.changed),), ()
            )
            terms = terms_of(decided.problem, decided.solution.states)  # while the program is unchanged
            moved = self._reshard.resharded(top, None)
        run_in_memory(self._later, top, module)
        target, mesh = self._reshard.target, self.mesh
        with module.context, ir.Location.unknown(module.context):
            hardware = read_hardware(target, mesh)
            found: tuple[Conflict, ...] = unexplained.attempt(
                "what is sent, and why",
                lambda: find_conflicts(self.explainer, decided, moved, top, hardware),
                (),
            )
            write_module(top, module)
            module.operation.verify()
        return found, Partitioned(module), refined, terms, decided.gap()

    def _refined(self, refinement: ChangedValue) -> RefinedValue:
        explainer, place = self.explainer, place_of(refinement.op.location)
        program = explainer.program
        if refinement.op.name == FUNCTION:
            value, location = program.body.arguments[refinement.index], None
        else:
            assert place is not None, "all operations are marked"
            value, location = program.ops[place].results[refinement.index], explainer.ops[place].location
        explainer.refined[program.slot_of(value)] = refinement.after.dim_axes()
        return RefinedValue(
            name=explainer.value_names[value],
            operation=refinement.op.name,
            location=location,
            sharding=print_dims(refinement.before),
            runs_as=print_dims(refinement.after),
        )

    def __str__(self) -> str:
        """The summary that `gspmd explain` prints."""
        split = sum(any(value.placement.dim_axes()) for value in self.values)
        blocks = (
            [f"mesh: {mesh_text(self.mesh)}", f"{len(self.values)} values, {split} of them split"],
            origin_lines(self.origins()),
            refinement_lines(self.refinements),
            conflict_summary_lines(self.conflicts),
            decision_lines(self.gap, self.terms),
            unexplained_lines(self.unexplained),
        )
        return "\n\n".join("\n".join(lines) for lines in blocks if lines)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """All operations whose tensors disagree or that communicate, the most expensive first."""
        return self._costs[0]

    @property
    def unexplained(self) -> tuple[str, ...]:
        """What failed to be explained so far, a sentence each: defects of gspmd. What is missing is left out."""
        return tuple(self.explainer.unexplained.sentences)

    @property
    def refinements(self) -> tuple[RefinedValue, ...]:
        """The values that run with another sharding than propagation chose, in program order."""
        return self._costs[2]

    @property
    def terms(self) -> Terms:
        """The cost of the decision for a device in a step, by term of the objective."""
        return self._costs[3]

    @property
    def gap(self) -> float:
        """The relative distance of the decision from the optimum, at most; 0 if it is proven optimal."""
        return self._costs[4]

    @property
    def partitioned(self) -> Partitioned:
        """The result of `gspmd.partition`."""
        return self._costs[1]

    # ---- selection ----

    def find(self, text: str) -> tuple[ExplainedValue, ...]:
        """The values with that name (`%12`, `12`, `state['w']`) or location (`main.py:80`).

        Raises UsageError with similar names if there are none.
        """
        if not text.strip():
            raise UsageError("no value is named", hint="name one as %12, state['w'] or main.py:80")
        names = {text, *self.names.stands_for(text)}
        if not text.startswith(("%", "@")):
            names |= {f"%{text}", *self.names.stands_for(f"%{text}")}
        found = tuple(value for value in self.values if value.name in names or text == value.label)
        found = found or tuple(v for v in self.values if any(v.name.startswith(f"{name}#") for name in names))
        found = found or tuple(value for value in self.values if _is_at(text, str(value.location), *value.frames[:1]))
        found = found or tuple(value for value in self.values if _is_at(text, *value.frames))
        found = found or tuple(value for value in self.values if text and value.label.endswith(text))
        if not found:
            raise self._unknown(text)
        made_by_call = tuple(value for value in found if text in value.called_for.split(" "))
        return made_by_call or found

    def _unknown(self, text: str) -> UsageError:
        known = dict.fromkeys(self.names.inlined())
        for value in self.values:
            for name in (value.name, value.label, value.location and value.location.brief):
                if name:
                    known[name] = None
        near = [repr(name) for name in difflib.get_close_matches(text, known, n=3, cutoff=0.5)]
        everything = "list all values with gspmd explain --all or gspmd show"
        hint = f"did you mean {' or '.join(near)}?" if near else everything
        return UsageError(f"the program has no value '{text}'", hint=hint, code=Code.UNKNOWN_VALUE)

    # ---- sums ----

    def origins(self) -> list[tuple[Origin, int]]:
        """The annotations (with `dimension` 0) and the number of values that each gave an axis, the largest first."""
        counts: Counter[Origin] = Counter()
        for value in self.values:
            counts.update([*dict.fromkeys(dataclasses.replace(d.origin, dimension=0) for d in value.derivations)])
        return counts.most_common()

    def to_dict(self) -> dict[str, Any]:
        """`mesh`, `values`, `conflicts`, `decision` and, after a failure, `unexplained` as JSON values."""
        return {
            "mesh": dict(self.mesh.axes),
            "values": [value.to_dict() for value in self.values],
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
            "decision": {"gap": self.gap, "terms_s": self.terms.named},
            **({"unexplained": list(self.unexplained)} if self.unexplained else {}),
        }


def explain(
    program: Any,
    num_partitions: int | None = None,
    *,
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    target: str = "",
    options: Mapping[str, Any] | None = None,
) -> Explanation:
    """Explain the shardings of a program; arguments and errors are those of `gspmd.partition`."""
    passes = passes_of(num_partitions, replicate_unsupported, target=target, options=options)
    place = next(index for index, pass_ in enumerate(passes) if isinstance(pass_, Propagate))
    early, (deciding, resharding, *later) = passes[:place], passes[place + 1 :]
    assert isinstance(deciding, Decide)
    assert isinstance(resharding, Reshard)
    module = read_program(program)
    context = module.context
    given = str(module)
    text, filename = given_text(program)
    with context, ir.Location.unknown(context):
        names = GivenNames(module, text, filename)
        top = model_of(module)
    run_in_memory(early, top, module, attaching(custom_rules))
    with context, ir.Location.unknown(context):
        explainer = Explainer(complete(top, replicate_unsupported), names)
    return Explanation(explainer, module, names, given, deciding, resharding, later)


def _on_devices(sharding: TensorSharding, ids: tuple[int, ...]) -> TensorSharding:
    """The sharding over the mesh with these devices, if given."""
    return dataclasses.replace(sharding, mesh=dataclasses.replace(sharding.mesh, device_ids=ids)) if ids else sharding


def _is_at(text: str, *places: str) -> bool:
    """Whether `text` is one of the locations, `file:line` or `file:line:column`, with or without folders."""
    return any(place == text or place.endswith("/" + text) for place in places)
