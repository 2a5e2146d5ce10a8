"""Values inside a program that a search may constrain: what contractions and look-ups make, the large ones.

Between two of these elementwise operations follow each other, along which propagation carries a sharding. So one
constraint a kind is enough, as people write them: on what attention and the perceptron add to the residual stream, on
the heads, on the hidden units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gspmd.dialect.rule import FactorKind
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.role import DecidedRole
from gspmd.suggestions.annotating import GivenValue
from gspmd.suggestions.operation_times import bytes_of, operation_times
from gspmd.suggestions.source_patch import GRADIENT
from gspmd.suggestions.tied_dimensions import TiedDimensions
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import Hardware

_MOST = 12  # kinds that are decided upon
_LEAST = 0.02  # of the time of the kind that takes most, what a kind has to be worth

Kind = tuple[tuple[int, ...], tuple[int, ...]]
"""A shape, and the color of each dimension."""


def kind_of(tied: TiedDimensions, slot: int, type_: TensorType) -> Kind:
    """The kind of a slot's values."""
    return type_.shape, tuple(tied.of(slot, dimension) for dimension in range(len(type_.shape)))


def inner_roles(explained: Explanation, tied: TiedDimensions, hardware: Hardware) -> list[DecidedRole]:
    """A role for each kind of value that is worth a constraint, those that take most time first.

    Kinds of which the source computes none, but only its gradient, are left out: no line of the source could say it.
    """
    explainer = explained.explainer
    program = explainer.completion.annotated.program
    times_s: dict[Kind, float] = defaultdict(float)
    members: dict[Kind, list[tuple[GivenValue, TensorType]]] = defaultdict(list)
    told: set[Kind] = set()
    for op, time_s in _contractions(explained, hardware):
        value, slot = op.results[0], op.result_slots[0]
        type_, name = program.value_type[value], explainer.value_names[value]
        at = explained.names.place_of(name)
        if at is None:
            continue
        kind = kind_of(tied, slot, type_)
        times_s[kind] += time_s
        if GRADIENT not in str(op.ir.location):
            told.add(kind)
        known = GivenValue(*at, name, "", explainer.ops[op.index].location, type_.shape)
        if all(known != other for other, _ in members[kind]):
            members[kind].append((known, type_))
    least = _LEAST * max(times_s.values(), default=0.0)
    found = sorted((kind for kind in told if times_s[kind] >= least), key=lambda kind: (-times_s[kind], kind))
    return [_role(kind, members[kind]) for kind in found[:_MOST]]


def _role(kind: Kind, members: list[tuple[GivenValue, TensorType]]) -> DecidedRole:
    values = tuple(value for value, _ in members)
    type_ = max((type_ for _, type_ in members), key=bytes_of)
    return DecidedRole(f"values {values[0].name}", (), (), type_, kind[1], values=values)


def _contractions(explained: Explanation, hardware: Hardware) -> Iterator[tuple[Op, float]]:
    """Operations that sum over a dimension of several operands, or look values up, that nobody has annotated."""
    completion = explained.explainer.completion
    annotated, rules = completion.annotated, completion.rules.rules
    for node, time_s in operation_times(completion, hardware):
        op, rule = annotated.program.ops[node.op], rules[node.rule]
        ranked = sum(bool(operand) for operand in rule.operands)
        contracts = FactorKind.REDUCTION in rule.kinds and ranked > 1 and len(op.results) == 1
        if contracts and op.info.results[0].shape and annotated.of_op(op) is None:
            yield op, time_s
