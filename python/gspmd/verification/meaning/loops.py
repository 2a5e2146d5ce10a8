"""Loops.

A loop of the given program is a term of its condition, its body and its initial values. A loop of the partitioned
program matches it if there is an invariant: its initial values are parts of the given loop's, and its body computes
such parts from such parts. The invariant is guessed from the initial values, or else from the first iteration.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from gspmd.dialect.axes import Axis, size_of
from gspmd.transforms.ir.collective_groups import is_collective
from gspmd.transforms.ir.operations import Operation
from gspmd.verification.devices import DeviceDigits
from gspmd.verification.equality import difference
from gspmd.verification.index_maps import IndexMap, Label, bound, composed, counted, dim, integer_map, pointwise
from gspmd.verification.meaning.control_flow import check_together, diverges
from gspmd.verification.meaning.meaning import Execution, GivenLoop, Meaning
from gspmd.verification.meaning.opaque import first_free
from gspmd.verification.not_known import NotKnown
from gspmd.verification.terms import INDEX, MASK, SET, Instance
from gspmd.verification.values import SymbolicValue

LOOP = "stablehlo.while"
_CARRIED = "carried"
_MAX_GUESSES = 8  # of an invariant
_MAX_OPERATIONS = 1024  # in all iterations of a loop that is run


def _while(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    if machine.is_partitioned:
        return _matched(machine, op, values)
    run = None if machine.loops.are_kept else _unrolled(machine, op, values)
    return _recorded(machine, op, values) if run is None else run


def _iteration(
    machine: Execution, op: Operation, values: Sequence[SymbolicValue]
) -> tuple[SymbolicValue, list[SymbolicValue]]:
    """The condition and the results of an iteration on these values."""
    condition_region, body = op.regions
    machine.loops.depth += 1
    try:
        (condition,) = machine.block(condition_region, values)
        return condition, machine.block(body, values)
    finally:
        machine.loops.depth -= 1


# ---- of the given program ----


def _recorded(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    loops = machine.loops
    fixed: set[int] = set()
    while True:
        counts = loops.counts()
        leaves = [
            value if k in fixed or value.element.startswith("!") else _leaf(machine, k, value)
            for k, value in enumerate(values)
        ]
        condition, made = _iteration(machine, op, leaves)
        check_together(op, condition)
        same = {k for k, value in enumerate(made) if value.instance == leaves[k].instance}
        if same <= fixed:
            break
        fixed |= same
        loops.forget(counts)
    active = [k for k in range(len(values)) if k not in fixed]
    results = _results(machine, condition, values, made, active)
    loops.at_depth().append(GivenLoop(machine, op, values, leaves, condition, made, results, active))
    return results


def _leaf(machine: Execution, number: int, like: SymbolicValue) -> SymbolicValue:
    """A symbol for a carried value in any iteration."""
    rank = len(like.shape)
    term = machine.algebra.terms.leaf((_CARRIED, machine.loops.depth, number), like.element, rank)
    return machine.algebra.value(term, [counted(dim(d), size) for d, size in enumerate(like.shape)], like.shape)


def _results(
    machine: Execution,
    condition: SymbolicValue,
    values: list[SymbolicValue],
    made: list[SymbolicValue],
    active: list[int],
) -> list[SymbolicValue]:
    algebra = machine.algebra
    parts: list[Instance] = [condition.instance]
    taken = [*(made[k] for k in active), *(values[k] for k in active)]
    labels = first_free(taken)
    for value in taken:
        places: dict[Label, IndexMap] = {}
        for d, size in enumerate(value.shape):
            places[dim(d)] = counted(bound(labels), size)
            labels += 1
        parts.append(algebra.moved(value, value.shape, places).instance)
    results = list(values)
    for place, k in enumerate(active):
        shape = values[k].shape
        own = [(INDEX, counted(dim(d), size)) for d, size in enumerate(shape)]
        shapes = tuple(values[i].shape for i in active)
        operation = (LOOP, place, machine.loops.depth, shapes)
        results[k] = algebra.of(algebra.terms.make(operation, values[k].element, parts, own), shape)
    return results


# ---- of the partitioned program ----


@dataclasses.dataclass(frozen=True, slots=True)
class _Relation:
    """How a device's value relates to a whole one: the places of its elements, and the digits if it is a summand."""

    places: dict[Label, IndexMap]
    shares: tuple[Label, ...] = ()


def _matched(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    reasons = []
    for loop in machine.loops.at_depth():
        try:
            return _Match(machine, op, values, loop).results()
        except NotKnown as error:
            reasons.append(str(error))
    unrolled = _unrolled(machine, op, values)
    if unrolled is not None:
        return unrolled
    raise NotKnown(reasons[-1] if reasons else "the given program has no such loop")


def turns_run(loop: Operation) -> range:
    """The iterations of a loop that are run, at most."""
    return range(_MAX_OPERATIONS // sum(1 for _ in loop.walk()))


def _unrolled(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue] | None:
    """The results of a counted loop; None for a loop that is not counted, or has too many iterations."""
    for _ in turns_run(op):
        (condition,) = machine.block(op.regions[0], values)
        known = machine.algebra.known(condition)
        if known is None or not known.is_constant:
            return None
        if known.value != 1:
            return values
        values = machine.block(op.regions[1], values)
    return None


class _Match:
    """A loop of the partitioned program that may match one of the given program."""

    def __init__(self, machine: Execution, op: Operation, values: list[SymbolicValue], loop: GivenLoop) -> None:
        self._machine = machine
        self._op = op
        self._values = values
        self._loop = loop
        body = op.regions[1]
        carried = enumerate(zip(body.terminator.operands, body.arguments, strict=True))
        self._fixed = {k for k, (made, name) in carried if made is name or 0 in name.type.shape}
        self._guesses: dict[tuple[int, tuple[Label, ...]], Iterator[_Relation]] = {}
        self._active = [k for k in range(len(values)) if k not in self._fixed]
        if len(self._active) != len(loop.active):
            raise NotKnown("a loop that carries another number of values than the loop of the given program")
        for k, j in self._pairs():
            if len(values[k].shape) != len(loop.initial[j].shape) or values[k].element != loop.initial[j].element:
                raise NotKnown("a loop that carries other values than the loop of the given program")

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self._active, self._loop.active, strict=True))

    def results(self) -> list[SymbolicValue]:
        """The results of the loop. Raises NotKnown if no invariant is found."""
        parts = self._from_initial()
        for _ in range(_MAX_GUESSES):
            condition, made = self._iteration(parts)
            wrong = [k for k, j in self._pairs() if not self._holds(self._loop.made[j], made[k], parts[k])]
            if not wrong:
                return self._out(condition, parts)
            for k in wrong:
                parts[k] = self._improved(k, made[k], parts[k])
        raise NotKnown("a loop whose carried values are other parts of the given program's values after an iteration")

    def _iteration(self, parts: dict[int, _Relation]) -> tuple[SymbolicValue, list[SymbolicValue]]:
        given = list(self._values)
        for k, j in self._pairs():
            given[k] = self._part_of(self._loop.leaves[j], self._values[k].shape, parts[k])
        return _iteration(self._machine, self._op, given)

    def _out(self, condition: SymbolicValue, parts: dict[int, _Relation]) -> list[SymbolicValue]:
        algebra = self._machine.algebra
        if difference(algebra, self._loop.condition, condition) is not None:
            raise NotKnown("a loop with another condition than the loop of the given program")
        if diverges(condition) and any(is_collective(inner) for inner in self._op.walk()):
            raise NotKnown("a collective in a loop that may end earlier on some devices than on others")
        for k, j in self._pairs():
            if not self._holds(self._loop.initial[j], self._values[k], parts[k]):
                raise NotKnown("a loop with other initial values than the loop of the given program")
        results = list(self._values)
        for k, j in self._pairs():
            results[k] = self._part_of(self._loop.results[j], self._values[k].shape, parts[k])
        return results

    # ---- parts ----

    def _part_of(self, whole: SymbolicValue, shape: tuple[int, ...], part: _Relation) -> SymbolicValue:
        algebra = self._machine.algebra
        moved = algebra.moved(whole, shape, part.places)
        if not part.shares:
            return moved
        return algebra.share(moved, self._share(part.shares), self._count(part.shares))

    def _share(self, digits: tuple[Label, ...]) -> IndexMap:
        radices = self._machine.devices.radices
        sizes = [radices[each.number] for each in digits]
        return integer_map(digits, np.arange(int(np.prod(sizes, dtype=np.int64))).reshape(sizes))

    def _count(self, digits: tuple[Label, ...]) -> int:
        return int(np.prod([self._machine.devices.radices[each.number] for each in digits], dtype=np.int64))

    def _holds(self, whole: SymbolicValue, value: SymbolicValue, part: _Relation) -> bool:
        algebra, rank = self._machine.algebra, len(value.shape)
        wanted = algebra.moved(whole, value.shape, part.places)
        for each in part.shares:
            radix = self._machine.devices.radices[each.number]
            spread = algebra.moved(value, (*value.shape, radix), {each: counted(dim(rank), radix)})
            value = algebra.total("add", spread, rank)
        return difference(algebra, wanted, value) is None

    def _from_initial(self) -> dict[int, _Relation]:
        """The relation of each carried value to the given program's, guessed from the initial values."""
        found: dict[int, _Relation] = {}
        open_ = []
        for k, j in self._pairs():
            part = _part(self._loop.initial[j], self._values[k])
            if part is None:
                open_.append((k, j))
            else:
                found[k] = part
        if open_:
            counts = self._machine.loops.counts()
            _, first = _iteration(self._loop.machine, self._loop.op, self._loop.initial)
            _, made = _iteration(self._machine, self._op, self._values)
            self._machine.loops.forget(counts)
            for k, j in open_:
                part = _part(first[j], made[k]) or self._guess(k)
                if part is None:
                    raise NotKnown("a loop that carries unknown parts of the given program's values")
                found[k] = part
        return found

    def _guess(self, k: int, shares: tuple[Label, ...] = ()) -> _Relation | None:
        """The next part of the right shape over axes of the mesh, or a summand of it over the devices of digits.

        An iteration shows whether it is right.
        """
        if (k, shares) not in self._guesses:
            whole = self._loop.initial[dict(self._pairs())[k]].shape
            found = _parts_of(self._machine.devices, whole, self._values[k].shape, shares)
            # Summands are tried again, as the guesses for other carried values may have changed.
            self._guesses[k, shares] = itertools.cycle(found) if shares else found
        return next(self._guesses[k, shares], None)

    def _improved(self, k: int, made: SymbolicValue, wrong: _Relation) -> _Relation:
        """Another guess in place of a wrong one, from the results of an iteration."""
        j = dict(self._pairs())[k]
        part = _part(self._loop.made[j], made)
        part = (part if part != wrong else None) or (self._guess(k) if (k, ()) in self._guesses else None)
        if part is not None:
            return part
        digits = {
            label
            for kind, each in zip(made.term.kinds, made.maps, strict=True)
            if kind == SET or kind.startswith(MASK)
            for label in each.labels
            if label.kind == "digit"
        }
        if not digits:
            raise NotKnown("a loop that computes other values than the loop of the given program")
        shares = tuple(sorted(digits))
        if made.shape == self._loop.made[j].shape:
            return _Relation({dim(d): counted(dim(d), size) for d, size in enumerate(made.shape)}, shares)
        part = self._guess(k, shares)
        if part is None:
            raise NotKnown("a loop that carries summands of parts that do not follow mesh axes")
        return part


def _part(whole: SymbolicValue, value: SymbolicValue) -> _Relation | None:
    """The places of one value's elements in a whole value; None if they cannot be determined.

    A dimension on which nothing depends is taken as whole, if it has that size.
    """
    places: dict[Label, IndexMap] = {}
    same = whole.term is value.term
    for d, size in enumerate(whole.shape):
        slot = next(
            (i for i, each in enumerate(whole.maps) if same and whole.term.kinds[i] == INDEX and _tells(each, d, size)),
            None,
        )
        if slot is not None:
            places[dim(d)] = _looked_back(whole.maps[slot], value.maps[slot])
        elif value.shape[d] == size and (same or whole.shape == value.shape):
            places[dim(d)] = counted(dim(d), size)
        else:
            return None
    return _Relation(places) if same or whole.shape == value.shape else None


def _tells(each: IndexMap, d: int, size: int) -> bool:
    """Whether different indices of a dimension have different integers."""
    return each.labels == (dim(d),) and not each.has_any and len(set(each.table.tolist())) == size


def _parts_of(
    devices: DeviceDigits, whole: tuple[int, ...], shape: tuple[int, ...], shares: tuple[Label, ...]
) -> Iterator[_Relation]:
    """All parts of a shape that two axes of the mesh at most make of every dimension, without those of `shares`."""
    names = [Axis(name, 1, size) for name, size in devices.mesh.axes if size > 1]
    orders = [axes for count in (0, 1, 2) for axes in itertools.permutations(names, count)]
    choices = [
        [axes for axes in orders if -(-size // size_of(axes)) == part] for size, part in zip(whole, shape, strict=True)
    ]
    for chosen in itertools.product(*choices):
        places = {}
        for d, (axes, part) in enumerate(zip(chosen, shape, strict=True)):
            shard = devices.shard(devices.mesh, axes)
            places[dim(d)] = pointwise(lambda s, i, part=part: s * part + i, shard, counted(dim(d), part))
        if not any(label in shares for place in places.values() for label in place.labels):
            yield _Relation(places, shares)


def _looked_back(each: IndexMap, value: IndexMap) -> IndexMap:
    """The places at which an injective map has the integers of another map."""
    low = int(each.table.min())
    table = np.full(int(each.table.max()) - low + 1, -1, np.int64)
    table[each.table - low] = np.arange(len(each.table))
    own = Label("member", 1)
    inverse = integer_map([own], table)
    return composed(inverse, {own: integer_map(value.labels, value.table - low)})


MEANINGS: dict[str, Meaning] = {LOOP: _while}
