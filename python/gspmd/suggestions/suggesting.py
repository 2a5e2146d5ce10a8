"""Suggest annotations: partition the program with each candidate of the decision problem."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.outcome import FIGURES, Figure, Outcome, outcome_of, outcome_table
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import following, tell
from gspmd.explanations.explanation import explain
from gspmd.pass_manager.collection import collection_paused
from gspmd.pass_manager.manager import run_in_memory
from gspmd.plan_search.plan_problem import PlanProblem
from gspmd.plan_search.pricing import SearchSettings
from gspmd.reading import read_program
from gspmd.runtime.executable_module import is_partitioned
from gspmd.suggestions.annotating import ValueAnnotation
from gspmd.suggestions.candidates import Candidates
from gspmd.suggestions.source_patch import SourceLines, SourcePatch
from gspmd.suggestions.suggestion import Suggestion
from gspmd.suggestions.text import hint_lines
from gspmd.tables import fitted
from gspmd.text_report import mesh_text
from gspmd.transforms.decide.frame import sharing
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.modules import mesh_operations
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.ops.custom_rules import RuleSource

TRIES = 100
"""The default limit on tries."""
TIME_LIMIT_S = 60.0
"""The default time limit in seconds."""
_MIN = 1e-3  # smallest relative saving of a suggestion


@dataclasses.dataclass(frozen=True, slots=True)
class Suggestions:
    """The suggestions for a program: `found` are the annotations that lower the cost, the best first.

    `before` is the cost of the program as it is. Of the `promising` annotations, `tried` were tried; with `refused` of
    these, the program cannot be partitioned.
    """

    mesh: Mesh
    target: str
    save: str
    before: Outcome
    found: tuple[Suggestion, ...]
    tried: int
    promising: int
    refused: int
    module: ir.Module = dataclasses.field(repr=False)

    def apply(self, number: int = 1) -> ir.Module:
        """The program with one of the suggestions, counted from 1, by default the best.

        Errors: UsageError if there is no such suggestion.
        """
        if not (is_count(number) and 1 <= number <= len(self.found)):
            raise UsageError(
                f"there is no suggestion {shown(number)}, there are {len(self.found)}", code=Code.BAD_VALUE
            )
        module = read_program(self.module)
        self.found[number - 1].annotation.apply(module)
        return module

    def to_dict(self) -> dict[str, Any]:
        """The suggestions as JSON values."""
        return {
            "mesh": dict(self.mesh.axes),
            "target": self.target,
            "save": self.save,
            "before": self.before.to_dict(),
            "suggestions": [suggestion.to_dict(self.before) for suggestion in self.found],
            "tried": self.tried,
            "promising": self.promising,
            "refused": self.refused,
        }

    def __str__(self) -> str:
        """The text printed by `gspmd suggest`."""
        return self.text()

    def text(self, most: int = 5) -> str:
        """What the program costs, the `most` annotations that save most with what it costs then, how each is written.

        Lines fit the terminal, except source lines, which are meant to be copied.
        """
        shown = self.found[:most]
        lines = [f"{mesh_text(self.mesh)}, target {self.target or 'neutral'}", ""]
        after = {f"with {number}": each.outcome for number, each in enumerate(shown, 1)}
        lines += outcome_table({"as it is": self.before, **after}, best="with 1")
        lines += [line for each in hint_lines(shown, self.before) for line in ("", *each)]
        if len(self.found) > most:
            lines += ["", f"... and {len(self.found) - most} more that save less"]
        return "\n".join([*lines, "", *fitted([self._tried()])])

    def _tried(self) -> str:
        """The numbers of annotations that were tried and that lower the cost."""
        paid = sum(1 + len(each.alike) for each in self.found)
        pays = f"{paid or 'none'} of them help{'s' if paid == 1 else ''}"
        tried = f"{self.tried} annotation{'s' if self.tried != 1 else ''} tried, {pays}"
        rest = self.promising - self.tried
        return f"{tried}; {rest} more were skipped by the limits on tries and time" if rest > 0 else tried


def suggest(
    program: Any,
    num_partitions: int | None = None,
    *,
    target: str = "",
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    options: Mapping[str, Any] | None = None,
    save: str = "time",
    tries: int = TRIES,
    time_limit_s: float = TIME_LIMIT_S,
) -> Suggestions:
    """Find annotations that lower the cost of a program.

    `program` and the arguments up to `options` are those of `gspmd.partition`. `save` is the figure to reduce: `time`
    (the estimated step on the target), `bytes` (sent by a device) or `memory` (at the peak). At most `tries`
    annotations are tried, the most promising first, and none is started after `time_limit_s` seconds. Existing
    annotations are kept.

    Errors: those of `gspmd.partition`; UsageError for a program that is partitioned already, and for bad limits.
    """
    _check(save, tries, time_limit_s)
    until = time.monotonic() + time_limit_s
    base = base_of(program, num_partitions)
    arguments: dict[str, Any] = {
        "replicate_unsupported": replicate_unsupported,
        "custom_rules": custom_rules,
        "target": target,
        "options": options,
    }
    known = explain(program if base.is_given else base.module, num_partitions, **arguments)
    before = outcome_of(known.partitioned, target)
    trials = _Trials(base.module, {"num_partitions": num_partitions, **arguments}, target, FIGURES[save], until, tries)
    with sharing(), collection_paused():
        problem = PlanProblem(base.module, known.mesh, SearchSettings(target, 0.0, arguments))
        promising = [candidate.annotation for candidate in Candidates(known, problem, save).all()]
        trials.run(promising)
    lines = SourceLines(base.module)
    return Suggestions(
        mesh=known.mesh,
        target=target,
        save=save,
        before=before,
        found=tuple(_merged(trials.paying(before), FIGURES[save], lines)),
        tried=len(trials.outcomes),
        promising=len(promising),
        refused=sum(outcome is None for outcome in trials.outcomes.values()),
        module=base.module,
    )


def _check(save: Any, tries: Any, time_limit_s: Any) -> None:
    """Raise UsageError for an invalid limit or figure."""
    is_time = isinstance(time_limit_s, int | float) and not isinstance(time_limit_s, bool) and time_limit_s >= 0
    for name, value, is_one, expected in (
        ("save", save, isinstance(save, str) and save in FIGURES, f"one of {', '.join(FIGURES)}"),
        ("tries", tries, is_count(tries), "a number"),
        ("time_limit_s", time_limit_s, is_time, "a number of seconds"),
    ):
        if not is_one:
            raise UsageError(f"{name} is {shown(value)}, expected {expected}", code=Code.BAD_VALUE)


@dataclasses.dataclass(frozen=True, slots=True)
class BaseProgram:
    """The module to which annotations are added, and whether it is the given one."""

    module: ir.Module
    is_given: bool


def base_of(program: Any, num_partitions: int | None) -> BaseProgram:
    """The program itself if it has one mesh, to which annotations can refer; else the ingested program."""
    module = read_program(program)
    if is_partitioned(module):
        raise UsageError(
            "the program is already partitioned", hint="give the one before", code=Code.PARTITIONED_ALREADY
        )
    with module.context, ir.Location.unknown():
        top = model_of(module)
        is_named = len(mesh_operations(top)) == 1 and "mhlo.sharding" not in str(module)
        top.dissolve()
    if not is_named:
        with in_memory(module) as top:
            run_in_memory([Ingest(num_partitions=num_partitions or 0)], top, module)
    return BaseProgram(module, is_named)


class _Trials:
    """Partitions the program with one annotation after the other, within limits, and records the costs."""

    def __init__(
        self,
        module: ir.Module,
        arguments: Mapping[str, Any],
        target: str,
        figure: Figure,
        until: float,
        most: int,
    ) -> None:
        self._module, self._arguments, self._target = module, arguments, target
        self._figure, self._until, self._most = figure, until, most
        self.outcomes: dict[ValueAnnotation, Outcome | None] = {}

    def run(self, annotations: Sequence[ValueAnnotation]) -> None:
        """Try the annotations that have not been tried."""
        new = [each for each in dict.fromkeys(annotations) if each not in self.outcomes]
        new = new[: self._most - len(self.outcomes)]
        for number, annotation in enumerate(new, 1):
            if time.monotonic() > self._until:
                break
            tell(str(annotation), number, len(new))
            with following(None):
                self.outcomes[annotation] = self._try(annotation)

    def _try(self, annotation: ValueAnnotation) -> Outcome | None:
        module = read_program(self._module)
        annotation.apply(module)
        try:
            return outcome_of(api.partition(module, **self._arguments), self._target)
        except Error:
            return None

    def paying(self, before: Outcome) -> list[tuple[ValueAnnotation, Outcome]]:
        """The annotations that lower the cost, the best first; arguments come before equivalent other values."""
        least = self._figure(before)[0] * (1 - _MIN)
        found = [
            (annotation, outcome)
            for annotation, outcome in self.outcomes.items()
            if outcome is not None and self._figure(outcome)[0] < least and (outcome.fits or not before.fits)
        ]
        return sorted(found, key=lambda each: (*self._figure(each[1]), each[0].value.operation is not None))


def _merged(
    paying: Sequence[tuple[ValueAnnotation, Outcome]],
    figure: Figure,
    lines: SourceLines,
) -> Iterator[Suggestion]:
    """One suggestion for all annotations with the same outcome, preferably of an argument or with a patch."""
    groups: dict[tuple[str, ...], list[tuple[ValueAnnotation, Outcome]]] = {}
    for annotation, outcome in paying:
        groups.setdefault(tuple(f"{number:.9g}" for number in figure(outcome)), []).append((annotation, outcome))
    for members in groups.values():
        patches = {annotation: _patch(annotation, lines) for annotation, _ in members}
        fitting = (each for each, patch in patches.items() if patch is not None or each.value.operation is None)
        best = next(fitting, members[0][0])
        others = tuple(annotation for annotation, _ in members if annotation != best)
        yield Suggestion(best, members[0][1], others, patches[best])


def _patch(annotation: ValueAnnotation, lines: SourceLines) -> SourcePatch | None:
    """The change of the source that constrains all values of an annotation, if there is one."""
    found = lines.patches(annotation.single)
    patches = set(found.values())
    return patches.pop() if len(patches) == 1 and len(found) == 1 + len(annotation.more) else None
