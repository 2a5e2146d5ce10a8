"""Insert removed layers again: see `fold.py`."""

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
from gspmd.transforms.reroll.fold import Fold, OpInLayer, SignaturePart, set_arguments, use_instead
from gspmd.transforms.reroll.layers import Key, RunKey, ValueInLayer, corresponds

_INSIDE = -1
_NUMBERED = re.compile(re.escape(RETURNED) + r"\d+")
_UNNUMBERED = f"{RETURNED}?"


class LayersDiffer(Exception):
    """The passes changed one layer differently from the next."""


def unfold(function: Operation, fold: Fold) -> None:
    """Insert the removed layers. Raises LayersDiffer if that is not possible; the function is then undefined."""
    _Unfolding(function, fold).run()


class _Unfolding:
    """Layers have the numbers of the folded function in `layer_values`, and those of the original in `values`."""

    def __init__(self, function: Operation, fold: Fold) -> None:
        self.function, self.fold = function, fold
        self.block = function.regions[0]
        self.last = self.block.terminator
        self.middle = (fold.before, fold.before + 1)
        self.layer_values: dict[Value, ValueInLayer] = {}
        self.layer_of: dict[Operation, int] = {}
        self.origin: dict[Operation, tuple[RunKey, int, int]] = {}
        self.conversions: dict[ValueInLayer, int] = {}  # the number of operations that change the form of a value
        self.middle_ops: dict[
            RunKey, tuple[list[Operation], list[Operation]]
        ] = {}  # by run: the operations of the two middle layers
        # By run and layer: the first and the last operation.
        self.extents: dict[tuple[RunKey, int], tuple[Operation, Operation]] = {}
        self.added: list[Operation] = []
        self.values = collections.defaultdict[int, dict[Key, Value]](dict)  # by layer
        self.channel = 0

    def run(self) -> None:
        self._find()
        self._compare()
        self._check_users()
        for value, member in self.layer_values.items():
            self.values[self._whole(member.layer)][member.key] = value
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
        fold, counts = self.fold, collections.Counter[OpInLayer]()
        self.channel = max(map(channel_of, self.function.walk()), default=0)
        if len(self.block.arguments) != len(fold.arguments.kept) or len(self.last.operands) != len(fold.results.kept):
            raise LayersDiffer("other arguments or results")
        for value, index in zip(self.block.arguments, fold.arguments.kept, strict=True):
            member = fold.arguments.layer_values[index]
            if member is not None:
                self.layer_values[value] = ValueInLayer(member.key, self._folded(member.layer))
        for op in self.block:
            if op.location is self.last.location:
                self._forget_number(op)
                made = self._result_conversion(op)
            else:
                made = fold.origins.get(id(op.location))
                if made is not None:
                    made = OpInLayer(made.key, self._folded(made.layer))
            if made is None or op is self.last:
                continue
            counts[made] += 1
            self.layer_of[op], self.origin[op] = made.layer, made.key
            for result in op.results:
                self.layer_values[result] = ValueInLayer((made.key, counts[made], result.index), made.layer)
            run, layer = made.key[0], self._whole(made.layer)
            self.extents[run, layer] = (self.extents.get((run, layer), (op, op))[0], op)
            if made.layer in self.middle:
                self.middle_ops.setdefault(run, ([], []))[made.layer - fold.before].append(op)

    def _result_conversion(self, op: Operation) -> OpInLayer | None:
        """The layer of an operation that changes the form of a result: the layer of its operand.

        It gets a run of its own. Its location is that of the terminator.
        """
        found = next((self.layer_values[value] for value in inputs(op) if value in self.layer_values), None)
        if found is None:
            return None
        number = self.conversions[found] = self.conversions.get(found, 0) + 1
        return OpInLayer(((op.name, found.key, number), 0, _INSIDE), found.layer)

    def _forget_number(self, op: Operation) -> None:
        """Remove the number of the result from the cause of an operation."""
        cause = op.attributes.get(CAUSE)
        if cause is not None and cause.value.startswith(RETURNED):
            op.attributes[CAUSE] = ir.StringAttr.get(_NUMBERED.sub(_UNNUMBERED, cause.value), cause.context)

    def _number_results(self, returned: list[Value]) -> None:
        """Order operations that change the form of results by result, and write the result into their cause."""
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
        """Raise LayersDiffer unless the two layers in the middle are the same."""
        for low, high in self.middle_ops.values():
            if len(low) != len(high):
                raise LayersDiffer(f"{len(low)} and {len(high)} operations")
            for one, next_ in zip(low, high, strict=True):
                if self.origin[one] != self.origin[next_] or fingerprint(one) != fingerprint(next_):
                    raise LayersDiffer(f"'{one.name}' and '{next_.name}'")
                for value, other in zip(inputs(one), inputs(next_), strict=True):
                    if not corresponds(value, other, self.layer_values, self.fold.before, self.middle):
                        raise LayersDiffer(f"'{one.name}' uses other values")

    def _check_users(self) -> None:
        """Raise LayersDiffer if another operation than those of neighboring layers uses values of the two layers."""
        for value, member in self.layer_values.items():
            if member.layer in self.middle:
                for user in value.users:
                    user = user.within(self.block)
                    layer = self.layer_of.get(user)
                    if user is not self.last and (layer is None or abs(layer - member.layer) > 1):
                        raise LayersDiffer(f"'{user.name}' uses a value of another layer")

    # ---- the layers between ----

    def _whole_arguments(self) -> list[Value]:
        """All arguments of the whole function; those of removed layers are created here."""
        part = self.fold.arguments
        kept = dict(zip(part.kept, self.block.arguments, strict=True))
        for index, member, low, high in self._missing(part):
            if kept[low].type != kept[high].type:
                raise LayersDiffer("arguments of other types")
            self.values[member.layer][member.key] = kept[index] = Value(kept[high].type, self.block, index)
        return [kept[index] for index in range(len(part.layer_values))]

    def _whole_results(self) -> list[Value]:
        """The returned values of the whole function."""
        part = self.fold.results
        kept = dict(zip(part.kept, self.last.operands, strict=True))
        for index, member, low, high in self._missing(part):
            if not corresponds(kept[low], kept[high], self.layer_values, self.fold.before, self.middle):
                raise LayersDiffer("results are other values")
            kept[index] = kept[high]
            if kept[low] is not kept[high]:
                key, layer = self.layer_values[kept[high]]
                kept[index] = self._value(key, member.layer + layer - self.middle[1])
        return [kept[index] for index in range(len(part.layer_values))]

    def _missing(self, part: SignaturePart) -> Iterator[tuple[int, ValueInLayer, int, int]]:
        """The removed arguments or results: index, layer value, and the indices in the two layers beside them."""
        at = {member: index for index, member in enumerate(part.layer_values) if member is not None}
        for member, index in at.items():
            if member.layer in self.fold.missing:
                low, high = (at[ValueInLayer(member.key, layer)] for layer in (self.fold.before, self.fold.behind))
                yield index, member, low, high

    def _gaps(self) -> list[tuple[Operation, Point, RunKey, list[int]]]:
        """The gaps of removed layers in program order: an operation beside it, the point, the run, and the layers.

        A gap is before the next layer of the run, or after the last one.
        """
        gaps = []
        for run in self.middle_ops:
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
        """Insert removed layers of a run as copies of the layer after them."""
        pattern = [
            (op, self.origin[op][1], self._of_layers(low, op)) for low, op in zip(*self.middle_ops[run], strict=True)
        ]
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
                    self.values[layer][self.layer_values[result].key] = value
                self.added.append(made)

    def _of_layers(self, low: Operation, high: Operation) -> list[tuple[Value, Key, int]]:
        """The values of layers that an operation after the gap uses, with their keys and layer distances."""
        used = [value for other, value in zip(inputs(low), inputs(high), strict=True) if other is not value]
        return [
            (value, member.key, member.layer - self.middle[1])
            for value in used
            for member in (self.layer_values[value],)
        ]

    def _value(self, key: Key, layer: int) -> Value:
        found = self.values[layer].get(key)
        if found is None:
            raise LayersDiffer("a value is used before its definition")
        return found

    def _rewire(self) -> None:
        """Connect the inserted layers to the layers beside them."""
        below, above = self.middle
        first, last = self.fold.missing[0], self.fold.missing[-1]
        for lows, highs in self.middle_ops.values():
            for low, high in zip(lows, highs, strict=True):
                pairs = [pair for pair in zip(inputs(low), inputs(high), strict=True) if pair[0] is not pair[1]]
                self._use_of(low, [value for value, _ in pairs], above, first)
                self._use_of(high, [value for _, value in pairs], below, last)

    def _use_of(self, op: Operation, values: list[Value], neighbor: int, missing: int) -> None:
        """Replace the values of `neighbor` that an operation uses by those of an inserted layer."""
        known = {}
        for value in values:
            member = self.layer_values[value]
            if member.layer == neighbor:
                known[value] = self._value(member.key, missing)
        if known:
            use_instead(op, known)

    def _check_order(self) -> None:
        """Raise LayersDiffer if a value is used before its definition."""
        for ops in (self.added, *(each for both in self.middle_ops.values() for each in both)):
            for op in ops:
                for value in inputs(op):
                    if isinstance(value.owner, Operation) and not value.owner.precedes(op):
                        raise LayersDiffer(f"'{op.name}' precedes an operand")

    # ---- arguments and results ----

    def _write(self, arguments: list[Value], returned: list[Value]) -> None:
        fold, function, last = self.fold, self.function, self.last
        Operation(last.name, returned, [], last.attributes, last.location).insert(Point.at(last))
        last.erase()
        for key, part in (("arg_attrs", fold.arguments), ("res_attrs", fold.results)):
            set_dictionaries(function, key, self._entries(part, dictionaries(function, key, len(part.kept))))
        set_arguments(self.block, arguments, fold.argument_locations)
        declare_types(function)

    def _entries(self, part: SignaturePart, now: list[dict[str, ir.Attribute]]) -> list[dict[str, ir.Attribute]]:
        """The attributes of all arguments or results; those that the passes did not change are the original ones."""
        found = dict(zip(part.kept, zip(now, part.folded, strict=True), strict=True))
        whole: list[dict[str, ir.Attribute]] = [{} for _ in part.entries]
        for index, (entry, folded) in found.items():
            whole[index] = _changed(part.entries[index], folded, entry)
        for index, _, low, high in self._missing(part):
            entry, folded = found[high]
            whole[index] = _changed(part.entries[index], folded, entry)
            other = _changed(part.entries[index], found[low][1], found[low][0])
            if other != whole[index]:
                raise LayersDiffer("arguments or results with other attributes")
        return whole


def _changed(
    entry: dict[str, ir.Attribute], before: dict[str, ir.Attribute], after: dict[str, ir.Attribute]
) -> dict[str, ir.Attribute]:
    """The attributes `entry` with the change from `before` to `after`; attributes in neither of these stay."""
    own = {name: attribute for name, attribute in entry.items() if name not in before and name not in after}
    return own | {
        name: entry[name] if name in entry and before.get(name) == attribute else attribute
        for name, attribute in after.items()
    }
