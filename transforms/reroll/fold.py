"""Remove repeated layers from a program; `unfold.py` inserts them again after the passes.

The passes run on a program with the first few and the last few layers. Every operation has a location object of its
own here, which identifies the operations that passes create from it. After the passes, the two layers beside the
removed ones must be equal, and depend on the layers around them in the same way. Then all removed layers would be equal
to them, too. Each is inserted as a copy of the layer after it, with its own arguments and the values of its neighbors.
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
from gspmd.transforms.reroll.layers import Layers, RunKey, ValueInLayer, find_layers

KEPT = (MIN_KEPT, MIN_KEPT + 1)
"""The numbers of layers kept at each end. If the middle layers differ with the first, the second may work."""

MIN_REMOVED = 300
"""The minimum number of removed operations. The search for layers takes a twentieth of the time of the passes."""

MIN_ALIKE = 30
"""The minimum number of operations in the middle layers for which layers are decided alike without folding."""

_ALIAS = "tf.aliasing_output"
_OWN = frozenset({NAME, _ALIAS, "jax.result_info"})  # attributes in which layers may differ


class OpInLayer(NamedTuple):
    """An operation of a layer.

    `key` is its run, its position in the run, and its number among the operations inside that one.
    """

    key: tuple[RunKey, int, int]
    layer: int


@dataclasses.dataclass(slots=True)
class SignaturePart:
    """The arguments, or the results, of the original function: attributes and layer values by index.

    `kept` are the indices of those that are not removed, and `folded` their attributes in the folded function.
    """

    entries: list[dict[str, ir.Attribute]]
    layer_values: list[ValueInLayer | None]
    kept: list[int]
    folded: list[dict[str, ir.Attribute]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Fold:
    """A folded function: all but `kept` layers at each end are removed.

    `before` and `behind` are the layers on both sides of the removed ones, as numbered in the whole program. `origins`
    has the operations of the kept layers, by the identity of their locations. `locations` are those of all operations
    of the whole program.
    """

    kept: int
    before: int
    behind: int
    runs: list[LayerRun]
    locations: list[Location]
    origins: dict[int, OpInLayer]
    alive: list[Location]  # keeps the identities of locations in use
    arguments: SignaturePart
    argument_locations: list[Location]
    results: SignaturePart

    @property
    def missing(self) -> range:
        return range(self.before + 1, self.behind)


def fold(function: Operation, kept: Sequence[int] = KEPT, min_operations: int = MIN_REMOVED) -> Fold | None:
    """Remove the middle layers; at each end stay as many as the first number of `kept` that is possible.

    None if that removes fewer operations than `min_operations`. The operations of layers are marked in any case, so
    that layers are decided alike.
    """
    block = function.regions[0]
    found_layers = find_layers(list(block), block.arguments, kept, min(min_operations, MIN_ALIKE))
    if found_layers is None:
        return None
    layers, kept_layers = found_layers
    if (layers.last - layers.first + 1 - 2 * kept_layers) * sum(run.period for run in layers.runs) < min_operations:
        _mark_alike(layers, range(0), 0)
        return None
    before, behind = layers.first + kept_layers - 1, layers.last - kept_layers + 1
    missing = range(before + 1, behind)
    if not layers.are_used_within(before, behind, len(layers.ops) - 1):
        return None
    arguments = _signature_part(function, "arg_attrs", layers, range(len(block.arguments)), missing)
    results = _signature_part(function, "res_attrs", layers, layers.used[layers.first_used[-2] :].tolist(), missing)
    if not _signature_repeats(arguments, results, before, behind):
        return None
    locations = [op.location for op in layers.ops]
    found = Fold(kept_layers, before, behind, layers.runs, locations, {}, [], arguments, list(block.locations), results)
    _mark(layers, found)
    _rewire(layers, found)
    _erase(function, layers, found)
    return found


def mark_layers(function: Operation) -> None:
    """Mark the operations of repeated layers, without removing any."""
    fold(function, min_operations=1 << 62)


def _signature_part(
    function: Operation, key: str, layers: Layers, values: Iterable[int], missing: range
) -> SignaturePart:
    """The arguments or results. If several results are one value, each gets a key of its own."""
    seen: dict[ValueInLayer, int] = {}
    layer_values: list[ValueInLayer | None] = []
    for value in values:
        member = layers.member(value)
        if member is not None:
            seen[member] = seen.get(member, 0) + 1
            member = ValueInLayer((member.key, seen[member]), member.layer)
        layer_values.append(member)
    kept = [index for index, member in enumerate(layer_values) if member is None or member.layer not in missing]
    return SignaturePart(dictionaries(function, key, len(layer_values)), layer_values, kept)


def _signature_repeats(arguments: SignaturePart, results: SignaturePart, before: int, behind: int) -> bool:
    """Whether arguments and results of the removed layers equal those of the two beside them, aliases included."""
    for part in (arguments, results):
        at = {member: index for index, member in enumerate(part.layer_values) if member is not None}
        for member, index in at.items():
            alias = _alias(part, index, results)
            if not before < member.layer < behind:
                if alias is not None and before < alias.layer < behind:
                    return False
                continue
            for layer in (before, behind):
                twin = at.get(ValueInLayer(member.key, layer))
                if twin is None or _common(part.entries[twin]) != _common(part.entries[index]):
                    return False
                its = _alias(part, twin, results)
                if its is not None:
                    its = ValueInLayer(its.key, its.layer + member.layer - layer)
                if alias != its:
                    return False
    fixed = [index for index, member in enumerate(arguments.layer_values) if member is None]
    return not any((alias := _alias(arguments, i, results)) and before < alias.layer < behind for i in fixed)


def _alias(part: SignaturePart, index: int, results: SignaturePart) -> ValueInLayer | None:
    """The result that aliases an argument, as a value of a layer; for a result of no layer, a unique one."""
    attribute = part.entries[index].get(_ALIAS)
    if attribute is None:
        return None
    number = ir.IntegerAttr(attribute).value
    return results.layer_values[number] or ValueInLayer(("result", number), 1 << 40)


def _common(entry: dict[str, ir.Attribute]) -> dict[str, ir.Attribute]:
    return {name: attribute for name, attribute in entry.items() if name not in _OWN}


def _mark(layers: Layers, fold: Fold) -> None:
    """Give every operation of the kept layers a location object of its own, and mark the middle layers."""
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
                    fold.origins[id(each.location)] = OpInLayer((number, position, part), layer)


def _mark_alike(layers: Layers, missing: range, count: int) -> None:
    """Mark operations with their layer and position; those beside the removed layers count for these, too."""
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
    """Make the layers beside the removed ones neighbors."""
    for layer, neighbor, other in (
        (fold.before, fold.before + 1, fold.behind),
        (fold.behind, fold.behind - 1, fold.before),
    ):
        at = {layers.key[number]: layers.values[number] for number in (layers.layer == other).nonzero()[0].tolist()}
        for run in layers.runs:
            for index in run.operations(layer):
                used = layers.used[layers.first_used[index] : layers.first_used[index + 1]].tolist()
                beside = [number for number in used if layers.layer[number] == neighbor]
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
    for key, part in (("arg_attrs", fold.arguments), ("res_attrs", fold.results)):
        for index in part.kept:
            entry = dict(part.entries[index])
            if _ALIAS in entry:
                alias = ir.IntegerAttr(entry[_ALIAS])
                entry[_ALIAS] = ir.IntegerAttr.get(alias.type, numbers[alias.value])
            part.folded.append(entry)
        set_dictionaries(function, key, part.folded)


def use_instead(op: Operation, known: dict[Value, Value]) -> None:
    """Replace operands of an operation and of the operations inside it."""
    for each in (op, *op.walk()) if op.regions else (op,):
        for index, value in enumerate(each.operands):
            if value in known:
                each.operands[index] = known[value]


def set_arguments(block: Block, arguments: list[Value], locations: list[Location]) -> None:
    """Set the arguments of a block."""
    block.arguments, block.locations = arguments, locations
    for index, value in enumerate(arguments):
        value.index = index
