"""An annotation as a change of the Python source: a constraint around the expression of the value.

Operations have the locations of their expressions. The value of an expression is the result of its operations that the
rest of the program uses. If there are several such values, or the expression was evaluated more than once, a constraint
in the source would differ from the one that was tried, so there is no patch.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.notation import print_axis_name, unquote
from gspmd.dialect.sharding import TensorSharding
from gspmd.dialect.source_text import lines_of
from gspmd.explanations.value_names import given_operations
from gspmd.suggestions.annotating import ValueAnnotation
from gspmd.transforms.ingest.survey import callee_of
from gspmd.transforms.ir.program import CALLS, SPLITTABLE

_FRAME = re.compile(r'("(?:[^"\\]|\\.)*"):(\d+):(\d+) to (\d*):(\d+)')
_LIBRARIES = ("site-packages", "dist-packages")
_HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
GRADIENT = "transpose("  # JAX's name of the backward pass


@dataclasses.dataclass(frozen=True, slots=True)
class SourcePatch:
    """Lines of a file, from number `line` on, and their replacement."""

    file: str
    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return {"file": self.file, "line": self.line, "old": list(self.old), "new": list(self.new)}


@dataclasses.dataclass(frozen=True, slots=True)
class _Expression:
    """The range of an expression: lines count from 1, columns, in bytes, from 0."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class _ConstrainedExpression(NamedTuple):
    """An expression, and the equal annotations of its values."""

    place: _Expression
    annotations: tuple[ValueAnnotation, ...]


@dataclasses.dataclass(slots=True)
class _ExpressionUse:
    """The operations of an expression in a function, its callers, and its values that are used elsewhere."""

    operations: list[str] = dataclasses.field(default_factory=list)
    chains: set[tuple[str, ...]] = dataclasses.field(default_factory=set)
    used: set[tuple[int, int]] = dataclasses.field(default_factory=set)

    @property
    def is_once(self) -> bool:
        """Whether it appears to be evaluated once: it has one caller, and no operation is repeated."""
        return len(self.chains) == 1 and not _is_periodic(self.operations)


class SourceLines:
    """The expressions of the operations of a given program."""

    def __init__(self, module: ir.Module) -> None:
        self._places: list[tuple[str, _Expression | None]] = []
        self._calls: Counter[str] = Counter()
        self._evaluated: dict[tuple[str, _Expression], _ExpressionUse] = defaultdict(_ExpressionUse)
        operations = list(given_operations(module))
        numbers = {op: number for number, (_, op) in enumerate(operations)}
        for function, op in operations:
            text = str(op.location)
            expression, chain = (None, ()) if GRADIENT in text else _expression(text)
            self._places.append((function, expression))
            if op.name in CALLS:
                self._calls[callee_of(op) or ""] += 1
            if expression is not None:
                evaluated = self._evaluated[function, expression]
                evaluated.chains.add(chain)
                if op.name not in SPLITTABLE:  # JAX shares one of these among several uses
                    evaluated.operations.append(op.name)
        for number, (_, op) in enumerate(operations):
            function, expression = self._places[number]
            if expression is not None:
                for index, result in enumerate(op.results):
                    if any(self._is_elsewhere(numbers.get(use.owner), expression) for use in result.uses):
                        self._evaluated[function, expression].used.add((number, index))

    def _is_elsewhere(self, user: int | None, expression: _Expression) -> bool:
        """Whether a use is outside of the expression: by another expression, or by a terminator."""
        if user is None:
            return True
        _, other = self._places[user]
        return other is not None and other != expression

    def patch(self, annotation: ValueAnnotation) -> SourcePatch | None:
        """The source with a constraint around the value's expression; None if the expression cannot be identified."""
        return self.patches([annotation]).get(annotation)

    def patches(self, annotations: Iterable[ValueAnnotation]) -> dict[ValueAnnotation, SourcePatch]:
        """The same for several annotations; expressions that share lines have one patch with all constraints.

        Annotations whose expression cannot be identified, or has two different constraints, are left out.
        """
        wanted: dict[_Expression, list[ValueAnnotation]] = {}
        for each in annotations:
            if (place := self._expression_of(each)) is not None:
                wanted.setdefault(place, []).append(each)
        wrapped = [
            _ConstrainedExpression(place, tuple(all_))
            for place, all_ in wanted.items()
            if len(set(map(_spec, all_))) == 1
        ]
        changes = ((group, _patched(group)) for group in _by_lines(wrapped))
        return {each: patch for group, patch in changes for wrapping in group for each in wrapping.annotations}

    def _expression_of(self, annotation: ValueAnnotation) -> _Expression | None:
        """The expression of the value, if it has only this value and was evaluated once."""
        value = annotation.value
        if value.operation is None:
            return None
        function, expression = self._places[value.operation]
        if expression is None or self._calls[function] > 1:
            return None
        evaluated = self._evaluated[function, expression]
        if evaluated.used != {(value.operation, value.result)} or not evaluated.is_once:
            return None
        source = _Source.of(expression.file)
        return expression if source is not None and source.has(expression) else None


def _is_periodic(items: Sequence[object]) -> bool:
    """Whether the items repeat a shorter sequence."""
    count = len(items)
    return any(
        count % period == 0 and all(items[i] == items[i - period] for i in range(period, count))
        for period in range(1, count // 2 + 1)
    )


def spec_text(sharding: TensorSharding, name: str = "jax.P") -> str:
    """The spec in JAX's notation: `jax.P("x", None, ("y", "z"))`."""
    return f"{name}({', '.join(_entries(sharding))})"


def _entries(sharding: TensorSharding) -> list[str]:
    def entry(axes: Axes) -> str:
        names = [json.dumps(print_axis_name(axis, sharding.mesh), ensure_ascii=False) for axis in axes]
        return "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"

    return [entry(axes) for axes in sharding.dim_axes()]


def jax_can_say(sharding: TensorSharding, shape: tuple[int, ...]) -> bool:
    """Whether JAX can express it: whole axes, and even shards."""
    return sharding.divides(shape) and all(map(sharding.mesh.is_full, sharding.used_axes()))


def _expression(location: str) -> tuple[_Expression | None, tuple[str, ...]]:
    """The innermost frame outside of libraries, with the end of the expression, and its callers."""
    frames = _FRAME.findall(location)
    for number, (quoted, line, column, end_line, end_column) in enumerate(frames):
        file = unquote(quoted)
        parts = os.path.normpath(file).split(os.sep)
        if not any(folder in parts for folder in _LIBRARIES) and not os.path.realpath(file).startswith(_HERE + os.sep):
            place = _Expression(file, int(line), int(column), int(end_line or line), int(end_column))
            return place, tuple(map(str, frames[number + 1 :]))
    return None, ()


def _by_lines(wrapped: Iterable[_ConstrainedExpression]) -> list[list[_ConstrainedExpression]]:
    """The expressions grouped by shared lines, in source order."""
    groups: list[list[_ConstrainedExpression]] = []
    end = 0
    for each in sorted(wrapped, key=lambda each: (each.place.file, each.place.line)):
        if groups and groups[-1][0].place.file == each.place.file and each.place.line <= end:
            groups[-1].append(each)
            end = max(end, each.place.end_line)
        else:
            groups.append([each])
            end = each.place.end_line
    return groups


def _patched(group: Sequence[_ConstrainedExpression]) -> SourcePatch:
    """The lines of a group of expressions, and the lines with a constraint around each expression."""
    first = group[0].place
    source = _Source.of(first.file)
    assert source is not None, "the expressions stand in it"
    old = source.lines[first.line - 1 : max(each.place.end_line for each in group)]
    new = [line.encode() for line in old]
    for line, column, text in reversed(_insertions(group, source)):
        at = line - first.line
        new[at] = new[at][:column] + text.encode() + new[at][column:]
    return SourcePatch(first.file, first.line, tuple(old), tuple(line.decode() for line in new))


def _insertions(group: Sequence[_ConstrainedExpression], source: _Source) -> list[tuple[int, int, str]]:
    """The insertions before and after the expressions, by line and column; nested if positions coincide."""
    found = []
    for place, alike in group:
        start, end = (place.line, place.column), (place.end_line, place.end_column)
        before, after = _around(alike[0], source)
        found += [(end, 0, (-start[0], -start[1]), after), (start, 1, (-end[0], -end[1]), before)]
    return [(*at, text) for at, _, _, text in sorted(found)]


def _spec(annotation: ValueAnnotation) -> tuple[object, ...]:
    """The arguments of a constraint."""
    return annotation.sharding, annotation.value.shape


def _around(annotation: ValueAnnotation, source: _Source) -> tuple[str, str]:
    """The insertions before and after an expression that constrain its value."""
    sharding = annotation.sharding
    if jax_can_say(sharding, annotation.value.shape):
        return "jax.lax.with_sharding_constraint(", f", {spec_text(sharding, source.spec_name)})"
    return "gspmd.annotate(", f", {', '.join(_entries(sharding))})"


@dataclasses.dataclass(frozen=True)
class _Source:
    """A Python file: its lines and its syntax tree."""

    lines: list[str]
    tree: ast.Module

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def of(file: str) -> _Source | None:
        """The file; None if it is missing or not Python."""
        lines = lines_of(file) if file.endswith(".py") and os.path.isfile(file) else []
        try:
            return _Source(lines, ast.parse("\n".join(lines))) if lines else None
        except (SyntaxError, ValueError, RecursionError):
            return None

    def has(self, place: _Expression) -> bool:
        """Whether an expression has exactly this range; if not, the file has changed since it was traced."""
        return any(
            (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            == (place.line, place.column, place.end_line, place.end_column)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.expr)
        )

    @functools.cached_property
    def spec_name(self) -> str:
        """The name of `PartitionSpec` in the file."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("jax", "jax.sharding"):
                for alias in node.names:
                    if alias.name in ("P", "PartitionSpec"):
                        return alias.asname or alias.name
        return "jax.P"
