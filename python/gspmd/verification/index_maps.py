"""Integers as functions of where one stands: on which device, and at which index of a value.

A device is known by its digits: the partition id in a mixed radix, most significant digit first. A label names a digit
of the device or a dimension of a value. A table has one axis for each label that the integer depends on, and no others.
So what is the same on all devices has no axis for them, however many they are.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
ANY = 1 - 2**52
"""The entry of a place where the integer does not matter. As the bits of a float it is a NaN that nothing computes."""

LARGEST_TABLE = 1 << 24  # entries


class Label(NamedTuple):
    """What an integer may depend on, by number: a digit of the device, a dimension, or a place that a term binds."""

    kind: str
    number: int


def digit(number: int) -> Label:
    return Label("digit", number)


def dim(number: int) -> Label:
    return Label("dim", number)


def bound(number: int) -> Label:
    return Label("bound", number)


class TooLarge(Exception):
    """A table would have more entries than are computed with."""


class IndexMap:
    """An integer by labels; or, if there are `columns`, a set of rows of so many integers and how often each counts.

    Shapes: the sizes of the labels, of sets followed by [rows, columns + 1], where the last column counts. Rows are in
    order, and those that count 0 at the end. Equal maps are one object.
    """

    __slots__ = ("_taken", "columns", "has_any", "labels", "number", "table")

    labels: tuple[Label, ...]
    table: Integers
    columns: int | None
    number: int
    has_any: bool
    _taken: list[int] | None

    _known: ClassVar[dict[tuple[Any, ...], IndexMap]] = {}
    _sets: ClassVar[dict[int, IndexMap]] = {}  # by number, those that depend on nothing
    _numbers = itertools.count()

    def __repr__(self) -> str:
        return f"<{','.join(f'{kind[0]}{n}' for kind, n in self.labels)}: {str(self.table.tolist())[:200]}>"

    @property
    def is_constant(self) -> bool:
        return not self.labels

    @property
    def is_set(self) -> bool:
        return self.columns is not None

    @property
    def value(self) -> int:
        """The integer, where it depends on nothing."""
        return int(self.table)

    def sizes(self) -> dict[Label, int]:
        return dict(zip(self.labels, self.table.shape, strict=False))

    @property
    def taken(self) -> list[int]:
        """The integers that there are, in order."""
        if self._taken is None:
            self._taken = [int(n) for n in np.unique(self.table) if n != ANY]
        return self._taken

    def depends_on(self, label: Label) -> bool:
        return label in self.labels

    def spread(self, labels: Sequence[Label]) -> Integers:
        """The table with an axis for each of these labels, which are in order and include its own."""
        tail = self.table.shape[len(self.labels) :]
        sizes = self.sizes()
        shape = tuple(sizes.get(label, 1) for label in labels)
        return self.table.reshape((*shape, *tail))


def integer_map(labels: Sequence[Label], table: npt.ArrayLike) -> IndexMap:
    """The map of a table with an axis for each label."""
    array = np.asarray(table, np.int64)
    names = tuple(labels)
    if list(names) != sorted(names):
        order = sorted(range(len(names)), key=names.__getitem__)
        names, array = tuple(names[i] for i in order), array.transpose(order)
    for axis in reversed(range(len(names))):
        most = array.max(axis=axis, keepdims=True) if array.shape[axis] else np.full((1,) * array.ndim, ANY)
        if array.shape[axis] <= 1 or bool(((array == most) | (array == ANY)).all()):
            array = (
                most.reshape(array.shape[:axis] + array.shape[axis + 1 :])
                if array.shape[axis]
                else np.full(array.shape[:axis] + array.shape[axis + 1 :], ANY)
            )
            names = names[:axis] + names[axis + 1 :]
    return _interned(names, array, None)


def set_map(labels: Sequence[Label], table: Integers) -> IndexMap:
    """The map of a table of rows, [sizes of labels..., rows, columns + 1], in any order and with repetitions."""
    names, columns = tuple(labels), table.shape[-1] - 1
    if list(names) != sorted(names):
        order = sorted(range(len(names)), key=names.__getitem__)
        names, table = tuple(names[i] for i in order), table.transpose([*order, len(names), len(names) + 1])
    outer = table.shape[:-2]
    rows = _in_order(np.array(flattened(table)))
    table = rows.reshape((*outer, *rows.shape[-2:]))
    for axis in reversed(range(len(names))):
        first = table.take([0], axis=axis)
        if bool((table == first).all()):
            table, names = first.squeeze(axis), names[:axis] + names[axis + 1 :]
    return _interned(names, table, columns)


_set_numbers: dict[IndexMap, IndexMap] = {}


def set_numbers(each: IndexMap) -> IndexMap:
    """The number of every set, by which it is known: equal sets have the same."""
    found = _set_numbers.get(each)
    if found is None:
        found = _set_numbers[each] = _numbers_of(each)
    return found


def _numbers_of(each: IndexMap) -> IndexMap:
    flat = flattened(each.table)
    _, first, inverse = np.unique(flat.reshape((len(flat), -1)), axis=0, return_index=True, return_inverse=True)
    numbers = np.array([set_map((), flat[i]).number for i in first], np.int64)
    return integer_map(each.labels, numbers[inverse].reshape(each.table.shape[:-2]))


def numbered_sets(labels: Sequence[Label], numbers: Integers) -> IndexMap:
    """The sets that are known by these numbers. Those of ANY are empty."""
    unique, inverse = np.unique(numbers, return_inverse=True)
    sets = [IndexMap._sets.get(int(number)) for number in unique]
    shape = next(each.table.shape for each in sets if each is not None)
    most = max(each.table.shape[-2] for each in sets if each is not None)
    rows = np.full((len(unique), most, shape[-1]), ANY)
    rows[..., -1] = 0
    for place, each in enumerate(sets):
        if each is not None:
            rows[place, : each.table.shape[-2]] = each.table
    return set_map(labels, rows[inverse.reshape(numbers.shape)])


def flattened(table: Integers) -> Integers:
    """The table of sets as a list of them: [sets, rows, columns + 1]."""
    return table.reshape((math.prod(table.shape[:-2]), *table.shape[-2:]))


def _in_order(rows: Integers) -> Integers:
    """Sets of rows, [sets, rows, columns + 1], sorted, each row once, and no longer than the largest of them."""
    counts = rows[..., -1]
    columns = rows.shape[-1] - 1
    rows[..., :-1][counts == 0] = ANY
    keys = [rows[..., column] for column in reversed(range(columns))]
    order = np.lexsort([*keys, counts == 0], axis=-1)
    rows = np.take_along_axis(rows, order[..., None], axis=1)
    if rows.shape[1] > 1:
        same = (rows[:, 1:, :-1] == rows[:, :-1, :-1]).all(axis=-1) & (rows[:, 1:, -1] != 0)
        if same.any():
            rows = _joined_equals(rows, same)
    most = int((rows[..., -1] != 0).sum(axis=1).max(initial=0))
    return rows[:, :most]


def _joined_equals(rows: Integers, same: npt.NDArray[np.bool_]) -> Integers:
    """Of neighbours that are equal only the first, which counts for all of them."""
    begins = np.concatenate([np.ones((len(rows), 1), np.bool_), ~same], axis=1)
    place = np.cumsum(begins, axis=1) - 1
    made = np.zeros_like(rows)
    made[..., :-1] = ANY
    sets = np.broadcast_to(np.arange(len(rows))[:, None], place.shape)
    np.add.at(made, (sets, place, np.full_like(place, rows.shape[-1] - 1)), rows[..., -1])
    made[sets[begins], place[begins], :-1] = rows[begins][:, :-1]
    made[..., :-1][made[..., -1] == 0] = ANY
    return made


def _interned(labels: tuple[Label, ...], table: Integers, columns: int | None) -> IndexMap:
    table = np.array(table, np.int64, order="C")
    if table.size > LARGEST_TABLE:
        raise TooLarge
    key = (labels, table.shape, columns, table.tobytes())
    found = IndexMap._known.get(key)
    if found is None:
        found = object.__new__(IndexMap)
        found.labels, found.table, found.columns = labels, table, columns
        found._taken = None
        found.has_any = columns is None and bool((table == ANY).any())
        found.number = next(IndexMap._numbers)
        IndexMap._known[key] = found
        if columns is not None and not labels:
            IndexMap._sets[found.number] = found
    return found


def constant(value: int) -> IndexMap:
    return integer_map((), value)


def counted(label: Label, size: int, start: int = 0, step: int = 1) -> IndexMap:
    """start, start + step, ... along a label."""
    return integer_map((label,), start + step * np.arange(size, dtype=np.int64))


Places: TypeAlias = Mapping[Label, IndexMap]
"""Where the labels of a map are taken, each as a function of other labels. Labels left out stay."""

_composed: dict[tuple[Any, ...], IndexMap] = {}


def composed(outer: IndexMap, places: Places) -> IndexMap:
    """The integer (or set) at those places. Raises TooLarge."""
    used = [(label, places[label]) for label in outer.labels if label in places]
    if not used:
        return outer
    key = (outer.number, *[(label, place.number) for label, place in used])
    found = _composed.get(key)
    if found is None:
        found = _composed[key] = _compose(outer, dict(used))
    return found


def _compose(outer: IndexMap, places: Places) -> IndexMap:
    own = outer.sizes()
    sizes: dict[Label, int] = {}
    for label in outer.labels:
        sizes.update(places[label].sizes() if label in places else {label: own[label]})
    labels = tuple(sorted(sizes))
    size = int(np.prod([sizes[label] for label in labels], dtype=np.int64))
    if size * int(np.prod(outer.table.shape[len(outer.labels) :], dtype=np.int64)) > LARGEST_TABLE:
        raise TooLarge
    index: list[Integers] = []
    nowhere: Any = False
    for label in outer.labels:
        if label in places:
            entry = places[label].spread(labels)
            lacking = (entry < 0) | (entry >= own[label])
            if lacking.any():
                nowhere = nowhere | lacking
                entry = np.where(lacking, 0, entry)
        else:
            shape = [1] * len(labels)
            shape[labels.index(label)] = own[label]
            entry = np.arange(own[label], dtype=np.int64).reshape(shape)
        index.append(entry)
    if 0 in own.values():
        return integer_map((), ANY) if not outer.is_set else outer
    table = outer.table[tuple(index)]
    if outer.is_set:
        full = tuple(sizes[label] for label in labels)
        return set_map(labels, np.broadcast_to(table, (*full, *table.shape[-2:])))
    if nowhere is not False:
        table = np.where(nowhere, ANY, table)
    full = tuple(sizes[label] for label in labels)
    return integer_map(labels, np.broadcast_to(table, full))


def pointwise(compute: Any, *maps: IndexMap) -> IndexMap:
    """A function of the integers of several maps, which says itself what it makes of ANY. Raises TooLarge."""
    sizes: dict[Label, int] = {}
    for each in maps:
        sizes.update(each.sizes())
    labels = tuple(sorted(sizes))
    full = tuple(sizes[label] for label in labels)
    if int(np.prod(full, dtype=np.int64)) > LARGEST_TABLE:
        raise TooLarge
    table = compute(*[each.spread(labels) for each in maps])
    return integer_map(labels, np.broadcast_to(table, full))


def pointwise_known(compute: Any, *maps: IndexMap) -> IndexMap:
    """A function of the integers of several maps, ANY wherever one of them is. Raises TooLarge."""

    def of(*tables: Integers) -> Integers:
        lacking = functools.reduce(np.logical_or, [table == ANY for table in tables])
        return np.where(lacking, ANY, compute(*tables))

    return pointwise(of, *maps)


def where(mask: IndexMap, yes: IndexMap, no: IndexMap) -> IndexMap:
    """One or the other by a mask of 0 and 1."""
    return (
        yes if yes is no else pointwise(lambda m, a, b: np.where(m == ANY, ANY, np.where(m == 1, a, b)), mask, yes, no)
    )


def masked(given: IndexMap, mask: IndexMap) -> IndexMap:
    """ANY where the mask is 1 nowhere, whatever else it depends on."""
    shared = set(given.labels) & set(mask.labels)
    if given.is_set or not shared:
        return given
    others = tuple(axis for axis, label in enumerate(mask.labels) if label not in shared)
    there = (mask.table == 1).any(axis=others).astype(np.int64)
    somewhere = integer_map([label for label in mask.labels if label in shared], there)
    return pointwise(lambda m, a: np.where(m == 1, a, ANY), somewhere, given)


def joined(given: Sequence[IndexMap]) -> dict[IndexMap, IndexMap]:
    """Of maps that differ only where one of them does not matter one that is all of them, as far as they matter."""
    groups: list[tuple[IndexMap, list[IndexMap]]] = []
    for each in dict.fromkeys(given):
        for place, (known, members) in enumerate(groups):
            partial = each.has_any or known.has_any
            if partial and each.labels == known.labels and not each.is_set and agree(each, known):
                both = pointwise(lambda a, b: np.where(a == ANY, b, a), known, each)
                groups[place] = both, [*members, each]
                break
        else:
            groups.append((each, [each]))
    return {member: known for known, members in groups if len(members) > 1 for member in members}


def agree(left: IndexMap, right: IndexMap) -> bool:
    """Whether two maps are equal wherever both matter."""
    return left is right or disagreement(left, right) is None


def disagreement(left: IndexMap, right: IndexMap) -> dict[Label, int] | None:
    """The first place, by label, where two maps differ that both matter; None if there is none."""
    if left is right:
        return None
    sizes = {**left.sizes(), **right.sizes()}
    labels = tuple(sorted(sizes))
    a, b = left.spread(labels), right.spread(labels)
    if left.is_set or right.is_set:
        if left.columns != right.columns or a.shape[-2] != b.shape[-2]:
            differs = np.ones(tuple(sizes[label] for label in labels), np.bool_)
        else:
            differs = (a != b).any(axis=(-1, -2))
    else:
        differs = (a != b) & (a != ANY) & (b != ANY)
    if not differs.any():
        return None
    place = np.unravel_index(int(np.argmax(differs)), differs.shape)
    return {label: int(at) for label, at in zip(labels, place, strict=True)}


def forget() -> None:
    """Let go of all maps, once nobody compares them any more."""
    IndexMap._known.clear()
    IndexMap._sets.clear()
    _composed.clear()
    _set_numbers.clear()
