"""Comparisons as lines of text of at most 80 columns, where words are not longer."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from gspmd.comparisons.figures import COMPARED, Figures, SentAlong
from gspmd.comparisons.opinions import NOT_ASKED, NOT_RUN, LineDifference, Opinion, SecondOpinion
from gspmd.comparisons.versions import Changed, VersionComparison
from gspmd.tables import bad, good, table, text_width
from gspmd.text_report import bytes_text, mesh_text, time_text

_COLUMNS = 80  # where no terminal says how wide it is
_NONE = "-"
_CAUSES = 4  # of ours for one line


def opinion_lines(found: SecondOpinion, most: int = 10) -> list[str]:
    """What the partitioners made of the program, side by side, and the `most` lines that are farthest apart."""
    opinions = found.opinions
    rows = [("", *(opinion.partitioner for opinion in opinions))]
    rows.append(("results", *map(_verdict, opinions)))
    if any(opinion.unproved != NOT_ASKED for opinion in opinions):
        rows.append(("for all inputs", *map(_proof, opinions)))
    rows += _won(_figure_rows([opinion.figures for opinion in opinions]), [opinion.figures for opinion in opinions])
    lines = [f"{mesh_text(found.mesh)}, target {found.target or 'neutral'}", "", *_table(rows, range(1, len(rows[0])))]
    for opinion in opinions:
        lines += _remarks(opinion)
    if found.differences:
        lines += ["", "where they differ, as sent by a device:"]
        for difference in found.differences[:most]:
            lines += _difference_lines(difference)
        if len(found.differences) > most:
            lines.append(f"  ... and {len(found.differences) - most} more lines")
    elif sum(opinion.figures is not None for opinion in opinions) > 1:
        lines += ["", "all send the same for every line"]
    return lines


def version_lines(found: VersionComparison, most: int = 10) -> list[str]:
    """Two versions of a program side by side: figures, lines and shardings that changed."""
    sides = (found.old, found.new)
    changes = {label: _change_text(of(found.old), of(found.new)) for label, of in COMPARED.values()}
    rows = [("", "old", "new", "change"), *((*row, changes.get(row[0], "")) for row in _figure_rows(sides))]
    heads = [f"{side} on {mesh_text(mesh)}" for side, mesh in zip(("old", "new"), found.meshes, strict=True)]
    lines = [*(heads if heads[0][4:] != heads[1][4:] else [heads[0].removeprefix("old on ")])]
    lines[-1] += f", target {found.target or 'neutral'}"
    lines += ["", *_table(rows, range(1, 4))]
    lines += _changed_lines(found.lines, most)
    for what, changed in (("arguments", found.arguments), ("results", found.results)):
        if changed:
            sharding_rows = [(each.name, each.old or _NONE, each.new or _NONE) for each in changed[:most]]
            lines += ["", f"{what} that changed:", *_table([("", "old", "new"), *sharding_rows])]
            lines += [f"  ... and {len(changed) - most} more"] if len(changed) > most else []
    return lines


def _changed_lines(changes: Sequence[Changed], most: int) -> list[str]:
    if not changes:
        return ["", "the same is sent for every line"]
    rows = []
    for change in changes[:most]:
        rows += [("-", *_sent_cells(each), _why(each)) for each in change.old]
        rows += [("+", *_sent_cells(each), _why(each)) for each in change.new]
    more = len(changes) - most
    lines = ["", "what is sent for lines that changed:", *_table(rows, (2,))]
    return [*lines, f"  ... and {more} more changes"] if more > 0 else lines


def _sent_cells(each: SentAlong) -> tuple[str, str, str]:
    return _at(each.line), bytes_text(each.bytes), _what(each)


def _why(each: SentAlong) -> str:
    return each.cause.replace("stablehlo.", "")


def _won(rows: Iterable[tuple[str, ...]], sides: Sequence[Figures | None]) -> Iterator[tuple[str, ...]]:
    """The rows, with the least of each figure standing out, unless all are alike."""
    figures = {label: [of(side) if side is not None else None for side in sides] for label, of in COMPARED.values()}
    for label, *cells in rows:
        values = figures.get(label, [])
        known = [value for value in values if value is not None]
        least = min(known) if known and min(known) < max(known) else None
        won = [least is not None and value == least for value in values] or [False] * len(cells)
        yield (label, *(good(cell) if is_best else cell for cell, is_best in zip(cells, won, strict=True)))


def _figure_rows(sides: Sequence[Figures | None]) -> list[tuple[str, ...]]:
    """The rows that comparisons share, a cell for each side."""

    def row(label: str, of: Callable[[Figures], str]) -> tuple[str, ...]:
        return label, *(of(figures) if figures is not None else _NONE for figures in sides)

    rows = [row("bytes sent", lambda f: bytes_text(f.sent_bytes))]
    kinds = dict.fromkeys(sorted(key for figures in sides if figures is not None for key in figures.by_axes))
    for kind, axes in kinds:
        rows.append(row(f"  {kind} {axes}", lambda f, key=(kind, axes): _by_axes(f, key)))  # type: ignore[misc]
    rows.append(row("collectives", lambda f: str(f.collectives)))
    rows.append(row("bytes held", lambda f: bytes_text(f.held_bytes)))
    rows.append(row("step, all overlaps", lambda f: time_text(f.lower_bound_s)))
    rows.append(row("step, nothing overlaps", lambda f: time_text(f.upper_bound_s)))
    if any(figures is not None and figures.ready_s is not None for figures in sides):
        rows.append(row("compile time", lambda f: time_text(f.ready_s or 0.0)))
    return rows


def _by_axes(figures: Figures, key: tuple[str, str]) -> str:
    size, number = figures.by_axes.get(key, (0, 0))
    return f"{bytes_text(size)} in {number}" if number else _NONE


def _verdict(opinion: Opinion) -> str:
    if opinion.figures is None:
        return opinion.failure.partition(" ")[0].rstrip(":") or _NONE
    if opinion.results is None:
        return "not run"
    return "agree" if opinion.results.passed else bad("DIFFER")


def _proof(opinion: Opinion) -> str:
    """What is known of all inputs."""
    if opinion.figures is None:
        return _NONE
    return opinion.verification.verdict.value if opinion.verification is not None else "not judged"


def _remarks(opinion: Opinion) -> list[str]:
    """Why there is nothing to see of a partitioner, or what is wrong with its results."""
    unchecked = opinion.unchecked if opinion.unchecked != NOT_RUN else ""
    said = opinion.failure or (f"is not compared: {unchecked}" if unchecked else "")
    lines = [f"{opinion.partitioner} {said}"] if said else []
    lines += [
        f"{opinion.partitioner}: result {result.name or result.index} differs: {result.reason}"
        for result in (opinion.results.results if opinion.results is not None else ())
        if not result.passed
    ]
    lines += [f"{opinion.partitioner} is not judged: {opinion.unproved}"] if _is_open(opinion) else []
    if opinion.verification is not None:
        lines += [f"{opinion.partitioner}: {line}" for line in opinion.verification.reasons()]
    wrapped = [part for line in lines for part in textwrap.wrap(line, _width(), subsequent_indent="  ")]
    return ["", *wrapped] if wrapped else []


def _is_open(opinion: Opinion) -> bool:
    return opinion.figures is not None and opinion.unproved not in ("", NOT_ASKED)


def _difference_lines(difference: LineDifference) -> list[str]:
    lines = [f"  {_at(difference.line) or 'of unknown lines'}"]
    rows = []
    for name, sent in difference.sent.items():
        total = bytes_text(sum(each.bytes for each in sent))
        rows.append((name, total, "; ".join(_counted(sent)) or "nothing"))
    lines += [f"  {line}" for line in _table(rows, (1,), 2)]
    for cause in difference.causes[:_CAUSES]:
        text = f"gspmd, because {cause.replace('stablehlo.', '')}"
        lines += textwrap.wrap(text, _width(), initial_indent=" " * 4, subsequent_indent=" " * 6)
    more = len(difference.causes) - _CAUSES
    return [*lines, f"    ... and {more} more causes"] if more > 0 else lines


def _counted(sent: Iterable[SentAlong]) -> list[str]:
    """`2 all_reduce over x`, whatever they are there for."""
    numbers: dict[str, int] = {}
    for each in sent:
        numbers[_what(each)] = numbers.get(_what(each), 0) + each.number
    return [f"{number} {what}" if number > 1 else what for what, number in numbers.items()]


def _what(each: SentAlong) -> str:
    return f"{each.kind} over {each.axes}" if each.axes else each.kind


def _change_text(old: float, new: float) -> str:
    """`+5.0%`."""
    if old == new:
        return "same"
    return f"{new / old - 1:+.1%}" if old else "new"


def _table(rows: Sequence[Sequence[str]], right: Iterable[int] = (), indent: int = 0) -> list[str]:
    return table(rows, right=right, most=_width() - indent)


def _width() -> int:
    return text_width() or _COLUMNS


def _at(line: str) -> str:
    """`main.py:80` of a path and a line."""
    return os.path.basename(line)
