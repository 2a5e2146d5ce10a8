"""What a search decided, each decision with what it is worth and with the next best."""

from __future__ import annotations

from collections.abc import Callable

from gspmd.plan_search.global_starts import given_dims
from gspmd.plan_search.mesh_search import MeshSearch
from gspmd.plan_search.plan import PlanDecision
from gspmd.plan_search.pricing import State, rank, sharding_of
from gspmd.suggestions.annotating import GivenValue, ValueAnnotation
from gspmd.suggestions.source_patch import SourceLines, SourcePatch


def decisions_of(best: MeshSearch, may_price: Callable[[], bool]) -> tuple[PlanDecision, ...]:
    """Each with what it is worth, as long as there is time to find out."""
    prices, state = best.prices, best.state
    patches = _patches(best)
    open_states = best.left_open()
    while may_price() and any(other not in prices.exact for other in open_states):
        prices.price_some(open_states)
    found = []
    for number, (role, dims) in enumerate(zip(prices.roles.roles, state, strict=True)):
        others = {
            other[number]: price
            for other, price in prices.exact.items()
            if price is not None and other[number] != dims and _without(other, number) == _without(state, number)
        }
        next_ = min(others, key=lambda each: rank(others[each]), default=None)
        found.append(
            PlanDecision(
                label=role.label,
                arguments=role.names,
                shape=role.type.shape,
                type=role.type.brief,
                dims=dims if role.given is None else given_dims(role, prices.mesh),
                is_given=role.given is not None,
                is_pinned=role.label in best.pinned,
                worth=others.get(None),
                next_dims=next_,
                next_worth=others.get(next_),
                values=role.values,
                patches=tuple(dict.fromkeys(patches[value] for value in role.values if value in patches)),
            )
        )
    return tuple(found)


def _patches(best: MeshSearch) -> dict[GivenValue, SourcePatch]:
    """The changes of the source that constrain values inside; values whose expressions share lines have the same."""
    annotations = [
        ValueAnnotation(value, sharding_of(best.prices.mesh, dims))
        for role, dims in zip(best.prices.roles.roles, best.state, strict=True)
        if dims is not None
        for value in role.values
    ]
    patches = SourceLines(best.prices.module).patches(annotations)
    return {annotation.value: patch for annotation, patch in patches.items()}


def _without(state: State, number: int) -> tuple[object, ...]:
    return (*state[:number], *state[number + 1 :])
