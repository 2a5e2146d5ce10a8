"""Integers as functions of the device and of the index in a value.

A device is identified by its digits: the partition id in a mixed radix, most significant digit first. A label names a
digit of the device or a dimension of a value. A table has an axis for each label on which the integer depends. So an
integer that is the same on all devices has no axis for them, however many they are.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gspmd.verification.blocks import ANY, Blocks, Split, larger_blocks

Integers: TypeAlias = npt.NDArray[np.int64]
LARGEST_TABLE = 1 << 24  # entries


class Label(NamedTuple):
    """A variable, by kind and number: a digit of the device, a dimension, or an index that a term binds."""

    kind: str
    number: int


def digit(number: int) -> Label:
    return Label("digit", number)


def dim(number: int) -> Label:
    return Label("dim", number)


def bound(number: int) -> Label:
    return Label("bound", number)


class TooLarge(Exception):
    """A table would have more than `LARGEST_TABLE` entries."""


class IndexMap:
    """An integer as a function of labels; or, with `columns`, a set of rows of so many integers, each with a count.

    Integers are stored in the largest possible blocks (`blocks.py`). Each label has an extent, the size of a block, and
    the step within it. So evenly growing integers take one entry, however many there are. The shape of `core` is the
    numbers of blocks; for sets, it is followed by [rows, columns + 1], where the last column has the counts. Rows are
    sorted, with those that count 0 at the end. Equal maps are one object.
    """

    __slots__ = ("_taken", "blocks", "columns", "core", "extents", "has_any", "labels", "number", "steps")

    labels: tuple[Label, ...]
    extents: tuple[int, ...]
    blocks: tuple[int, ...]
    steps: tuple[int, ...]
    core: Integers
    columns: int | None
    number: int
    has_any: bool
    _taken: list[int] | None

    _known: ClassVar[dict[tuple[Any, ...], IndexMap]] = {}
    _sets: ClassVar[dict[int, IndexMap]] = {}  # by number, those without labels
    _numbers = itertools.count()

    def __repr__(self) -> str:
        axes = ",".join(f"{kind[0]}{n}" for kind, n in self.labels)
        return f"<{axes}: {str(self.core.tolist())[:200]} blocks {self.blocks} steps {self.steps}>"

    @property
    def is_constant(self) -> bool:
        return not self.labels

    @property
    def is_set(self) -> bool:
        return self.columns is not None

    @property
    def value(self) -> int:
        """The integer of a map without labels."""
        return int(self.core)

    @property
    def table(self) -> Integers:
        """All integers, with an axis for each label; for sets, their rows. Raises TooLarge."""
        if self.is_set:
            return self.core
        _check_size(self.extents)
        return self.blocked(self.labels, (1,) * len(self.labels)).core

    def sizes(self) -> dict[Label, int]:
        return dict(zip(self.labels, self.extents, strict=True))

    @property
    def taken(self) -> list[int]:
        """The integers that occur, in order."""
        if self._taken is None:
            self._taken = [int(n) for n in np.unique(self.evened().core) if n != ANY]
        return self._taken

    def bounds(self) -> tuple[int, int] | None:
        """The least and the largest integer; None if all are ANY."""
        known = self.core != ANY
        if not known.any():
            return None
        low, high = self.blocked(self.labels, self.blocks).bounds()
        return int(low[known].min()), int(high[known].max())

    def at(self, place: Mapping[Label, int]) -> Integers:
        """The integer, or the rows, at a place."""
        index = tuple(place[label] // size for label, size in zip(self.labels, self.blocks, strict=True))
        found: Integers = self.core[index]
        if self.is_set or found == ANY:
            return found
        within = zip(self.labels, self.blocks, self.steps, strict=True)
        return found + sum(place[label] % size * step for label, size, step in within)

    def depends_on(self, label: Label) -> bool:
        return label in self.labels

    def spread(self, labels: Sequence[Label]) -> Integers:
        """The table with an axis for each of these labels, which are sorted and include its own."""
        table, sizes = self.table, self.sizes()
        shape = tuple(sizes.get(label, 1) for label in labels)
        return table.reshape((*shape, *table.shape[len(self.labels) :]))

    def evened(self) -> Blocks:
        """The map in blocks of equal integers."""
        sizes = tuple(1 if step else size for size, step in zip(self.blocks, self.steps, strict=True))
        return self.blocked(self.labels, sizes)

    def blocked(self, labels: Sequence[Label], sizes: Sequence[int]) -> Blocks:
        """The map in smaller blocks, with an axis for each of these labels, which are sorted and include its own."""
        core, steps = self.core, []
        for axis, (label, block, step) in enumerate(zip(self.labels, self.blocks, self.steps, strict=True)):
            size = sizes[labels.index(label)]
            if size < block:
                shape = (*core.shape[: axis + 1], block // size, *core.shape[axis + 1 :])
                more = (step * size * np.arange(block // size)).reshape((-1,) + (1,) * (core.ndim - axis - 1))
                wide = np.expand_dims(core, axis + 1)
                core = np.where(wide == ANY, ANY, wide + more) if self.has_any else wide + more
                core = np.broadcast_to(core, shape).reshape((*shape[:axis], -1, *shape[axis + 2 :]))
            steps.append(step if size > 1 else 0)
        counts = dict(zip(self.labels, core.shape, strict=True))
        grown = dict(zip(self.labels, steps, strict=True))
        return Blocks(
            core.reshape([counts.get(label, 1) for label in labels]),
            tuple(grown.get(label, 0) for label in labels),
            tuple(sizes),
        )


def integer_map(labels: Sequence[Label], table: npt.ArrayLike) -> IndexMap:
    """The map of a table with an axis for each label. Raises TooLarge."""
    array = np.asarray(table, np.int64)
    return of_blocks(labels, array.shape, Blocks(array, (0,) * array.ndim, (1,) * array.ndim))


def of_blocks(labels: Sequence[Label], extents: Sequence[int], given: Blocks) -> IndexMap:
    """The map that has these blocks; a single block along a label covers its whole extent. Raises TooLarge."""
    core = np.asarray(given.core, np.int64)
    if core.size > LARGEST_TABLE:
        raise TooLarge
    order = sorted(range(len(labels)), key=labels.__getitem__)
    steps, sizes = [given.steps[axis] for axis in order], [given.sizes[axis] for axis in order]
    return _canonical([labels[a] for a in order], [extents[a] for a in order], core.transpose(order), steps, sizes)


def _canonical(labels: list[Label], extents: list[int], core: Integers, steps: list[int], sizes: list[int]) -> IndexMap:
    """The map without labels on which it does not depend, in the largest possible blocks."""
    if 0 in extents:
        return _interned((), (), (), (), np.asarray(ANY), None)
    for axis in reversed(range(len(labels))):
        if core.shape[axis] == 1 and not steps[axis]:
            core = core.squeeze(axis)
        elif not steps[axis] and _is_same(core, axis):
            core = core.max(axis=axis) if bool((core >= 0).all()) else _known_along(core, axis)
        else:
            if core.shape[axis] > 1:
                number, steps[axis] = larger_blocks(core, axis, sizes[axis], steps[axis])
                sizes[axis] *= number
                core = core.take(range(0, core.shape[axis], number), axis=axis)
            if sizes[axis] == 1 or steps[axis] or core.shape[axis] > 1:
                continue
            core = core.squeeze(axis)
        del labels[axis], extents[axis], steps[axis], sizes[axis]
    if labels and not (core != ANY).any():
        return _interned((), (), (), (), np.asarray(ANY), None)
    return _interned(tuple(labels), tuple(extents), tuple(sizes), tuple(steps), core, None)


def _known_along(core: Integers, axis: int) -> Integers:
    """The known integers along an axis whose entries are all the same or ANY."""
    most, least = core.max(axis=axis), core.min(axis=axis)
    found: Integers = np.where(most == ANY, least, most)
    return found


def _is_same(core: Integers, axis: int) -> bool:
    """Whether all integers along an axis are the same wherever they matter."""
    known = np.expand_dims(_known_along(core, axis), axis)
    return bool(((core == known) | (core == ANY)).all())


def _check_size(sizes: Sequence[int], largest: int = LARGEST_TABLE) -> None:
    if math.prod(sizes) > largest:
        raise TooLarge


def set_map(labels: Sequence[Label], table: Integers) -> IndexMap:
    """The map of a table of rows, [extents of labels..., rows, columns + 1], in any order and with repetitions."""
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
    return _interned(names, table.shape[: len(names)], (1,) * len(names), (0,) * len(names), table, columns)


_set_numbers: dict[IndexMap, IndexMap] = {}


def set_numbers(each: IndexMap) -> IndexMap:
    """The number of every set: equal sets have equal numbers."""
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
    """The sets with these numbers. Those of ANY are empty."""
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
    """The table of sets as a list: [sets, rows, columns + 1]."""
    return table.reshape((math.prod(table.shape[:-2]), *table.shape[-2:]))


def _in_order(rows: Integers) -> Integers:
    """Sets of rows, [sets, rows, columns + 1], sorted, each row once, with no more rows than the largest set has."""
    counts = rows[..., -1]
    columns = rows.shape[-1] - 1
    rows[..., :-1][counts == 0] = ANY
    if columns and _is_in_order(rows[..., 0], counts != 0):
        return rows
    keys = [rows[..., column] for column in reversed(range(columns))]
    order = np.lexsort([*keys, counts == 0], axis=-1)
    rows = np.take_along_axis(rows, order[..., None], axis=1)
    if rows.shape[1] > 1:
        same = (rows[:, 1:, :-1] == rows[:, :-1, :-1]).all(axis=-1) & (rows[:, 1:, -1] != 0)
        if same.any():
            rows = _joined_equals(rows, same)
    most = int((rows[..., -1] != 0).sum(axis=1).max(initial=0))
    return rows[:, :most]


def _is_in_order(first: Integers, present: npt.NDArray[np.bool_]) -> bool:
    """Whether rows are sorted by their first column alone, rows that count come first, and none is surplus."""
    ascending = (first[:, 1:] > first[:, :-1]) | ~present[:, 1:]
    return bool(ascending.all() and (present[:, :-1] >= present[:, 1:]).all() and present[:, -1:].any())


def _joined_equals(rows: Integers, same: npt.NDArray[np.bool_]) -> Integers:
    """Merge equal neighbours into the first one, which counts for all of them."""
    begins = np.concatenate([np.ones((len(rows), 1), np.bool_), ~same], axis=1)
    place = np.cumsum(begins, axis=1) - 1
    made = np.zeros_like(rows)
    made[..., :-1] = ANY
    sets = np.broadcast_to(np.arange(len(rows))[:, None], place.shape)
    np.add.at(made, (sets, place, np.full_like(place, rows.shape[-1] - 1)), rows[..., -1])
    made[sets[begins], place[begins], :-1] = rows[begins][:, :-1]
    made[..., :-1][made[..., -1] == 0] = ANY
    return made


def _interned(
    labels: tuple[Label, ...],
    extents: tuple[int, ...],
    blocks: tuple[int, ...],
    steps: tuple[int, ...],
    core: Integers,
    columns: int | None,
) -> IndexMap:
    core = np.array(core, np.int64, order="C")
    if core.size > LARGEST_TABLE:
        raise TooLarge
    key = (labels, extents, blocks, steps, core.shape, columns, core.tobytes())
    found = IndexMap._known.get(key)
    if found is None:
        found = object.__new__(IndexMap)
        found.labels, found.extents, found.blocks, found.steps = labels, extents, blocks, steps
        found.core, found.columns = core, columns
        found._taken = None
        found.has_any = columns is None and bool((core == ANY).any())
        found.number = next(IndexMap._numbers)
        IndexMap._known[key] = found
        if columns is not None and not labels:
            IndexMap._sets[found.number] = found
    return found


def constant(value: int) -> IndexMap:
    return integer_map((), value)


def counted(label: Label, size: int, start: int = 0, step: int = 1) -> IndexMap:
    """start, start + step, ... along a label."""
    return _canonical([label], [size], np.full(1, start, np.int64), [step if size > 1 else 0], [max(size, 1)])


Places: TypeAlias = Mapping[Label, IndexMap]
"""The places at which a map is read: for each of its labels, a function of other labels. Labels left out stay."""

_composed: dict[tuple[Any, ...], IndexMap] = {}


def composed(outer: IndexMap, places: Places) -> IndexMap:
    """The map, read at those places. Raises TooLarge."""
    used = [(label, places[label]) for label in outer.labels if label in places]
    if not used:
        return outer
    key = (outer.number, *[(label, place.number) for label, place in used])
    found = _composed.get(key)
    if found is None:
        found = _composed[key] = _compose(outer, dict(used))
    return found


def _compose(outer: IndexMap, places: Places) -> IndexMap:
    if 0 in outer.extents:
        return outer if outer.is_set else constant(ANY)
    if outer.is_set:
        return _composed_set(outer, places)
    own = zip(outer.labels, outer.extents, strict=True)
    maps = [places[label] if label in places else counted(label, size) for label, size in own]

    def at(*indices: Any) -> Any:
        inside: Any = True
        numbers, within = [], []
        for index, size, block, step in zip(indices, outer.extents, outer.blocks, outer.steps, strict=True):
            inside = inside & (index >= 0) & (index < size)
            numbers.append(index // block if block < size else index * 0)
            within.append(index % block * step if 1 < block < size else index * step)
        chosen = np.where(inside, _entries(outer.core, numbers), ANY)
        return np.where(chosen == ANY, ANY, functools.reduce(operator.add, within, chosen))

    return pointwise(at, *maps)


def _entries(core: Integers, numbers: Sequence[Blocks]) -> Blocks:
    """The entries of a table at these numbers; numbers out of range count as 0."""
    index = []
    for number, size in zip(numbers, core.shape, strict=True):
        there: Any = np.where((number < 0) | (number >= size), 0, number)
        index.append(there.even())
    first = numbers[0]
    return Blocks(core[tuple(index)], (0,) * len(first.sizes), first.sizes)


def _composed_set(outer: IndexMap, places: Places) -> IndexMap:
    own = outer.sizes()
    sizes: dict[Label, int] = {}
    for label in outer.labels:
        sizes.update(places[label].sizes() if label in places else {label: own[label]})
    labels = tuple(sorted(sizes))
    full = tuple(sizes[label] for label in labels)
    _check_size((*full, *outer.core.shape[-2:]))
    index: list[Integers] = []
    for label in outer.labels:
        place = places[label] if label in places else counted(label, own[label])
        entry = place.spread(labels)
        index.append(np.where((entry < 0) | (entry >= own[label]), 0, entry))
    table = outer.core[tuple(index)]
    return set_map(labels, np.broadcast_to(table, (*full, *table.shape[-2:])))


def _common_blocks(*maps: IndexMap) -> tuple[tuple[Label, ...], tuple[int, ...], list[int]]:
    """All labels of maps, their extents, and the largest blocks that divide those of each map."""
    sizes: dict[Label, int] = {}
    blocks: dict[Label, int] = {}
    for each in maps:
        for label, size, block in zip(each.labels, each.extents, each.blocks, strict=True):
            assert sizes.setdefault(label, size) == size, "a label has one size"
            blocks[label] = math.gcd(block, blocks.get(label, block))
    labels = tuple(sorted(sizes))
    return labels, tuple(sizes[label] for label in labels), [blocks[label] for label in labels]


def pointwise(compute: Any, *maps: IndexMap, largest: int = LARGEST_TABLE) -> IndexMap:
    """A function of the integers of several maps, which handles ANY itself. Raises TooLarge.

    It is computed block by block (`blocks.py`); blocks in which the result does not grow evenly are split.
    """
    labels, extents, cut = _common_blocks(*maps)
    while True:
        _check_size([size // block for size, block in zip(extents, cut, strict=True)], largest)
        views = [each.blocked(labels, cut) for each in maps]
        try:
            made = compute(*views)
        except Split as split:
            cut[split.axis] = split.size
            continue
        counts = [size // block for size, block in zip(extents, cut, strict=True)]
        even = made if isinstance(made, Blocks) else Blocks(np.asarray(made), (0,) * len(cut), tuple(cut))
        core = np.broadcast_to(np.asarray(even.core, np.int64), counts)
        return of_blocks(labels, extents, Blocks(core, even.steps, tuple(cut)))


def pointwise_known(compute: Any, *maps: IndexMap) -> IndexMap:
    """A function of the integers of several maps, ANY wherever an operand is. Raises TooLarge."""

    def of(*tables: Blocks) -> Any:
        lacking = functools.reduce(np.logical_or, [table == ANY for table in tables])
        return np.where(lacking, ANY, compute(*tables))

    return pointwise(of, *maps)


def takes(which: IndexMap, number: int) -> IndexMap:
    """A mask of where a map has this number."""
    return pointwise(lambda w: np.where(w == ANY, ANY, w == number), which)


def where(mask: IndexMap, yes: IndexMap, no: IndexMap) -> IndexMap:
    """One or the other by a mask of 0 and 1."""
    if yes is no:
        return yes
    numbers = [set_numbers(each) if each.is_set else each for each in (yes, no)]
    made = pointwise(lambda m, a, b: np.where(m == ANY, ANY, np.where(m == 1, a, b)), mask, *numbers)
    return filled(numbered_sets(made.labels, made.table), pointwise(lambda m: m != ANY, mask)) if yes.is_set else made


def filled(sets: IndexMap, mask: IndexMap) -> IndexMap:
    """Sets that do not matter where a mask is not 1: there, they are the first set along a label that does matter."""
    labels = tuple(sorted({*sets.labels, *mask.labels}))
    numbers, matters = np.broadcast_arrays(set_numbers(sets).spread(labels), mask.spread(labels) == 1)
    if matters.all() or not matters.any():
        return sets
    for axis in range(len(labels)):
        first = np.take_along_axis(numbers, matters.argmax(axis=axis, keepdims=True), axis)
        somewhere = matters.any(axis=axis, keepdims=True)
        numbers = np.where(matters | ~somewhere, numbers, first)
        matters = np.broadcast_to(somewhere | matters, numbers.shape)
    return numbered_sets(labels, numbers)


def nonempty(sets: IndexMap) -> IndexMap:
    """A mask of the sets that have a row."""
    return integer_map(sets.labels, (sets.table[..., -1] != 0).any(axis=-1))


def masked(given: IndexMap, mask: IndexMap) -> IndexMap:
    """The map, with ANY where the mask is 1 for no value of its other labels; sets are filled there."""
    shared = set(given.labels) & set(mask.labels)
    if not shared:
        return given
    somewhere = any_along(mask, [label for label in mask.labels if label not in shared])
    if given.is_set:
        return filled(given, somewhere)
    return pointwise(lambda m, a: np.where(m == 1, a, ANY), somewhere, given)


def any_along(mask: IndexMap, labels: Sequence[Label]) -> IndexMap:
    """Whether a mask is 1 anywhere along these labels."""
    return _along(mask, labels, np.any)


def all_along(mask: IndexMap, labels: Sequence[Label]) -> IndexMap:
    """Whether a mask is 1 all along these labels."""
    return _along(mask, labels, np.all)


def _along(mask: IndexMap, labels: Sequence[Label], how: Any) -> IndexMap:
    even = mask.evened()
    axes = tuple(axis for axis, label in enumerate(mask.labels) if label in labels)
    core = how(even.core == 1, axis=axes, keepdims=True).astype(np.int64)
    sizes = tuple(n if axis in axes else b for axis, (n, b) in enumerate(zip(mask.extents, even.sizes, strict=True)))
    return of_blocks(mask.labels, mask.extents, Blocks(core, even.steps, sizes))


def factors(mask: IndexMap) -> list[IndexMap]:
    """Masks of as few dimensions as possible whose conjunction is the mask, in the order of dimensions."""
    found = _factors.get(mask)
    if found is None:
        found = _factors[mask] = _factored(mask)
    return found


_factors: dict[IndexMap, list[IndexMap]] = {}


def _factored(mask: IndexMap) -> list[IndexMap]:
    over = [label for label in mask.labels if label.kind == "dim"]
    if len(over) > 1:
        part, rest = any_along(mask, over[1:]), any_along(mask, over[:1])
        both = pointwise(lambda a, b: (a == 1) & (b == 1), part, rest)
        if both is pointwise(lambda m: m == 1, mask) and not (part.is_constant and part.value == 1):
            return [part, *factors(rest)]
    return [mask]


def in_turn(low: IndexMap, high: IndexMap, along: Label) -> bool:
    """Whether ranges follow one another along a label, without a common integer, wherever they matter."""
    labels = tuple(sorted({*low.labels, *high.labels, along}))
    first, last = (
        np.moveaxis(each, labels.index(along), -1)
        for each in np.broadcast_arrays(low.spread(labels), high.spread(labels))
    )
    before = np.maximum.accumulate(np.where(first == ANY, ANY, last), axis=-1)[..., :-1]
    later = first[..., 1:]
    return bool(((later == ANY) | (before == ANY) | (later > before)).all())


def joined(given: Sequence[IndexMap]) -> dict[IndexMap, IndexMap]:
    """Merge maps that differ only where one of them is ANY: the merged map of each that has one."""
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
    """Whether two maps are equal wherever neither is ANY."""
    return left is right or disagreement(left, right) is None


def disagreement(left: IndexMap, right: IndexMap) -> dict[Label, int] | None:
    """The first place, by label, where two maps differ and neither is ANY; None if there is none."""
    if left is right:
        return None
    if left.is_set or right.is_set:
        return _first(_differing_sets(left, right))
    differs = _where_steps_differ(left, right)
    if differs is None:
        differs = _first(pointwise(lambda a, b: (a != b) & (a != ANY) & (b != ANY), left, right))
    return differs


def _where_steps_differ(left: IndexMap, right: IndexMap) -> dict[Label, int] | None:
    """A place where two maps differ because their steps within a block differ."""
    labels, _, cut = _common_blocks(left, right)
    a, b = (each.blocked(labels, cut) for each in (left, right))
    known = (a.core != ANY) & (b.core != ANY)
    for label, first, second, size in zip(labels, a.steps, b.steps, cut, strict=True):
        if size > 1 and first != second and known.any():
            block = np.unravel_index(int(np.argmax(known)), known.shape)
            place = {each: int(at) * n for each, at, n in zip(labels, block, cut, strict=True)}
            return place if left.at(place) != right.at(place) else place | {label: place[label] + 1}
    return None


def joint_labels(maps: Sequence[IndexMap], *more: tuple[Label, int]) -> tuple[tuple[Label, ...], tuple[int, ...]]:
    """The labels of several maps and some `more`, ascending, and their sizes."""
    sizes = dict(more)
    for each in maps:
        sizes.update(each.sizes())
    labels = tuple(sorted(sizes))
    return labels, tuple([sizes[label] for label in labels])


def _differing_sets(left: IndexMap, right: IndexMap) -> IndexMap:
    labels, _ = joint_labels([left, right])
    a, b = left.spread(labels), right.spread(labels)
    if left.columns != right.columns or a.shape[-2] != b.shape[-2]:
        return constant(1)
    return integer_map(labels, (a != b).any(axis=(-1, -2)))


def _first(mask: IndexMap) -> dict[Label, int] | None:
    """The first place where a mask is 1; None if there is none."""
    even = mask.evened()
    if not (even.core == 1).any():
        return None
    place = np.unravel_index(int(np.argmax(even.core == 1)), even.core.shape)
    return {label: int(at) * size for label, at, size in zip(mask.labels, place, even.sizes, strict=True)}


def forget() -> None:
    """Free all maps, once no verification uses them."""
    IndexMap._known.clear()
    IndexMap._sets.clear()
    _composed.clear()
    _factors.clear()
    _set_numbers.clear()
