"""Compares the partitionings of two versions of a program, for the review of a change."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from gspmd import api
from gspmd.checks.running import Stage
from gspmd.collectives import Collective
from gspmd.comparisons.figures import COMPARED, Figures, SentCollectives, sent_by
from gspmd.comparisons.line_names import line_of
from gspmd.comparisons.text import NONE, collective_text, figure_rows, line_text, narrow_table
from gspmd.costs.cost_report import CostReport
from gspmd.costs.program_cost import cost, partitioned
from gspmd.dialect.mesh import Mesh
from gspmd.reading import read_program
from gspmd.tables import fitted
from gspmd.text_report import bytes_text, mesh_text, sharding_text
from gspmd.transforms.ir.signature import Signature, ValueSignature
from gspmd.transforms.ops.custom_rules import RuleSource


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """The traffic of one source line in the old version and in the new one; either may be empty."""

    old: tuple[SentCollectives, ...]
    new: tuple[SentCollectives, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedSharding:
    """An argument or result whose type or sharding changed; empty in a version that does not have it."""

    name: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True, slots=True)
class VersionComparison:
    """The figures of two versions of a program, and the lines, arguments and results that changed."""

    meshes: tuple[Mesh, Mesh]
    target: str
    old: Figures
    new: Figures
    lines: tuple[Changed, ...]
    arguments: tuple[ChangedSharding, ...]
    results: tuple[ChangedSharding, ...]

    @property
    def is_same(self) -> bool:
        """Whether traffic, arguments and results are the same in both versions."""
        return not (self.lines or self.arguments or self.results)

    def __str__(self) -> str:
        """The text that `gspmd compare` prints."""
        return "\n".join(fitted(version_lines(self)))

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values, as for JSON."""
        sides = zip(("old", "new"), self.meshes, (self.old, self.new), strict=True)
        return {
            "target": self.target,
            **{name: {"mesh": dict(mesh.axes), **figures.to_dict()} for name, mesh, figures in sides},
            "lines": [dataclasses.asdict(each) for each in self.lines],
            "arguments": [dataclasses.asdict(each) for each in self.arguments],
            "results": [dataclasses.asdict(each) for each in self.results],
        }


def compare_versions(
    old: Any,
    new: Any,
    num_partitions: int | None = None,
    *,
    target: str = "",
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    strict: bool | int = False,
    options: Mapping[str, Any] | None = None,
    stage: Stage = lambda name: nullcontext(),
) -> VersionComparison:
    """Partition two versions of a program with the same options, and compare their traffic, memory and time.

    The arguments are those of `gspmd.cost`; both programs may be annotated or partitioned. Collectives are matched by
    kind, axes, bytes and cause, in program order, so that a line that only moved has not changed. `stage` wraps each
    slow step, for progress.

    Errors: those of `gspmd.cost`.
    """
    sides = []
    for name, program in (("old", old), ("new", new)):
        with stage(f"partitioning the {name} version"):
            product = partitioned(
                program.module if isinstance(program, api.Partitioned) else read_program(program),
                num_partitions,
                replicate_unsupported=replicate_unsupported,
                custom_rules=custom_rules,
                strict=strict,
                target=target,
                options=options,
            )
            sides.append((product.signature, cost(product, target=target)))
    (before, old_cost), (after, new_cost) = sides
    return VersionComparison(
        (before.mesh, after.mesh),
        target,
        figures_of_cost(old_cost),
        figures_of_cost(new_cost),
        tuple(_changes_of_lines(_by_line(old_cost), _by_line(new_cost))),
        tuple(_changed_values("argument", before, after, before.inputs, after.inputs)),
        tuple(_changed_values("result", before, after, before.outputs, after.outputs)),
    )


def figures_of_cost(report: CostReport) -> Figures:
    """The figures of a program that is not compiled, from `gspmd.cost`."""
    return Figures(
        tuple(sent_by(priced.collective for priced in report.collectives)),
        report.memory.peak,
        report.lower_bound_s,
        report.upper_bound_s,
    )


def _by_line(report: CostReport) -> list[tuple[SentCollectives, ...]]:
    """The collectives of each source line, in program order."""
    lines: dict[str, list[Collective]] = {}
    for priced in report.collectives:
        lines.setdefault(line_of(priced.collective.location), []).append(priced.collective)
    return [tuple(sent_by(collectives)) for collectives in lines.values()]


def _changes_of_lines(
    old: Sequence[tuple[SentCollectives, ...]], new: Sequence[tuple[SentCollectives, ...]]
) -> Iterator[Changed]:
    """The lines whose traffic changed, wherever they are now."""
    keys = [[tuple(dataclasses.replace(each, line="") for each in sent) for sent in side] for side in (old, new)]
    for tag, a, b, c, d in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag != "equal":
            for before, after in itertools.zip_longest(old[a:b], new[c:d], fillvalue=()):
                yield Changed(before, after)


def _changed_values(
    what: str,
    before: Signature,
    after: Signature,
    old: Sequence[ValueSignature],
    new: Sequence[ValueSignature],
) -> Iterator[ChangedSharding]:
    """The changed values, matched by name if all names are unique, else by number."""
    names = [[value.name or "" for value in side] for side in (old, new)]
    named = all(all(side) and len(set(side)) == len(side) for side in names)
    left, right = (
        {
            (value.name or "") if named else f"{what} {index}": _form(value, signature)
            for index, value in enumerate(side)
        }
        for side, signature in ((old, before), (new, after))
    )
    for name in dict.fromkeys((*left, *right)):
        if left.get(name) != right.get(name):
            yield ChangedSharding(name, left.get(name, ""), right.get(name, ""))


def _form(value: ValueSignature, signature: Signature) -> str:
    return f"{value.type_text()} {sharding_text(value.sharding, signature.mesh)}"


def version_lines(found: VersionComparison, most: int = 10) -> list[str]:
    """Two versions of a program side by side: figures, lines and shardings that changed."""
    sides = (found.old, found.new)
    changes = {label: _change_text(of(found.old), of(found.new)) for label, of in COMPARED.values()}
    rows = [("", "old", "new", "change"), *((*row, changes.get(row[0], "")) for row in figure_rows(sides))]
    heads = [f"{side} on {mesh_text(mesh)}" for side, mesh in zip(("old", "new"), found.meshes, strict=True)]
    lines = [*(heads if heads[0][4:] != heads[1][4:] else [heads[0].removeprefix("old on ")])]
    lines[-1] += f", target {found.target or 'neutral'}"
    lines += ["", *narrow_table(rows, range(1, 4))]
    lines += _changed_lines(found.lines, most)
    for what, changed in (("arguments", found.arguments), ("results", found.results)):
        if changed:
            sharding_rows = [(each.name, each.old or NONE, each.new or NONE) for each in changed[:most]]
            lines += ["", f"{what} that changed:", *narrow_table([("", "old", "new"), *sharding_rows])]
            lines += [f"  ... and {len(changed) - most} more"] if len(changed) > most else []
    return lines


def _changed_lines(changes: Sequence[Changed], most: int) -> list[str]:
    if not changes:
        return ["", "the traffic of every line is the same"]
    rows = []
    for change in changes[:most]:
        rows += [("-", *_sent_cells(each), _why(each)) for each in change.old]
        rows += [("+", *_sent_cells(each), _why(each)) for each in change.new]
    more = len(changes) - most
    lines = ["", "traffic of the lines that changed:", *narrow_table(rows, (2,))]
    return [*lines, f"  ... and {more} more changes"] if more > 0 else lines


def _sent_cells(each: SentCollectives) -> tuple[str, str, str]:
    return line_text(each.line), bytes_text(each.bytes), collective_text(each)


def _why(each: SentCollectives) -> str:
    return each.cause.replace("stablehlo.", "")


def _change_text(old: float, new: float) -> str:
    """`+5.0%`."""
    if old == new:
        return "same"
    return f"{new / old - 1:+.1%}" if old else "new"
