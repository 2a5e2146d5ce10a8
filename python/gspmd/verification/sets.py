"""Sets of rows: united, and taken apart into sets of which they are the product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspmd.verification import index_maps
from gspmd.verification.index_maps import IndexMap, Integers, Label, flattened, set_map


def independent(rows: IndexMap) -> list[tuple[list[int], IndexMap]]:
    """Sets whose product a set is, each with the columns of it. Rows that count more than once stay together."""
    columns, table = rows.columns or 0, rows.table
    if columns < 2 or not table.size or table[..., -1].max() > 1:
        return [(list(range(columns)), rows)]
    flat = flattened(table)
    present = flat[..., -1] != 0
    total = present.sum(axis=1)
    single = [_values(flat[..., column], present) for column in range(columns)]
    if any((count == total).all() for count in single):  # nothing that varies can be apart from that
        alone = [column for column, count in enumerate(single) if (count <= 1).all()]
        alone = alone[: columns - 1]
    else:
        alone = _alone(flat, single, present, total)
    if not alone:
        return [(list(range(columns)), rows)]
    rest = [c for c in range(columns) if c not in alone]
    groups = [[c] for c in alone] + ([rest] if rest else [])
    found = []
    for group in groups:
        part = set_map(rows.labels, table[..., [*group, columns]])
        flat_part = np.array(part.table)
        flat_part[..., -1] = np.minimum(flat_part[..., -1], 1)
        found.append((group, set_map(part.labels, flat_part)))
    return found


def _alone(flat: Integers, single: Sequence[Integers], present: Any, total: Integers) -> list[int]:
    """Columns each of which takes all of its values with all that the others take."""
    alone: list[int] = []
    for column, count in enumerate(single):
        rest = [c for c in range(len(single)) if c != column and c not in alone]
        if not rest:
            break
        others = _distinct(flat, rest, present)
        of_alone = np.prod([single[c] for c in alone], axis=0) if alone else 1
        if (count * others * of_alone == total).all():
            alone.append(column)
    return alone


def _values(column: Integers, present: Any) -> Integers:
    """How many different integers there are in each row of a table, the first ones of which are present."""
    ordered = np.sort(np.where(present, column, column[:, :1]), axis=1)
    changes = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return np.where(present[:, 0], changes + 1, 0)


def _distinct(flat: Integers, columns: Sequence[int], present: Any) -> Integers:
    """How many different rows of these columns there are in each set."""
    table = np.concatenate([flat[..., list(columns)], present[..., None].astype(np.int64)], axis=-1)
    made = set_map([Label("bound", 0)], table) if len(flat) > 1 else set_map([], table[0])
    counts: Integers = (made.table[..., -1] != 0).sum(axis=-1)
    return np.broadcast_to(counts, (len(flat),))


def united(each: IndexMap, label: Label, size: int, present: IndexMap | None) -> IndexMap:
    """The union of sets along a label."""
    there = present or index_maps.constant(1)
    sizes = {**each.sizes(), **there.sizes(), label: size}
    labels = tuple(sorted(sizes))
    full = tuple(sizes[x] for x in labels)
    rows = each.spread(labels)
    table = np.array(np.broadcast_to(rows, (*full, *rows.shape[-2:])))
    table[..., -1] *= (there.spread(labels) == 1)[..., None]
    return rows_along(labels, label, table)


def rows_along(labels: Sequence[Label], label: Label, table: Integers) -> IndexMap:
    """Sets of all rows along a label, of a table with axes for labels, then for rows, and columns at last."""
    table = np.moveaxis(table, labels.index(label), len(labels) - 1)
    rest = tuple(x for x in labels if x != label)
    outer, rows = table.shape[: len(rest)], table.shape[len(rest) : -1]
    return set_map(rest, table.reshape((*outer, math.prod(rows), table.shape[-1])))


def union(first: IndexMap, second: IndexMap) -> IndexMap:
    """The union of two sets."""
    sizes = {**first.sizes(), **second.sizes()}
    labels = tuple(sorted(sizes))
    full = tuple(sizes[label] for label in labels)
    tables = [np.broadcast_to(t, (*full, *t.shape[-2:])) for t in (first.spread(labels), second.spread(labels))]
    return set_map(labels, np.concatenate(tables, axis=-2))
