"""Unions of sets of rows, and their factors: sets of which they are the product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspmd.verification import index_maps
from gspmd.verification.index_maps import IndexMap, Integers, Label, flattened, joint_labels, set_map


def independent(rows: IndexMap) -> list[tuple[list[int], IndexMap]]:
    """The factors of a set, each with its columns. A set with rows that count more than once is not split."""
    columns, table = rows.columns or 0, rows.table
    if columns < 2 or not table.size or table[..., -1].max() > 1:
        return [(list(range(columns)), rows)]
    flat = flattened(table)
    present = flat[..., -1] != 0
    total = present.sum(axis=1)
    single = [_values(flat[..., column], present) for column in range(columns)]
    if any((count == total).all() for count in single):  # then no varying column is independent of it
        separate = [column for column, count in enumerate(single) if (count <= 1).all()]
        separate = separate[: columns - 1]
    else:
        separate = _independent_columns(flat, single, present, total)
    if not separate:
        return [(list(range(columns)), rows)]
    rest = [c for c in range(columns) if c not in separate]
    groups = [[c] for c in separate] + ([rest] if rest else [])
    found = []
    for group in groups:
        part = set_map(rows.labels, table[..., [*group, columns]])
        flat_part = np.array(part.table)
        flat_part[..., -1] = np.minimum(flat_part[..., -1], 1)
        found.append((group, set_map(part.labels, flat_part)))
    return found


def _independent_columns(flat: Integers, single: Sequence[Integers], present: Any, total: Integers) -> list[int]:
    """The columns whose values occur in all combinations with those of the other columns."""
    found: list[int] = []
    for column, count in enumerate(single):
        rest = [c for c in range(len(single)) if c != column and c not in found]
        if not rest:
            break
        others = _distinct(flat, rest, present)
        combinations = np.prod([single[c] for c in found], axis=0) if found else 1
        if (count * others * combinations == total).all():
            found.append(column)
    return found


def _values(column: Integers, present: Any) -> Integers:
    """The number of different integers in each row of a table, among those that are `present`, which come first."""
    ordered = np.sort(np.where(present, column, column[:, :1]), axis=1)
    changes = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return np.where(present[:, 0], changes + 1, 0)


def _distinct(flat: Integers, columns: Sequence[int], present: Any) -> Integers:
    """The number of different rows of these columns in each set."""
    table = np.concatenate([flat[..., list(columns)], present[..., None].astype(np.int64)], axis=-1)
    made = set_map([Label("bound", 0)], table) if len(flat) > 1 else set_map([], table[0])
    counts: Integers = (made.table[..., -1] != 0).sum(axis=-1)
    return np.broadcast_to(counts, (len(flat),))


def united(each: IndexMap, label: Label, size: int, present: IndexMap | None) -> IndexMap:
    """The union of sets along a label."""
    there = present or index_maps.constant(1)
    labels, full = joint_labels([each, there], (label, size))
    table = np.array(_rows(each, labels, full))
    table[..., -1] *= (there.spread(labels) == 1)[..., None]
    return rows_along(labels, label, table)


def rows_along(labels: Sequence[Label], label: Label, table: Integers) -> IndexMap:
    """Sets of all rows along a label. The table has axes for labels, then for rows, then for columns."""
    table = np.moveaxis(table, labels.index(label), len(labels) - 1)
    rest = tuple(x for x in labels if x != label)
    outer, rows = table.shape[: len(rest)], table.shape[len(rest) : -1]
    return set_map(rest, table.reshape((*outer, math.prod(rows), table.shape[-1])))


def removed(rows: IndexMap, row: Sequence[IndexMap]) -> IndexMap | None:
    """The sets without a row; None if one of them does not have it."""
    labels, full = joint_labels([rows, *row])
    table = np.array(_rows(rows, labels, full))
    same = [table[..., column] == each.spread(labels)[..., None] for column, each in enumerate(row)]
    here = np.logical_and.reduce([table[..., -1] > 0, *same])
    table[..., -1] -= here
    return set_map(labels, table) if (here.sum(axis=-1) == 1).all() else None


def union(first: IndexMap, second: IndexMap) -> IndexMap:
    """The union of two sets."""
    labels, full = joint_labels([first, second])
    return set_map(labels, np.concatenate([_rows(each, labels, full) for each in (first, second)], axis=-2))


def _rows(sets: IndexMap, labels: Sequence[Label], sizes: Sequence[int]) -> Integers:
    """The rows of sets, at every place of these labels of these sizes."""
    found: Integers = np.broadcast_to(sets.spread(labels), (*sizes, *sets.table.shape[-2:]))
    return found
