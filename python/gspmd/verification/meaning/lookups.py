"""Elements at computed indices: gathers, scatters, dynamic slices and their updates.

A look-up of an element is a sum over all elements, in which all but one count zero. So it can be split like any other
sum.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence

from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.ir.operations import Operation
from gspmd.verification import index_maps, numbers
from gspmd.verification.attributes import ints, reducer, replaces
from gspmd.verification.index_maps import IndexMap, Label, counted, dim, masked, pointwise
from gspmd.verification.meaning.elementwise import item, joint, region_text, spread
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.terms import ANY_ONE, NOTHING, is_zero
from gspmd.verification.values import SymbolicValue

_SELECT = "stablehlo.select"


def limited(machine: Execution, start: SymbolicValue, size: int, window: int) -> SymbolicValue:
    """The start of a window, clamped so that the window is within the dimension."""
    algebra, (least, most) = machine.algebra, numbers.range_of_type(start.element)
    limits = [min(max(limit, least), most) for limit in (0, size - window)]
    low, high = (algebra.number(index_maps.constant(n), start.element, start.shape) for n in limits)
    lowest, highest = algebra.range_of(start)
    if limits[0] <= lowest and highest <= limits[1]:
        return start
    at = algebra.elementwise(("stablehlo.clamp",), start.element, [low, start, high])
    return algebra.elementwise(("stablehlo.convert",), "i64", [at]) if start.element == "ui64" else at


def looked_up(
    machine: Execution, value: SymbolicValue, axis: int, start: SymbolicValue, offset: IndexMap
) -> SymbolicValue:
    """The element at start + offset along a dimension, which is the last one and is removed."""
    algebra, size = machine.algebra, value.shape[axis]
    wanted = pointwise(lambda k, o: k - o, counted(dim(axis), size), offset)
    zero = algebra.zero(value.element, value.shape)
    parts = algebra.without(value, is_zero)
    if parts is not None:
        wanted, value = masked(wanted, parts[0]), parts[1]
    here = algebra.equal(dataclasses.replace(start, shape=value.shape), wanted)
    chosen = algebra.elementwise((_SELECT,), value.element, [here, value, zero])
    if parts is not None:
        chosen = algebra.choice(parts[0], chosen, zero)
    return algebra.total("add", chosen, axis)


def _dynamic_slice(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    value, *starts = values
    shape = op.results[0].type.shape
    windows = {d: limited(machine, spread(start, shape), value.shape[d], shape[d]) for d, start in enumerate(starts)}
    offsets = {d: counted(dim(d), shape[d]) for d in windows}
    return [_windows(machine, value, shape, windows, offsets, {})]


def _windows(
    machine: Execution,
    value: SymbolicValue,
    shape: Sequence[int],
    starts: dict[int, SymbolicValue],
    offsets: dict[int, IndexMap],
    places: dict[Label, IndexMap],
) -> SymbolicValue:
    """The elements at start + offset along some dimensions, and at known places along the others."""
    algebra = machine.algebra
    open_ = []
    for d, start in starts.items():
        known = algebra.known(start)
        if known is not None:
            places[dim(d)] = pointwise(lambda s, o: s + o, known, offsets[d])
        else:
            open_.append(d)
    rank = len(shape)
    extended = [*shape, *(value.shape[d] for d in open_)]
    for i, d in enumerate(open_):
        places[dim(d)] = counted(dim(rank + i), value.shape[d])
    made = algebra.moved(value, extended, places)
    for i, d in reversed(list(enumerate(open_))):
        made = looked_up(machine, made, rank + i, starts[d], offsets[d])
    return made


def _dynamic_update_slice(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    value, update, *starts = values
    algebra, shape, rank = machine.algebra, value.shape, len(value.shape)
    if 0 in update.shape:
        return [value]
    places: dict[Label, IndexMap] = {}
    masks, open_ = [], []
    for d, start in enumerate(starts):
        size, window = shape[d], update.shape[d]
        at = limited(machine, spread(start, shape), size, window)
        known = algebra.known(at)
        if known is None:
            open_.append((d, at))
            continue
        place = pointwise(lambda s, i: i - s, known, counted(dim(d), size))
        masks.append(pointwise(lambda p, window=window: (p >= 0) & (p < window), place))
        places[dim(d)] = place
    extended = [*shape, *(update.shape[d] for d, _ in open_)]
    for i, (d, _) in enumerate(open_):
        places[dim(d)] = counted(dim(rank + i), update.shape[d])
    made = algebra.moved(update, extended, places)
    conditions: list[SymbolicValue] = []
    for i, (d, at) in reversed(list(enumerate(open_))):
        # the element at l is that of the window at l - start
        axis, count = rank + i, update.shape[d]
        wanted = pointwise(lambda at_, k: at_ - k, counted(dim(d), shape[d]), counted(dim(axis), count))
        here = algebra.equal(dataclasses.replace(at, shape=tuple(made.shape)), _known_at(wanted, value))
        chosen = algebra.elementwise((_SELECT,), made.element, [here, made, algebra.zero(made.element, made.shape)])
        made = algebra.total("add", chosen, axis)
        for direction, least in (("LE", 0), ("GT", count)):
            limit = _known_at(counted(dim(d), shape[d], -least), value)
            against = algebra.number(limit, at.element, shape)
            conditions.append(algebra.elementwise(("stablehlo.compare", direction, at.element), "i1", [at, against]))
    if conditions:
        condition = functools.reduce(lambda a, b: algebra.elementwise(("stablehlo.and",), "i1", [a, b]), conditions)
        made = algebra.elementwise((_SELECT,), made.element, [condition, made, value])
    for mask in reversed(masks):
        made = algebra.choice(mask, made, value)
    return [made]


def _known_at(numbers_: IndexMap, value: SymbolicValue) -> IndexMap:
    """Known numbers where a value is known."""
    for mask in value.valid:
        numbers_ = masked(numbers_, mask)
    return numbers_


def _gather(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    value, indices = values
    shape = op.results[0].type.shape
    numbers_ = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes, vector = ints(op, "slice_sizes"), numbers_.index_vector_dim
    if 0 in shape:
        return [machine.algebra.zero(value.element, shape)]
    batch = [d for d in range(len(shape)) if d not in numbers_.offset_dims]
    of_indices = [d for d in range(len(indices.shape)) if d != vector]
    place_of = dict(zip(of_indices, batch, strict=True))
    batching = dict(zip(numbers_.operand_batching_dims, numbers_.start_indices_batching_dims, strict=True))
    missing = {*batching, *numbers_.collapsed_slice_dims}
    window_dims = [d for d in range(len(value.shape)) if d not in missing]
    offset_of = dict(zip(window_dims, numbers_.offset_dims, strict=True))
    places: dict[Label, IndexMap] = {}
    starts: dict[int, SymbolicValue] = {}
    offsets: dict[int, IndexMap] = {}
    for d, size in enumerate(value.shape):
        if d in batching:
            at = place_of[batching[d]]
            places[dim(d)] = counted(dim(at), shape[at])
            continue
        offset = counted(dim(offset_of[d]), sizes[d]) if d in offset_of else index_maps.constant(0)
        if d not in numbers_.start_index_map or sizes[d] == size:
            places[dim(d)] = offset
            continue
        component = list(numbers_.start_index_map).index(d)
        start = index_component(machine, indices, vector, component, place_of, shape)
        starts[d], offsets[d] = limited(machine, start, size, sizes[d]), offset
    return [_windows(machine, value, shape, starts, offsets, places)]


def index_component(
    machine: Execution,
    indices: SymbolicValue,
    vector: int,
    component: int,
    place_of: dict[int, int],
    shape: Sequence[int],
) -> SymbolicValue:
    """One component of index vectors; the other dimensions are read at these places, as a value of a shape."""
    places = {dim(d): counted(dim(at), shape[at]) for d, at in place_of.items()}
    if vector < len(indices.shape):
        places[dim(vector)] = index_maps.constant(component)
    return machine.algebra.moved(indices, shape, places)


def _scatter(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    count = len(op.results)
    indices, (value, updates) = values[count], (joint(machine, each) for each in (values[:count], values[count + 1 :]))
    algebra, shape, rank = machine.algebra, value.shape, len(value.shape)
    if 0 in updates.shape or 0 in shape:
        return values[:count]
    numbers_ = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    window_dims, vector = list(numbers_.update_window_dims), numbers_.index_vector_dim
    scattered = [d for d in range(len(updates.shape)) if d not in window_dims]
    place_of = dict(zip([d for d in range(len(indices.shape)) if d != vector], scattered, strict=True))
    batching = dict(zip(numbers_.input_batching_dims, numbers_.scatter_indices_batching_dims, strict=True))
    missing = {*batching, *numbers_.inserted_window_dims}
    window_of = dict(zip([d for d in range(rank) if d not in missing], window_dims, strict=True))
    # [the result's dimensions..., those of the updates]; dimensions that are taken from the result are not summed over
    extended = (*shape, *updates.shape)
    places = {dim(d): counted(dim(rank + d), size) for d, size in enumerate(updates.shape)}
    conditions: list[tuple[int, int, int]] = []
    taken: set[int] = set()
    for d, at in batching.items():
        place = place_of[at]
        places[dim(place)] = counted(dim(d), shape[d])
        taken.add(place)
    starts = list(numbers_.scattered_dims_to_operand_dims)
    for d in range(rank):
        if d in batching:
            continue
        window = updates.shape[window_of[d]] if d in window_of else 1
        if d in window_of and (d not in starts) and window == shape[d]:
            places[dim(window_of[d])] = counted(dim(d), shape[d])
            taken.add(window_of[d])
        else:
            conditions.append((d, starts.index(d) if d in starts else -1, window))
    # where dimensions of the result stand for those of updates, the latter have one place
    shape_of_all = tuple(1 if i >= rank and i - rank in taken else n for i, n in enumerate(extended))
    moved = algebra.moved(updates, shape_of_all, places)
    of_indices = {
        d: next((r for r, b in batching.items() if place_of[b] == at), rank + at) for d, at in place_of.items()
    }
    here: SymbolicValue | None = None
    for d, component, window in conditions:
        start = (
            index_component(machine, indices, vector, component, of_indices, shape_of_all)
            if component >= 0
            else algebra.number(index_maps.constant(0), indices.element, shape_of_all)
        )
        offset = counted(dim(rank + window_of[d]), window) if d in window_of else index_maps.constant(0)
        wanted = pointwise(lambda p, o: p - o, counted(dim(d), shape[d]), offset)
        # a window that does not lie within the operand is left out as a whole, as XLA does
        fits = pointwise(lambda w, d=d, window=window: (w >= 0) & (w <= shape[d] - window), wanted)
        equal = algebra.equal(start, masked(_known_at(wanted, value), fits))
        equal = algebra.choice(fits, equal, algebra.number(index_maps.constant(0), "i1", shape_of_all))
        here = equal if here is None else algebra.elementwise(("stablehlo.and",), "i1", [here, equal])
    monoid, neutral = _combining(machine, op, value.element)
    nothing = spread(neutral, shape_of_all)
    made = moved if here is None else algebra.elementwise((_SELECT,), value.element, [here, moved, nothing])
    for axis in reversed(range(rank, len(shape_of_all))):
        made = algebra.total(monoid, made, axis)
    made = _updated(machine, monoid, value, made)
    return (
        [made] if count == 1 else [item(machine, made, n, result.type.element) for n, result in enumerate(op.results)]
    )


def _combining(machine: Execution, op: Operation, element: str) -> tuple[str, SymbolicValue]:
    """How a scatter combines updates, and the value of no update.

    By a custom function, they are combined in no order; if it replaces the element, any one of the updates is left.
    """
    algebra, body = machine.algebra, op.regions[0]
    monoid = reducer(body) if len(op.results) == 1 else None
    neutral = algebra.neutral(monoid, element, ()) if monoid is not None else None
    if monoid is None or neutral is None:
        monoid = f"{ANY_ONE if replaces(body) else region_text(body)} {element}"
        algebra.neutral_terms[monoid] = algebra.terms.make((NOTHING,), element).term
        neutral = algebra.value(algebra.neutral_terms[monoid], (), ())
    return monoid, neutral


def _updated(machine: Execution, monoid: str, value: SymbolicValue, made: SymbolicValue) -> SymbolicValue:
    """A value combined with the total of its updates."""
    algebra = machine.algebra
    neutral = algebra.neutral_terms.get(monoid)
    if neutral is None:
        return algebra.elementwise((f"stablehlo.{monoid}",), value.element, [value, made])
    if made.term is neutral:
        return value
    parts = algebra.without(made, functools.partial(operator.is_, neutral))
    if parts is not None:
        chosen = algebra.choice(parts[0], _updated(machine, monoid, value, parts[1]), value)
        return algebra.of(chosen.instance, value.shape, [*chosen.valid, *made.valid])
    if monoid.startswith(ANY_ONE) and made.term.kind == _SELECT and made.term.parts[2] is neutral:
        return algebra.elementwise((_SELECT,), value.element, [algebra.part(made, 0), algebra.part(made, 1), value])
    return algebra.elementwise((monoid,), value.element, [value, made])


MEANINGS: dict[str, Meaning] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
}
