"""Tied dimensions: those that an annotation on one of them splits together, by the rules of operations.

Annotations on the members of a group have about the same effect, so only one of each group has to be tried.
"""

from __future__ import annotations

from collections.abc import Iterator

from gspmd.transforms.propagate import Completion


class TiedDimensions:
    """The groups of dimensions of a program's slots, by number."""

    def __init__(self, completion: Completion) -> None:
        graph, rules = completion.graph, completion.rules.rules
        self._starts: list[int] = []
        total = 0
        for type_ in graph.slot_types:
            self._starts.append(total)
            total += len(type_.shape)
        self._parents = list(range(total))
        for node in graph.nodes:
            first: dict[int, int] = {}
            for slot, dims in zip(node.slots, rules[node.rule].tensors, strict=True):
                for dimension, factors in enumerate(dims):
                    if factors:  # the most major factor is the one that few devices split
                        place = self._starts[slot] + dimension
                        self._join(place, first.setdefault(factors[0], place))
        self._ranks = [type_.rank for type_ in graph.slot_types]
        for slot, leader in graph.leaders.items():
            self.join(slot, leader)

    def of(self, slot: int, dimension: int) -> int:
        """The group that a dimension is in."""
        return self._root(self._starts[slot] + dimension)

    def of_slots(self, slots: tuple[int, ...], ranks: tuple[int, ...]) -> Iterator[int]:
        """The groups that dimensions of any of the slots are in, each once."""
        yield from dict.fromkeys(
            self.of(slot, dimension) for slot, rank in zip(slots, ranks, strict=True) for dimension in range(rank)
        )

    def join(self, slot: int, other: int) -> None:
        """Tie the dimensions of two slots of one shape, in order."""
        for dimension in range(self._ranks[slot]):
            self._join(self._starts[slot] + dimension, self._starts[other] + dimension)

    def _root(self, place: int) -> int:
        parents = self._parents
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    def _join(self, left: int, right: int) -> None:
        self._parents[self._root(left)] = self._root(right)
