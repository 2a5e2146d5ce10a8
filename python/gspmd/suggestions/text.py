"""Suggestions as lines of text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from gspmd.costs.outcome import Outcome
from gspmd.costs.text import time_text
from gspmd.explanations.value_names import given_operations
from gspmd.suggestions.annotating import ValueAnnotation
from gspmd.suggestions.source_patch import SourcePatch, jax_can_say, spec_text
from gspmd.suggestions.suggesting import Suggestion, Suggestions
from gspmd.tables import fitted, good_row, table
from gspmd.text_report import bytes_text, mesh_text
from gspmd.transforms.parsing.mlir import source_location

_ALIKE = 3  # other annotations with the same outcome that are named
_SEEN = 5e-4  # smaller relative changes are not printed


def suggestion_lines(found: Suggestions, most: int = 5) -> list[str]:
    """The cost of the program, the suggestions with their costs, and how to write each.

    Lines fit the terminal, except source lines, which are meant to be copied.
    """
    shown = found.found[:most]
    lines = [f"{mesh_text(found.mesh)}, target {found.target or 'neutral'}", ""]
    rows: list[Sequence[str]] = [("", "step", "sent", "memory"), ("as it is", *_cells(found.before))]
    for number, each in enumerate(shown, 1):
        row = (f"with {number}", *_cells(each.outcome))
        rows.append(row if number > 1 else good_row(row))
    lines += table(rows, right=(1, 2, 3))
    lines += [line for each in hint_lines(found, most) for line in ("", *each)]
    if len(found.found) > most:
        lines += ["", f"... and {len(found.found) - most} more that save less"]
    return [*lines, "", *fitted([_tried(found)])]


def hint_lines(found: Suggestions, most: int) -> Iterator[list[str]]:
    """The lines of each suggestion: the value, the changes, how to write it, and equivalent annotations."""
    for number, each in enumerate(found.found[:most], 1):
        lines = fitted([f"{number}. {each.annotation}{_at(each.annotation)}: {_changes(found.before, each)}"])
        lines += [f"   {line}" for line in written_lines(each)]
        yield lines + fitted(f"   {line}" for line in _alike_lines(each))


def written_lines(suggestion: Suggestion) -> Iterator[str]:
    """How to write the annotation: as a change of the source, for `in_shardings`, or in the text of the program."""
    annotation, patch = suggestion.annotation, suggestion.patch
    if patch is not None:
        yield from patch_lines(patch)
    elif annotation.value.label and jax_can_say(annotation.sharding, annotation.value.shape):
        yield f"in_shardings of {annotation.value.label}: {spec_text(annotation.sharding)}"
    else:
        yield annotation.sdy


def patch_lines(patch: SourcePatch) -> Iterator[str]:
    """The change in the format of `diff -u`."""
    yield f"{os.path.relpath(patch.file)}:{patch.line}" if _is_near(patch.file) else f"{patch.file}:{patch.line}"
    yield from (f"-{line}" for line in patch.old)
    yield from (f"+{line}" for line in patch.new)


def _is_near(file: str) -> bool:
    return os.path.realpath(file).startswith(os.path.realpath(os.curdir) + os.sep)


def _cells(outcome: Outcome) -> tuple[str, str, str]:
    too_much = "" if outcome.fits else " (too much)"
    return time_text(outcome.step_s), bytes_text(outcome.sent_bytes), bytes_text(outcome.memory_bytes) + too_much


def _changes(before: Outcome, suggestion: Suggestion) -> str:
    """`step -31.0 %, bytes sent +2.0 %`."""
    after = suggestion.outcome
    parts = []
    for what, old, new in (
        ("step", before.step_s, after.step_s),
        ("bytes sent", before.sent_bytes, after.sent_bytes),
        ("memory", before.memory_bytes, after.memory_bytes),
    ):
        if not old and new:
            parts.append(f"{what} from none to {bytes_text(new)}")
        elif old and abs(new / old - 1) >= _SEEN:
            parts.append(f"{what} {100 * (new / old - 1):+.1f} %")
    return ", ".join(parts)


def _at(annotation: ValueAnnotation) -> str:
    place = annotation.value.location
    return "" if place is None else f" at {os.path.basename(place.file)}:{place.line}"


def _alike_lines(suggestion: Suggestion) -> Iterator[str]:
    others = suggestion.alike
    if others:
        named = ", ".join(map(str, others[:_ALIKE]))
        more = f" and {len(others) - _ALIKE} more" if len(others) > _ALIKE else ""
        yield f"equivalent: {named}{more}"


def _tried(found: Suggestions) -> str:
    """The numbers of annotations that were tried and that lower the cost."""
    paid = sum(1 + len(each.alike) for each in found.found)
    pays = f"{paid or 'none'} of them help{'s' if paid == 1 else ''}"
    tried = f"{found.tried} annotation{'s' if found.tried != 1 else ''} tried, {pays}"
    rest = found.promising - found.tried
    return f"{tried}; {rest} more were skipped by the limits on tries and time" if rest > 0 else tried


def module_text(module: ir.Module, file: str) -> str:
    """The text of a program, with the locations of operations if they refer to another file."""
    places = (source_location(op.location) for _, op in given_operations(module))
    is_traced = any(place is not None and place.file not in (file, "-", "<stdin>") for place in places)
    return f"{module.operation.get_asm(enable_debug_info=is_traced)}".rstrip("\n") + "\n"
