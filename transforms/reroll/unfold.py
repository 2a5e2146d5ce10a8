"""Putting layers back: see `fold.py`."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator

from jaxlib.mlir import ir

from gspmd.dialect.own_attributes import CAUSE
from gspmd.transforms.analysis.runs import CHANNEL, fingerprint, inputs
from gspmd.transforms.emit.collective_builder import channel_handle, channel_of
from gspmd.transforms.ir.collective_notes import RETURNED
from gspmd.transforms.ir.modules import context_of, declare_types
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.signature import dictionaries, set_dictionaries
from gspmd.transforms.reroll.fold import Ends, Fold, OpPlace, set_arguments, use_instead
from gspmd.transforms.reroll.layers import Key, LayerPlace, RunKey, corresponds

_INSIDE = -1
_NUMBERED = re.compile(re.escape(RETURNED) + r"\d+")
_UNNUMBERED = f"{RETURNED}?"


class Unlike(Exception):
    """The passes made of one layer what they did not make of the next."""


def unfold(function: Operation, fold: Fold) -> None:
    """Put the missing layers back. Raises Unlike, and leaves the function as it happens to be, where that cannot be."""
    _Unfolding(function, fold).run()


class _Unfolding:
    """`places` number layers such that the two in the middle are neighbours, `values` as the whole program does."""

    def __init__(self, function: Operation, fold: Fold) -> None:
        self.function, self.fold = function, fold
        self.block = function.regions[0]
        self.last = self.block.terminator
        self.middle = (fold.before, fold.before + 1)
        self.places: dict[Value, LayerPlace] = {}
        self.layer_of: dict[Operation, int] = {}
        self.origin: dict[Operation, tuple[RunKey, int, int]] = {}
        self.brought: dict[LayerPlace, int] = {}  # how many operations bring a value into form
        self.made: dict[RunKey, tuple[list[Operation], list[Operation]]] = {}  # of the layers in the middle, by run
        # By run and layer: the first operation, and the last.
        self.extents: dict[tuple[RunKey, int], tuple[Operation, Operation]] = {}
        self.added: list[Operation] = []
        self.values = collections.defaultdict[int, dict[Key, Value]](dict)  # by layer
        self.channel = 0

    def run(self) -> None:
        self._find()
        self._compare()
        self._check_users()
        for value, place in self.places.items():
            self.values[self._whole(place.layer)][place.key] = value
        arguments = self._whole_arguments()
        for _, point, run, layers in self._gaps():
            self._repeat(run, point, layers)
        returned = self._whole_results()
        self._rewire()
        self._check_order()
        self._number_results(returned)
        self._write(arguments, returned)

    # ---- what became of the layers ----

    def _find(self) -> None:
        fold, counts = self.fold, collections.Counter[OpPlace]()
        self.channel = max(map(channel_of, self.function.walk()), default=0)
        if len(self.block.arguments) != len(fold.arguments.kept) or len(self.last.operands) != len(fold.results.kept):
            raise Unlike("other arguments or results")
        for value, index in zip(self.block.arguments, fold.arguments.kept, strict=True):
            place = fold.arguments.places[index]
            if place is not None:
                self.places[value] = LayerPlace(place.key, self._folded(place.layer))
        for op in self.block:
            if op.location is self.last.location:
                self._forget_number(op)
                made = self._of_result(op)
            else:
                made = fold.origins.get(id(op.location))
                if made is not None:
                    made = OpPlace(made.key, self._folded(made.layer))
            if made is None or op is self.last:
                continue
            counts[made] += 1
            self.layer_of[op], self.origin[op] = made.layer, made.key
            for result in op.results:
                self.places[result] = LayerPlace((made.key, counts[made], result.index), made.layer)
            run, layer = made.key[0], self._whole(made.layer)
            self.extents[run, layer] = (self.extents.get((run, layer), (op, op))[0], op)
            if made.layer in self.middle:
                self.made.setdefault(run, ([], []))[made.layer - fold.before].append(op)

    def _of_result(self, op: Operation) -> OpPlace | None:
        """The place of an operation that brings a result into its form: it belongs to the layer that it uses.

        It is a run of its own, in which only the location is not known.
        """
        found = next((self.places[value] for value in inputs(op) if value in self.places), None)
        if found is None:
            return None
        number = self.brought[found] = self.brought.get(found, 0) + 1
        return OpPlace(((op.name, found.key, number), 0, _INSIDE), found.layer)

    def _forget_number(self, op: Operation) -> None:
        """Take the number of the result out of what an operation says it is there for."""
        cause = op.attributes.get(CAUSE)
        if cause is not None and cause.value.startswith(RETURNED):
            op.attributes[CAUSE] = ir.StringAttr.get(_NUMBERED.sub(_UNNUMBERED, cause.value), cause.context)

    def _number_results(self, returned: list[Value]) -> None:
        """Let operations that bring results into form stand in their order, and say of which one they do, the first."""
        seen: set[Operation] = set()
        for index, value in enumerate(returned):
            self._number_result(value, index, seen)

    def _number_result(self, value: Value, index: int, seen: set[Operation]) -> None:
        op = value.op
        if op is None or op in seen or op.location is not self.last.location:
            return
        seen.add(op)
        cause = op.attributes.get(CAUSE)
        if cause is not None:
            text = cause.value.replace(_UNNUMBERED, f"{RETURNED}{index}")
            op.attributes[CAUSE] = ir.StringAttr.get(text, cause.context)
        for used in inputs(op):
            self._number_result(used, index, seen)
        op.move(Point.at(self.last))

    def _folded(self, layer: int) -> int:
        return layer if layer <= self.fold.before else layer - len(self.fold.missing)

    def _whole(self, layer: int) -> int:
        return layer if layer <= self.fold.before else layer + len(self.fold.missing)

    def _compare(self) -> None:
        """Raise Unlike unless the two layers in the middle are the same."""
        for low, high in self.made.values():
            if len(low) != len(high):
                raise Unlike(f"{len(low)} and {len(high)} operations")
            for one, next_ in zip(low, high, strict=True):
                if self.origin[one] != self.origin[next_] or fingerprint(one) != fingerprint(next_):
                    raise Unlike(f"'{one.name}' and '{next_.name}'")
                for value, other in zip(inputs(one), inputs(next_), strict=True):
                    if not corresponds(value, other, self.places, self.fold.before, self.middle):
                        raise Unlike(f"'{one.name}' uses other values")

    def _check_users(self) -> None:
        """Raise Unlike where anything but a neighbour uses what one of the two layers made."""
        for value, place in self.places.items():
            if place.layer in self.middle:
                for user in value.users:
                    user = user.within(self.block)
                    layer = self.layer_of.get(user)
                    if user is not self.last and (layer is None or abs(layer - place.layer) > 1):
                        raise Unlike(f"'{user.name}' uses a value of another layer")

    # ---- the layers between ----

    def _whole_arguments(self) -> list[Value]:
        """All arguments of the whole function, those of missing layers made here."""
        ends = self.fold.arguments
        kept = dict(zip(ends.kept, self.block.arguments, strict=True))
        for index, place, low, high in self._missing(ends):
            if kept[low].type != kept[high].type:
                raise Unlike("arguments of other types")
            self.values[place.layer][place.key] = kept[index] = Value(kept[high].type, self.block, index)
        return [kept[index] for index in range(len(ends.places))]

    def _whole_results(self) -> list[Value]:
        """All that the whole function returns."""
        ends = self.fold.results
        kept = dict(zip(ends.kept, self.last.operands, strict=True))
        for index, place, low, high in self._missing(ends):
            if not corresponds(kept[low], kept[high], self.places, self.fold.before, self.middle):
                raise Unlike("results are other values")
            kept[index] = kept[high]
            if kept[low] is not kept[high]:
                key, layer = self.places[kept[high]]
                kept[index] = self._value(key, place.layer + layer - self.middle[1])
        return [kept[index] for index in range(len(ends.places))]

    def _missing(self, ends: Ends) -> Iterator[tuple[int, LayerPlace, int, int]]:
        """The missing arguments or results, their places, and those of the two layers beside them."""
        at = {place: index for index, place in enumerate(ends.places) if place is not None}
        for place, index in at.items():
            if place.layer in self.fold.missing:
                low, high = (at[LayerPlace(place.key, layer)] for layer in (self.fold.before, self.fold.behind))
                yield index, place, low, high

    def _gaps(self) -> list[tuple[Operation, Point, RunKey, list[int]]]:
        """The positions of missing layers, in program order: an operation beside, the position, the run, the layers.

        That is before what comes next in the run, or behind what came last.
        """
        gaps = []
        for run in self.made:
            missing: list[int] = []
            last: Operation | None = None
            layers = (
                self.fold.runs[run].layers if isinstance(run, int) else range(self.fold.before, self.fold.behind + 1)
            )
            for layer in layers:
                if layer in self.fold.missing:
                    missing.append(layer)
                elif (run, layer) in self.extents:
                    following, last = self.extents[run, layer]
                    if missing:
                        gaps.append((following, Point.at(following), run, missing))
                        missing = []
            if missing and last is not None:
                gaps.append((last, Point.after(last), run, missing))
        self.block.number()
        return sorted(gaps, key=lambda gap: gap[0].number)

    def _repeat(self, run: RunKey, point: Point, layers: list[int]) -> None:
        """Say missing layers of a run as the layer behind them says itself."""
        pattern = [(op, self.origin[op][1], self._of_layers(low, op)) for low, op in zip(*self.made[run], strict=True)]
        for layer in layers:
            start = self.fold.runs[run].operations(layer).start if isinstance(run, int) else 0
            for op, position, used in pattern:
                made = op.clone({value: self._value(key, layer + distance) for value, key, distance in used})
                made.insert(point)
                if not self.origin[op][2]:
                    made.location = self.fold.locations[start + position]
                for each in (made, *made.walk()) if made.regions else (made,):
                    if CHANNEL in each.attributes:
                        self.channel += 1
                        each.attributes[CHANNEL] = channel_handle(self.channel, context_of(self.function))
                for result, value in zip(op.results, made.results, strict=True):
                    self.values[layer][self.places[result].key] = value
                self.added.append(made)

    def _of_layers(self, low: Operation, high: Operation) -> list[tuple[Value, Key, int]]:
        """The values of layers that the operation after the missing layers uses: each with its key and its distance."""
        used = [value for other, value in zip(inputs(low), inputs(high), strict=True) if other is not value]
        return [(value, place.key, place.layer - self.middle[1]) for value in used for place in (self.places[value],)]

    def _value(self, key: Key, layer: int) -> Value:
        found = self.values[layer].get(key)
        if found is None:
            raise Unlike("a value is used before it is made")
        return found

    def _rewire(self) -> None:
        """Make the missing layers neighbours of those beside them."""
        below, above = self.middle
        first, last = self.fold.missing[0], self.fold.missing[-1]
        for lows, highs in self.made.values():
            for low, high in zip(lows, highs, strict=True):
                pairs = [pair for pair in zip(inputs(low), inputs(high), strict=True) if pair[0] is not pair[1]]
                self._use_of(low, [value for value, _ in pairs], above, first)
                self._use_of(high, [value for _, value in pairs], below, last)

    def _use_of(self, op: Operation, values: list[Value], neighbour: int, missing: int) -> None:
        """Let an operation use of a missing layer what it uses of the neighbour."""
        known = {}
        for value in values:
            place = self.places[value]
            if place.layer == neighbour:
                known[value] = self._value(place.key, missing)
        if known:
            use_instead(op, known)

    def _check_order(self) -> None:
        """Raise Unlike if something is used before it is made."""
        for ops in (self.added, *(each for both in self.made.values() for each in both)):
            for op in ops:
                for value in inputs(op):
                    if isinstance(value.owner, Operation) and not value.owner.precedes(op):
                        raise Unlike(f"'{op.name}' stands before what it uses")

    # ---- arguments and results ----

    def _write(self, arguments: list[Value], returned: list[Value]) -> None:
        fold, function, last = self.fold, self.function, self.last
        Operation(last.name, returned, [], last.attributes, last.location).insert(Point.at(last))
        last.erase()
        for key, ends in (("arg_attrs", fold.arguments), ("res_attrs", fold.results)):
            set_dictionaries(function, key, self._entries(ends, dictionaries(function, key, len(ends.kept))))
        set_arguments(self.block, arguments, fold.argument_locations)
        declare_types(function)

    def _entries(self, ends: Ends, now: list[dict[str, ir.Attribute]]) -> list[dict[str, ir.Attribute]]:
        """The attributes of all arguments or results: what the passes did not change is as it was."""
        found = dict(zip(ends.kept, zip(now, ends.folded, strict=True), strict=True))
        whole: list[dict[str, ir.Attribute]] = [{} for _ in ends.entries]
        for index, (entry, folded) in found.items():
            whole[index] = _changed(ends.entries[index], folded, entry)
        for index, _, low, high in self._missing(ends):
            entry, folded = found[high]
            whole[index] = _changed(ends.entries[index], folded, entry)
            other = _changed(ends.entries[index], found[low][1], found[low][0])
            if other != whole[index]:
                raise Unlike("arguments or results with other attributes")
        return whole


def _changed(
    entry: dict[str, ir.Attribute], before: dict[str, ir.Attribute], after: dict[str, ir.Attribute]
) -> dict[str, ir.Attribute]:
    """Attributes, changed as passes changed those of another operation; some stay the owner's own."""
    own = {name: attribute for name, attribute in entry.items() if name not in before and name not in after}
    return own | {
        name: entry[name] if name in entry and before.get(name) == attribute else attribute
        for name, attribute in after.items()
    }
