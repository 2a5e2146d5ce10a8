"""Opaque operations, of which only the dimensions are known along which they compute element by element.

These pass through their sharding rule. Along all others, operands are whole: the result is the same function of the
same whole operands, or it is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.dialect.errors import Error
from gspmd.dialect.rule import PASS_THROUGH, OpShardingRule
from gspmd.transforms.ir.op_info import InfoReader, has_side_effect
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops import every_row
from gspmd.verification.index_maps import IndexMap, Label, all_along, bound, counted, dim
from gspmd.verification.meaning.elementwise import described
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.not_known import NotKnown
from gspmd.verification.terms import INDEX, Instance, Opaque, free_label
from gspmd.verification.values import SymbolicValue


def opaque(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    """The results of an operation, as terms that follow from its rule."""
    if has_side_effect(op.attributes):
        raise NotKnown("an operation with side effects")
    rule = _rule(op)
    passing = _passing(rule) if rule is not None else set()
    placed = [
        {of[0]: d for d, of in enumerate(dims) if len(of) == 1 and of[0] in passing}
        for dims in (rule.results if rule is not None else [()] * len(op.results))
    ]
    wholes = [
        tuple((d, size) for d, size in enumerate(result.type.shape) if d not in places.values())
        for result, places in zip(op.results, placed, strict=True)
    ]
    key = (
        *described(op),
        tuple((result.type.element, sizes) for result, sizes in zip(op.results, wholes, strict=True)),
    )
    found = []
    for number, result in enumerate(op.results):
        shape, places, sizes = result.type.shape, placed[number], wholes[number]
        parts: list[Instance] = []
        layout: list[tuple[int | tuple[str, int], ...]] = []
        valid: list[IndexMap] = []
        labels = begin = first_free(values)
        for value, dims in zip(values, rule.operands if rule is not None else [()] * len(values), strict=True):
            part, kinds, masks, labels = _operand(machine, value, dims, places, shape, labels)
            parts.append(part)
            layout.append(kinds)
            valid += masks
        own = [(INDEX, counted(dim(d), size)) for d, size in sizes]
        operation = (*key, number, tuple(layout), tuple(sorted(places.values())), begin)
        machine.algebra.terms.opaque[operation] = Opaque(op, number, begin, tuple(layout), sizes)
        term = machine.algebra.terms.make(operation, result.type.element, parts, own)
        found.append(machine.algebra.of(term, shape, valid))
    return found


def first_free(values: Sequence[SymbolicValue]) -> int:
    """The number of a bound label that no value depends on or binds; whole operands inside terms have bound labels."""
    return max((max(free_label((*v.bindings, *v.valid)), v.term.free_label) for v in values), default=0)


def _operand(
    machine: Execution,
    value: SymbolicValue,
    dims: Sequence[tuple[int, ...]],
    places: dict[int, int],
    shape: Sequence[int],
    labels: int,
) -> tuple[Instance, tuple[int | tuple[str, int], ...], list[IndexMap], int]:
    """An operand, with passing dimensions as in the result and the others bound; the kind of each; its validity."""
    moved: dict[Label, IndexMap] = {}
    kinds: list[int | tuple[str, int]] = []
    bound_labels = []
    for d, size in enumerate(value.shape):
        factors = dims[d] if d < len(dims) else ()
        if len(factors) == 1 and factors[0] in places:
            moved[dim(d)] = counted(dim(places[factors[0]]), size)
            kinds.append(places[factors[0]])
        else:
            moved[dim(d)] = counted(bound(labels), size)
            kinds.append(("whole", size))
            bound_labels.append(bound(labels))
            labels += 1
    # dimensions get labels that no value has, all at once, so that none is confused with another
    made = machine.algebra.moved(value, value.shape, moved)
    return made.instance, tuple(kinds), [all_along(mask, bound_labels) for mask in made.valid], labels


def _rule(op: Operation) -> OpShardingRule | None:
    row = every_row().get(op.name)
    if row is None:
        return None
    info = InfoReader()(op, tuple(operand.type for operand in op.operands))
    try:
        return row.rule(info)
    except Error:
        return None


def _passing(rule: OpShardingRule) -> set[int]:
    """The factors along which the operation computes element by element: single dimensions of all results.

    A factor of no operand is none of these, as the result depends on the index along it.
    """
    found = set()
    taken = {factor for tensor in rule.operands for dims in tensor for factor in dims}
    for factor, kind in enumerate(rule.kinds):
        alone = all(any(dims == (factor,) for dims in tensor) for tensor in rule.results) and all(
            dims == (factor,) for tensor in rule.tensors for dims in tensor if factor in dims
        )
        if kind is PASS_THROUGH and alone and factor in taken - rule.blocked:
            found.add(factor)
    return found


_DEVICES = frozenset({"stablehlo.rng"})  # not a function of its operands

MEANINGS: dict[str, Meaning] = {
    name: opaque
    for name, row in every_row().items()
    if row.traits.is_plain and not row.traits.communicates and name not in _DEVICES and "." in name
}
