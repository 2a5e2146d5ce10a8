"""Arguments that have to be decided upon together: those that do the same in layers that repeat.

Frameworks call them alike but for numbers: `params['layers'][3]['up']` and `params['layers'][4]['up']`. Where arguments
have no names, the layers are found by their operations.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.inner_roles import inner_roles
from gspmd.plan_search.role import DecidedRole, Roles
from gspmd.suggestions.operation_times import operation_times
from gspmd.suggestions.tied_dimensions import TiedDimensions
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.reroll import KEPT
from gspmd.transforms.reroll.layers import find_layers

_NUMBER = re.compile(r"(?<=\[)\d+(?=\])|(?<=_)\d+(?=')")


def tied_of(explained: Explanation) -> TiedDimensions:
    """The dimensions of a program that rules tie to each other, by their colors; `find_roles` ties more of them."""
    return TiedDimensions(explained.explainer.completion)


def find_roles(explained: Explanation, hardware: Hardware, tied: TiedDimensions) -> Roles:
    """The roles of an explained program's arguments, and of the values inside that may be constrained.

    It has to be called before the program is partitioned.
    """
    explainer = explained.explainer
    annotated = explainer.completion.annotated
    program = annotated.program
    members: dict[tuple[object, TensorType, TensorSharding | None], list[int]] = defaultdict(list)
    labels = [label or explainer.value_names[value] for value, label in
              zip(program.body.arguments, explainer.argument_labels, strict=True)]  # fmt: skip
    keys = _layer_keys(annotated)
    for number, (value, given) in enumerate(zip(program.body.arguments, annotated.arguments, strict=True)):
        type_ = program.value_type[value]
        if type_.shape:
            said = given if given is not None and given.says_something() else None
            name = keys.get(number, labels[number]) if labels[number].startswith("%") else labels[number]
            members[_NUMBER.sub("*", name) if isinstance(name, str) else name, type_, said].append(number)
    slots = [program.slot_of(value) for value in program.body.arguments]
    for numbers in members.values():
        for number in numbers[1:]:
            tied.join(slots[numbers[0]], slots[number])
    times_s: dict[int, float] = defaultdict(float)
    types: Sequence[TensorType] = explainer.completion.graph.slot_types
    for node, time_s in operation_times(explainer.completion, hardware):
        for color in tied.of_slots(node.slots, tuple(types[slot].rank for slot in node.slots)):
            times_s[color] += time_s
    results = {program.value_type[value] for value in program.body.returned}
    roles = tuple(
        DecidedRole(
            label
            if isinstance(label, str) and len(numbers) > 1
            else " .. ".join(dict.fromkeys(_ends(labels, numbers))),
            tuple(labels[number] for number in numbers),
            tuple(numbers),
            type_,
            tuple(tied.of(slots[numbers[0]], dimension) for dimension in range(type_.rank)),
            given,
            type_ in results,
        )
        for (label, type_, given), numbers in members.items()
    )
    return Roles((*roles, *inner_roles(explained, tied, hardware)), dict(times_s))


def _ends(labels: Sequence[str], numbers: Sequence[int]) -> tuple[str, str]:
    """What the first and the last of some arguments are called."""
    return labels[numbers[0]], labels[numbers[-1]]


def _layer_keys(annotated: AnnotatedProgram) -> dict[int, int]:
    """Which value of its layer an argument is, by number, for those of layers that repeat."""
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
