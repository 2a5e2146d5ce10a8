"""Collectives. All but permutes are moves from the members of a group, and sums over these."""

from __future__ import annotations

import numpy as np

from gspmd.dialect.group_axes import names_axes, read_group_axes
from gspmd.transforms.ir.collective_groups import groups_of, has_channel
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.operations import Operation
from gspmd.verification.attributes import integer, reducer, shape_of, table
from gspmd.verification.index_maps import IndexMap, Integers, Label, composed, counted, dim, integer_map, pointwise
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.not_known import NotKnown
from gspmd.verification.values import SymbolicValue


def _groups(machine: Execution, op: Operation) -> Integers:
    """[groups, members] of partition ids. Raises NotKnown for groups that leave devices out."""
    _check_channel(op)
    attribute = groups_of(op)
    if names_axes(attribute):
        return replica_groups(*read_group_axes(attribute, machine.codec.meshes))
    groups = table(attribute, shape_of(attribute))
    if not groups.size:
        groups = np.arange(machine.devices.count).reshape(1, -1)
    if (groups < 0).any() or groups.size != machine.devices.count:
        raise NotKnown("groups of different sizes")
    return groups


def _all_gather(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    groups, along = _groups(machine, op), integer(op, "all_gather_dim")
    return [_gathered(machine, value, groups, along) for value in values]


def _gathered(machine: Execution, value: SymbolicValue, groups: Integers, along: int) -> SymbolicValue:
    size, count = value.shape[along], groups.shape[1]
    shape = (*value.shape[:along], size * count, *value.shape[along + 1 :])
    index = np.arange(size * count)
    places = _from_members(machine, groups, dim(along), integer_map([dim(along)], index // max(size, 1)))
    places[dim(along)] = integer_map([dim(along)], index % max(size, 1))
    return machine.algebra.moved(value, shape, places)


def _from_members(machine: Execution, groups: Integers, label: Label, member: IndexMap) -> dict[Label, IndexMap]:
    """The digits of the member of the group that a label numbers."""
    own = Label("member", 0)
    places = machine.devices.members(groups, own)
    return {at: composed(place, {own: member}) for at, place in places.items()}


def summed(machine: Execution, monoid: str, value: SymbolicValue, groups: Integers) -> SymbolicValue:
    """The values of the members of every group, combined."""
    algebra, rank = machine.algebra, len(value.shape)
    own = Label("member", 0)
    places = machine.devices.members(groups, own)
    radices = {at: machine.devices.radices[at.number] for at in places}
    if int(np.prod(list(radices.values()), dtype=np.int64)) == groups.shape[1] and all(
        place.labels == (own,) for place in places.values()
    ):
        for at, radix in radices.items():
            spread = algebra.moved(value, (*value.shape, radix), {at: counted(dim(rank), radix)})
            value = algebra.total(monoid, spread, rank)
        return value
    member = {own: counted(dim(rank), groups.shape[1])}
    moved = {at: composed(place, member) for at, place in places.items()}
    spread = algebra.moved(value, (*value.shape, groups.shape[1]), moved)
    return algebra.total(monoid, spread, rank)


def _monoid(op: Operation) -> str:
    monoid = reducer(op.regions[0])
    if monoid is None:
        raise NotKnown("a collective that reduces by a custom function")
    return monoid


def _all_reduce(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    groups = _groups(machine, op)
    return [summed(machine, _monoid(op), value, groups) for value in values]


def _reduce_scatter(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    groups, along = _groups(machine, op), integer(op, "scatter_dimension")
    whole = summed(machine, _monoid(op), values[0], groups)
    shape = op.results[0].type.shape
    place = _own_part(machine, groups, along, shape[along])
    return [machine.algebra.moved(whole, shape, {dim(along): place})]


def _own_part(machine: Execution, groups: Integers, along: int, size: int) -> IndexMap:
    """The place of the shard that a device has by its index in the group."""
    return pointwise(lambda rank, i: rank * size + i, machine.devices.rank(groups), counted(dim(along), size))


def _all_to_all(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    groups = _groups(machine, op)
    split, joined = integer(op, "split_dimension"), integer(op, "concat_dimension")
    return [_exchanged(machine, value, groups, split, joined) for value in values]


def _exchanged(machine: Execution, value: SymbolicValue, groups: Integers, split: int, joined: int) -> SymbolicValue:
    count = groups.shape[1]
    sizes = list(value.shape)
    part = sizes[split] // count
    sizes[split] = part
    if split == joined:
        sizes[joined] *= count
        index = np.arange(sizes[joined])
        member = integer_map([dim(joined)], index // max(part, 1))
        offset = integer_map([dim(joined)], index % max(part, 1))
        place = pointwise(lambda rank, i: rank * part + i, machine.devices.rank(groups), offset)
        places = _from_members(machine, groups, dim(joined), member) | {dim(split): place}
        return machine.algebra.moved(value, sizes, places)
    size = sizes[joined]
    sizes[joined] = size * count
    index = np.arange(size * count)
    places = _from_members(machine, groups, dim(joined), integer_map([dim(joined)], index // max(size, 1)))
    places[dim(joined)] = integer_map([dim(joined)], index % max(size, 1))
    places[dim(split)] = _own_part(machine, groups, split, part)
    return machine.algebra.moved(value, sizes, places)


def _check_channel(op: Operation) -> None:
    """Raise NotKnown for a collective over groups of replicas."""
    if not has_channel(op):
        raise NotKnown("a collective without a channel, which is over replicas")


def _collective_permute(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    _check_channel(op)
    attribute = groups_of(op)
    places, reached = machine.devices.sources(table(attribute, shape_of(attribute)))
    algebra = machine.algebra
    made = []
    for value in values:
        moved = algebra.moved(value, value.shape, places)
        made.append(algebra.choice(reached, moved, algebra.zero(value.element, value.shape)))
    return made


def _collective_broadcast(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    groups = _groups(machine, op)
    first = composed_first(machine, groups)
    return [machine.algebra.moved(value, value.shape, first) for value in values]


def composed_first(machine: Execution, groups: Integers) -> dict[Label, IndexMap]:
    """The digits of the first member of a group."""
    return _from_members(machine, groups, dim(0), integer_map([], 0))


MEANINGS: dict[str, Meaning] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_permute": _collective_permute,
    "stablehlo.collective_broadcast": _collective_broadcast,
}
