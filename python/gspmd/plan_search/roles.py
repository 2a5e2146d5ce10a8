"""The roles of a search: corresponding arguments of repeated layers, and values inside of one kind.

Names of corresponding arguments differ only in numbers: `params['layers'][3]['up']` and `params['layers'][4]['up']`. If
arguments have no names, layers are found by their operations. Values inside are large results of contractions and
look-ups, grouped by shape and by tied dimensions: the residual stream, the heads, the hidden units. Between these are
elementwise operations, along which propagation carries shardings.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gspmd.dialect.rule import REDUCTION
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.operation_times import bytes_of, operation_times
from gspmd.plan_search.tied_dimensions import TiedDimensions
from gspmd.suggestions.annotating import GivenValue
from gspmd.suggestions.source_patch import GRADIENT
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.reroll import KEPT
from gspmd.transforms.reroll.layers import find_layers

_NUMBER = re.compile(r"(?<=\[)\d+(?=\])|(?<=_)\d+(?=')")
_MAX = 12  # largest number of kinds of values inside
_MIN = 0.02  # smallest time of a kind, relative to the longest one


@dataclasses.dataclass(frozen=True, slots=True)
class DecidedRole:
    """Arguments that get one sharding: they have one type, and names that differ only in numbers (`*`).

    Or `values` inside the program instead of `arguments`, which are numbers. `colors` has a number for each dimension:
    dimensions of the same color are tied by sharding rules. `given` is the annotation, None for a variable. `is_state`
    says that the program returns values of this type, as it does for weights that it updates. For values inside, `made`
    are the numbers of their producers in the explained program, and `times_s` the seconds that these take.
    """

    label: str
    names: tuple[str, ...]
    arguments: tuple[int, ...]
    type: TensorType
    colors: tuple[int, ...]
    given: TensorSharding | None = None
    is_state: bool = False
    values: tuple[GivenValue, ...] = ()
    made: tuple[int, ...] = ()
    times_s: tuple[float, ...] = ()

    @property
    def bytes(self) -> float:
        """The bytes of all of its arguments or values together, unsplit."""
        return (len(self.arguments) + len(self.values)) * bytes_of(self.type)


@dataclasses.dataclass(frozen=True, slots=True)
class Roles:
    """The roles of all arguments, then of values inside; for each color the seconds of its operations.

    `tied` has the colors of all values.
    """

    roles: tuple[DecidedRole, ...]
    times_s: dict[int, float]
    tied: TiedDimensions

    def batch_color(self, sizes: Sequence[int]) -> int | None:
        """The batch color: that of the most operations among those only of data, which most axes of these sizes divide.

        A color that no value has twice comes first: positions attend to positions, but examples do not interact. If the
        program updates something per example, such as a cache, that has the color, too.
        """
        arguments = [role for role in self.roles if role.arguments]
        state = {color for role in arguments if role.is_state for color in role.colors}
        inputs = {color for role in arguments if not role.is_state for color in role.colors}
        every = {color for role in arguments for color in role.colors}
        twice = {color for role in self.roles for color in role.colors if role.colors.count(color) > 1}
        for colors in (every - state, inputs):
            ordered = sorted(colors, key=lambda color: (-self.times_s.get(color, 0.0), color))
            found = max(ordered, key=lambda color: (self._shards(color, sizes), color not in twice), default=None)
            if found is not None and self._shards(found, sizes) > 1:
                return found
        return None

    def _shards(self, color: int, sizes: Sequence[int]) -> int:
        most = 1
        for role in self.roles:
            for n in (n for n, each in zip(role.type.shape, role.colors, strict=True) if each == color):
                count = 1
                for size in sizes:
                    count *= size if n % (count * size) == 0 else 1
                most = max(most, count) if role.arguments else most
        return most


def find_roles(explained: Explanation, hardware: Hardware) -> Roles:
    """The roles of an explained program's arguments, and of the values inside that may be constrained.

    Call this before the program is partitioned.
    """
    explainer = explained.explainer
    annotated, tied = explainer.completion.annotated, TiedDimensions(explainer.completion)
    program, types = annotated.program, explainer.completion.graph.slot_types
    labels = [label or explainer.value_names[value] for value, label in
              zip(program.body.arguments, explainer.argument_labels, strict=True)]  # fmt: skip
    members = _members(annotated, labels)
    slots = [program.slot_of(value) for value in program.body.arguments]
    for numbers in members.values():
        for number in numbers[1:]:
            tied.join(slots[numbers[0]], slots[number])
    times_s: dict[int, float] = defaultdict(float)
    for node, time_s in operation_times(explainer.completion, hardware):
        for color in tied.of_slots(node.slots, tuple(types[slot].rank for slot in node.slots)):
            times_s[color] += time_s
    results = {program.value_type[value] for value in program.body.returned}
    roles = tuple(
        DecidedRole(
            label
            if isinstance(label, str) and len(numbers) > 1
            else " .. ".join(dict.fromkeys((labels[numbers[0]], labels[numbers[-1]]))),
            tuple(labels[number] for number in numbers),
            tuple(numbers),
            type_,
            tuple(tied.of(slots[numbers[0]], dimension) for dimension in range(type_.rank)),
            given,
            type_ in results,
        )
        for (label, type_, given), numbers in members.items()
    )
    return Roles((*roles, *_inner_roles(explained, tied, hardware)), dict(times_s), tied)


def _members(
    annotated: AnnotatedProgram, labels: Sequence[str]
) -> dict[tuple[object, TensorType, TensorSharding | None], list[int]]:
    """Arguments grouped by name or by their position in their layer, and by type and annotation."""
    program, keys = annotated.program, _layer_keys(annotated)
    members: dict[tuple[object, TensorType, TensorSharding | None], list[int]] = defaultdict(list)
    for number, (value, given) in enumerate(zip(program.body.arguments, annotated.arguments, strict=True)):
        type_ = program.value_type[value]
        if type_.shape:
            said = given if given is not None and given.says_something() else None
            name = keys.get(number, labels[number]) if labels[number].startswith("%") else labels[number]
            members[_NUMBER.sub("*", name) if isinstance(name, str) else name, type_, said].append(number)
    return members


def _layer_keys(annotated: AnnotatedProgram) -> dict[int, int]:
    """The position of an argument in its repeated layer, by number."""
    block = annotated.function.regions[0]
    found = find_layers(list(block), block.arguments, (1, *KEPT), 1)
    if found is None:
        return {}
    layers, _ = found
    return {
        number: int(layers.key[number])
        for number in range(len(block.arguments))
        if layers.key[number] >= 0 and layers.first <= layers.layer[number] <= layers.last
    }


# ---- values inside ----


def _inner_roles(explained: Explanation, tied: TiedDimensions, hardware: Hardware) -> list[DecidedRole]:
    """A role for each kind of value that is worth a constraint, those with the most time first.

    Kinds that occur only as gradients are left out, since no source line could constrain them.
    """
    explainer = explained.explainer
    program = explainer.completion.annotated.program
    members: dict[object, list[tuple[GivenValue, Op, float]]] = defaultdict(list)
    told: set[object] = set()
    for op, time_s in _contractions(explained, hardware):
        value, slot = op.results[0], op.result_slots[0]
        shape, name = program.value_type[value].shape, explainer.value_names[value]
        at = explained.names.place_of(name)
        if at is None:
            continue
        kind = shape, tuple(tied.of(slot, dimension) for dimension in range(len(shape)))
        if GRADIENT not in str(op.ir.location):
            told.add(kind)
        known = GivenValue(*at, name, "", explainer.ops[op.index].location, shape)
        if all(known != other for other, _, _ in members[kind]):
            members[kind].append((known, op, time_s))
    times_s = {kind: sum(time_s for _, _, time_s in members[kind]) for kind in told}
    least = _MIN * max(times_s.values(), default=0.0)
    ordered = sorted((kind for kind in told if times_s[kind] >= least), key=lambda kind: -times_s[kind])
    return [_inner_role(members[kind], tied) for kind in ordered[:_MAX]]


def _inner_role(members: Sequence[tuple[GivenValue, Op, float]], tied: TiedDimensions) -> DecidedRole:
    values, ops, times_s = zip(*members, strict=True)
    slot, type_ = ops[0].result_slots[0], max((op.info.results[0] for op in ops), key=bytes_of)
    colors = tuple(tied.of(slot, dimension) for dimension in range(type_.rank))
    made = tuple(op.index for op in ops)
    return DecidedRole(f"values {values[0].name}", (), (), type_, colors, values=values, made=made, times_s=times_s)


def _contractions(explained: Explanation, hardware: Hardware) -> Iterator[tuple[Op, float]]:
    """Contractions and look-ups without an annotation."""
    completion = explained.explainer.completion
    annotated, rules = completion.annotated, completion.rules.rules
    for node, time_s in operation_times(completion, hardware):
        op, rule = annotated.program.ops[node.op], rules[node.rule]
        ranked = sum(bool(operand) for operand in rule.operands)
        contracts = REDUCTION in rule.kinds and ranked > 1 and len(op.results) == 1
        if contracts and op.info.results[0].shape and annotated.of_op(op) is None:
            yield op, time_s
