"""Taking layers out of a program in which they repeat, and putting them back into what became of it.

The passes work on a program with the first few layers and the last few. Operations that they make are told apart by
the location they were made with, which is an object of its own for every operation here. What became of the two layers
beside the missing ones has to be the same, and to depend in the same way on the layers around them. Then every layer
between them becomes the same, too: it is said as the one behind it is, of its own arguments and of what its neighbours
made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import IN_MIDDLE, NAME
from gspmd.transforms.analysis.runs import MIN_KEPT, LayerRun
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Block, Location, Operation, Point, Value
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries
from gspmd.transforms.reroll.layers import LayerPlace, Layers, RunKey, find_layers

KEPT = (MIN_KEPT, MIN_KEPT + 1)
"""The numbers of layers to keep at each end: if two do not end up alike in the middle, three may."""

MIN_REMOVED = 300
"""The fewest operations worth removing: the search for layers takes a twentieth of the time of the passes."""

MIN_ALIKE = 30
"""The fewest operations in inner layers for which layers are decided alike although none is removed."""

_ALIAS = "tf.aliasing_output"
_OWN = frozenset({NAME, _ALIAS, "jax.result_info"})  # what arguments and results of layers need not have in common


class OpPlace(NamedTuple):
    """An operation of a layer: its position, and the layer.

    `key` is the run, the position there, and the number among the operations inside that one.
    """

    key: tuple[RunKey, int, int]
    layer: int


@dataclasses.dataclass(slots=True)
class Ends:
    """The arguments, or the results, of a function as they were: attributes and places by index.

    `kept` are the indices of those that are not missing, and `folded` the attributes that these had without the others.
    """

    entries: list[dict[str, ir.Attribute]]
    places: list[LayerPlace | None]
    kept: list[int]
    folded: list[dict[str, ir.Attribute]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Fold:
    """The layers removed from a function: all but `kept` at each end.

    `before` and `behind` are the layers on both sides of those that are missing, as they are numbered in the whole
    program. `origins` say of operations, by the identity of the location that they have, in which layer they are, and
    where there: the run, the position, and the number among the operations inside that one. `locations` are those of
    all operations of the whole program.
    """

    kept: int
    before: int
    behind: int
    runs: list[LayerRun]
    locations: list[Location]
    origins: dict[int, OpPlace]
    alive: list[Location]  # so that identities stay theirs
    arguments: Ends
    argument_locations: list[Location]
    results: Ends

    @property
    def missing(self) -> range:
        return range(self.before + 1, self.behind)


def fold(function: Operation, kept: Sequence[int] = KEPT, least: int = MIN_REMOVED) -> Fold | None:
    """Take layers out of the middle, all but the first number of `kept` at each end that is possible.

    None where that takes out fewer operations than `least`. What is the same in all layers is marked in any case, as it
    is decided alike.
    """
    block = function.regions[0]
    found_layers = find_layers(list(block), block.arguments, kept, min(least, MIN_ALIKE))
    if found_layers is None:
        return None
    layers, kept_layers = found_layers
    if (layers.last - layers.first + 1 - 2 * kept_layers) * sum(run.period for run in layers.runs) < least:
        _mark_alike(layers, range(0), 0)
        return None
    before, behind = layers.first + kept_layers - 1, layers.last - kept_layers + 1
    missing = range(before + 1, behind)
    if not layers.are_used_within(before, behind, len(layers.ops) - 1):
        return None
    arguments = _ends(function, "arg_attrs", layers, range(len(block.arguments)), missing)
    results = _ends(function, "res_attrs", layers, layers.used[layers.first_used[-2] :].tolist(), missing)
    if not _ends_repeat(arguments, results, before, behind):
        return None
    locations = [op.location for op in layers.ops]
    found = Fold(kept_layers, before, behind, layers.runs, locations, {}, [], arguments, list(block.locations), results)
    _mark(layers, found)
    _rewire(layers, found)
    _erase(function, layers, found)
    return found


def mark_layers(function: Operation) -> None:
    """Mark what is the same in layers that repeat, and take none out."""
    fold(function, least=1 << 62)


def _ends(function: Operation, key: str, layers: Layers, values: Iterable[int], missing: range) -> Ends:
    """The attributes of arguments or results. Results that are one value have an entry each."""
    seen: dict[LayerPlace, int] = {}
    places: list[LayerPlace | None] = []
    for value in values:
        place = layers.place(value)
        if place is not None:
            seen[place] = seen.get(place, 0) + 1
            place = LayerPlace((place.key, seen[place]), place.layer)
        places.append(place)
    kept = [index for index, place in enumerate(places) if place is None or place.layer not in missing]
    return Ends(dictionaries(function, key, len(places)), places, kept)


def _ends_repeat(arguments: Ends, results: Ends, before: int, behind: int) -> bool:
    """Whether arguments and results of the missing layers are as those of the two beside them, aliases included."""
    for ends in (arguments, results):
        at = {place: index for index, place in enumerate(ends.places) if place is not None}
        for place, index in at.items():
            alias = _alias(ends, index, results)
            if not before < place.layer < behind:
                if alias is not None and before < alias.layer < behind:
                    return False
                continue
            for layer in (before, behind):
                twin = at.get(LayerPlace(place.key, layer))
                if twin is None or _common(ends.entries[twin]) != _common(ends.entries[index]):
                    return False
                its = _alias(ends, twin, results)
                if its is not None:
                    its = LayerPlace(its.key, its.layer + place.layer - layer)
                if alias != its:
                    return False
    fixed = [index for index, place in enumerate(arguments.places) if place is None]
    return not any((alias := _alias(arguments, i, results)) and before < alias.layer < behind for i in fixed)


def _alias(ends: Ends, index: int, results: Ends) -> LayerPlace | None:
    """The place of the result that takes the memory of an argument; a place of its own for one of no layer."""
    attribute = ends.entries[index].get(_ALIAS)
    if attribute is None:
        return None
    number = ir.IntegerAttr(attribute).value
    return results.places[number] or LayerPlace(("result", number), 1 << 40)


def _common(entry: dict[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    return {name: attribute for name, attribute in entry.items() if name not in _OWN}


def _mark(layers: Layers, fold: Fold) -> None:
    """Give every operation of layers that stay a location of its own, and say of those in the middle that they are."""
    _mark_alike(layers, fold.missing, len(fold.missing))
    for number, run in enumerate(layers.runs):
        for layer in run.layers:
            if layer in fold.missing:
                continue
            for position, index in enumerate(run.operations(layer)):
                op = layers.ops[index]
                for part, each in enumerate((op, *op.walk()) if op.regions else (op,)):
                    each.location = type(each.location)._CAPICreate(each.location._CAPIPtr)
                    fold.alive.append(each.location)
                    fold.origins[id(each.location)] = OpPlace((number, position, part), layer)


def _mark_alike(layers: Layers, missing: range, count: int) -> None:
    """Say of operations of layers in which they are, and where there; those beside missing ones stand for these."""
    context = context_of(layers.ops[0])
    beside = (missing.start - 1, missing.stop) if missing else ()
    first = 0  # the number of the first operation of a run in its layer
    for run in layers.runs:
        for layer in run.layers:
            if layer in missing or not layers.first <= layer <= layers.last:
                continue
            for position, index in enumerate(run.operations(layer)):
                what = [layer, first + position, count if layer in beside else 0]
                layers.ops[index].attributes[IN_MIDDLE] = ir.DenseI64ArrayAttr.get(what, context)
        first += run.period


def _rewire(layers: Layers, fold: Fold) -> None:
    """Make the layers beside the missing ones each other's neighbours."""
    for layer, neighbour, other in (
        (fold.before, fold.before + 1, fold.behind),
        (fold.behind, fold.behind - 1, fold.before),
    ):
        at = {layers.key[number]: layers.values[number] for number in (layers.layer == other).nonzero()[0].tolist()}
        for run in layers.runs:
            for index in run.operations(layer):
                used = layers.used[layers.first_used[index] : layers.first_used[index + 1]].tolist()
                beside = [number for number in used if layers.layer[number] == neighbour]
                if beside:
                    use_instead(layers.ops[index], {layers.values[n]: at[layers.key[n]] for n in beside})


def _erase(function: Operation, layers: Layers, fold: Fold) -> None:
    block, last = function.regions[0], function.regions[0].terminator
    returned = [last.operands[index] for index in fold.results.kept]
    Operation(last.name, returned, [], last.attributes, last.location).insert(Point.at(last))
    last.erase()
    for run in sorted(layers.runs, key=lambda run: -run.start):
        for row in reversed(range(run.count)):
            if run.layers[row] in fold.missing:
                for index in reversed(range(run.start + row * run.period, run.start + (row + 1) * run.period)):
                    layers.ops[index].erase()
    kept = fold.arguments.kept
    set_arguments(block, [block.arguments[i] for i in kept], [fold.argument_locations[i] for i in kept])
    declare_types(function)
    numbers = {index: number for number, index in enumerate(fold.results.kept)}
    for key, ends in (("arg_attrs", fold.arguments), ("res_attrs", fold.results)):
        for index in ends.kept:
            entry = dict(ends.entries[index])
            if _ALIAS in entry:
                alias = ir.IntegerAttr(entry[_ALIAS])
                entry[_ALIAS] = ir.IntegerAttr.get(alias.type, numbers[alias.value])
            ends.folded.append(entry)
        set_dictionaries(function, key, ends.folded)


def use_instead(op: Operation, known: dict[Value, Value]) -> None:
    """Let an operation, and what is inside, use other values."""
    for each in (op, *op.walk()) if op.regions else (op,):
        for index, value in enumerate(each.operands):
            if value in known:
                each.operands[index] = known[value]


def set_arguments(block: Block, arguments: list[Value], locations: list[Location]) -> None:
    """Let these be the arguments of a block."""
    block.arguments, block.locations = arguments, locations
    for index, value in enumerate(arguments):
        value.index = index
