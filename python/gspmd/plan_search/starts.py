"""Where a search starts: the ways to split a model that people know, as far as they fit a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.pricing import Dims, State, divides
from gspmd.plan_search.role import DecidedRole, Roles

AS_IT_IS, DATA, FULLY_SHARDED = "as it is", "data parallel", "fully sharded"
TWO_DIMENSIONAL, STATIONARY = "two-dimensional", "weight-stationary"
TENSOR, TENSOR_SHARDED = "tensor parallel", "tensor parallel, fully sharded"
KNOWN_WAYS = frozenset((DATA, FULLY_SHARDED, TWO_DIMENSIONAL, STATIONARY, TENSOR, TENSOR_SHARDED))
"""What people write."""
_SMALL_BYTES = 4096.0  # an argument that is not worth splitting
_SMALL = 1e-3  # of the largest weight, below which weight-stationary leaves one to propagation


def starts(roles: Roles, mesh: Mesh) -> dict[str, State]:
    """States by name: nothing decided; and, where it is known what the batch is, four ways to split a model.

    Data parallel: the batch over all axes, everything else whole. Fully sharded: the other arguments split over all
    axes, too, as in FSDP and ZeRO-3. Values inside that have the batch are split by it as well. Two-dimensional and
    weight-stationary: see `_two_dimensional`.
    """
    nothing: State = tuple(None for _ in roles.roles)
    found = {AS_IT_IS: nothing}
    names, batch = tuple(name for name, size in mesh.axes if size > 1), batch_color(roles, mesh)
    if batch is None:
        return found
    data = with_color(roles, mesh, nothing, batch, names, inside=True)
    found[DATA] = _rest(roles, data, _whole)
    held = roles.state_bytes()
    found[FULLY_SHARDED] = _rest(roles, data, lambda role: fully_sharded(role, mesh, names, held) or _whole(role))
    if len(names) > 1:
        found[TWO_DIMENSIONAL], found[STATIONARY] = _two_dimensional(roles, mesh, batch, names)
    return found


def _two_dimensional(roles: Roles, mesh: Mesh, batch: int, names: tuple[str, ...]) -> tuple[State, State]:
    """Weights in two dimensions: the color that most of them have over all axes but the last, one other over the last.

    Examples are split over the axes before the last, too. In the first state values inside are split by these, and over
    the last axis by the color that a weight has there, or by that of most weights: so the paper finalises its models
    (arXiv 2105.04663, section 5.1). In the second they are left to propagation, so that where they are small they are
    gathered and summed, and weights stay where they are (arXiv 2211.05102, section 3.2.2).
    """
    weights = [role for role in roles.roles if role.is_state and batch not in role.colors]
    held = dataclasses.replace(roles, roles=tuple(weights)).state_bytes()
    largest = max((role.bytes for role in weights), default=0.0)
    main = max(held, key=lambda color: held[color], default=batch)
    others = list[int]()
    for role in sorted(weights, key=lambda role: -role.bytes):
        free = [
            color
            for color, size in zip(role.colors, role.type.shape, strict=True)
            if color != main and size % mesh.axis(names[-1]).size == 0
        ]
        color = max(free, key=lambda color: (roles.times_s.get(color, 0.0), held[color]), default=None)
        beside = {each for role in weights if color in role.colors for each in role.colors}
        if color is not None and role.bytes >= _SMALL * largest and beside.isdisjoint(others):
            others.append(color)
    state: State = tuple(None for _ in roles.roles)
    for color, over in ((batch, names[:-1]), (main, names[:-1]), *((color, names[-1:]) for color in others)):
        state = with_color(roles, mesh, state, color, over)
    stationary = tuple(
        None if role.is_state and role.bytes < _SMALL * largest else dims
        for role, dims in zip(roles.roles, state, strict=True)
    )
    inside = (_inside(role, mesh, batch, (*others, main), names) if role.values else None for role in roles.roles)
    return tuple(dims or mine for dims, mine in zip(inside, stationary, strict=True)), stationary


def _inside(role: DecidedRole, mesh: Mesh, batch: int, colors: tuple[int, ...], names: tuple[str, ...]) -> Dims | None:
    """Values inside with the batch over all axes but the last, and the first of these colors over the last."""
    dims = _colored(role, mesh, None, batch, names[:-1]) if batch in role.colors else None
    found = next((color for color in colors if color in role.colors and color != batch), None)
    return dims if found is None else _colored(role, mesh, dims, found, names[-1:])


def tensor_parallel(roles: Roles, mesh: Mesh) -> tuple[State, list[Callable[[State], State]]]:
    """The batch over all axes but the last, and what the last may split, one color after the other."""
    nothing: State = tuple(None for _ in roles.roles)
    names, batch = tuple(name for name, size in mesh.axes if size > 1), batch_color(roles, mesh)
    start = nothing if batch is None else with_color(roles, mesh, nothing, batch, names[:-1], inside=len(names) > 1)

    def splitting(color: int) -> Callable[[State], State]:
        return lambda state: with_color(roles, mesh, state, color, names[-1:])

    return start, [splitting(color) for color in roles.large_colors() if color != batch and names]


def state_sharded(roles: Roles, mesh: Mesh, state: State) -> State:
    """A tensor-parallel state with all that the program updates split over the other axes, too."""
    held = roles.state_bytes()
    for name, size in mesh.axes:
        if size > 1:
            state = tuple(
                _fuller(role, mesh, _whole(role) if dims is None else dims, name, held)
                if role.given is None and role.is_state
                else dims
                for role, dims in zip(roles.roles, state, strict=True)
            )
    return state


def batch_color(roles: Roles, mesh: Mesh) -> int | None:
    """The color of most operations that is of data alone and that the mesh divides, all of it or most axes.

    One that no value has twice comes first: a sequence attends to itself, but examples do not meet. Where the program
    updates something for each example, as a cache, it is one that data have, too.
    """
    nothing: State = tuple(None for _ in roles.roles)
    names = tuple(name for name, size in mesh.axes if size > 1)

    def split_over(color: int) -> int:
        state = with_color(roles, mesh, nothing, color, names)
        return max((len(axes) for dims in state if dims is not None for axes in dims), default=0)

    twice = {color for role in roles.roles for color in role.colors if role.colors.count(color) > 1}
    for colors in (roles.data_colors(), roles.input_colors()):
        found = max(colors, key=lambda color: (split_over(color), color not in twice), default=None)
        if found is not None and split_over(found):
            return found
    return None


def _rest(roles: Roles, state: State, dims_of: Callable[[DecidedRole], Dims]) -> State:
    """The state with all roles decided that are not yet."""
    return tuple(
        dims_of(role) if role.arguments and role.given is None and dims is None else dims
        for role, dims in zip(roles.roles, state, strict=True)
    )


def with_color(
    roles: Roles, mesh: Mesh, state: State, color: int, names: tuple[str, ...], inside: bool = False
) -> State:
    """The state with a color's dimensions split over axes, as far as these divide them, and no others over these.

    Values inside that are left to propagation stay so, but where `inside` says otherwise.
    """
    return tuple(
        dims
        if role.given is not None or color not in role.colors or (role.values and dims is None and not inside)
        else _colored(role, mesh, dims, color, names)
        for role, dims in zip(roles.roles, state, strict=True)
    )


def without(dims: Dims, name: str) -> Dims:
    """The dimensions split over all but one axis."""
    return tuple(tuple(each for each in names if each != name) for names in dims)


def _colored(role: DecidedRole, mesh: Mesh, dims: Dims | None, color: int, names: tuple[str, ...]) -> Dims | None:
    dimension = role.colors.index(color)
    found = dims if dims is not None else _whole(role)
    for name in names:
        rest = without(found, name)
        more = (*rest[:dimension], (*rest[dimension], name), *rest[dimension + 1 :])
        if divides(role, mesh, more):
            found = more
    return found if any(found) else dims


def fully_sharded(
    role: DecidedRole, mesh: Mesh, names: tuple[str, ...], held: Mapping[int, float], dims: Dims = ()
) -> Dims | None:
    """A dimension that the axes divide, and what splits it, over these; None without one, or for little.

    It is the one of the color that most of the state has by `held`, its bytes: so all weights are split alike.
    """
    if role.bytes / max(len(role.arguments), 1) < _SMALL_BYTES:
        return None
    have = dims or _whole(role)
    for dimension in sorted(range(role.type.rank), key=lambda d: (-held.get(role.colors[d], 0.0), -role.type.shape[d])):
        more = (*have[:dimension], (*have[dimension], *names), *have[dimension + 1 :])
        if divides(role, mesh, more):
            return more
    return None


def _whole(role: DecidedRole) -> Dims:
    return ((),) * role.type.rank


def neighbors(roles: Roles, mesh: Mesh, state: State, pinned: frozenset[str]) -> Iterator[State]:
    """States that differ in one decision, the largest decisions first.

    Two axes may change places. Other decisions are about one axis: which color it splits, in all arguments; that all
    state is split over it, or nothing; which dimension of one role, or none; or that a role is left to propagation.
    Values inside come before arguments.
    """
    names = [name for name, size in mesh.axes if size > 1]
    if len(names) == 2:
        yield _keep(roles, state, _swapped(roles, mesh, state, names), pinned)
    for color in roles.large_colors():
        for name in names:
            yield _keep(roles, state, with_color(roles, mesh, state, color, (name,)), pinned)
    held = roles.state_bytes()
    for name in names:
        fuller = tuple(
            _fuller(role, mesh, dims, name, held) if role.given is None else dims
            for role, dims in zip(roles.roles, state, strict=True)
        )
        yield _keep(roles, state, fuller, pinned)
        cleared = tuple(None if dims is None else without(dims, name) for dims in state)
        yield _keep(roles, state, cleared, pinned)
    order = sorted(
        range(len(roles.roles)), key=lambda number: (not roles.roles[number].values, -roles.roles[number].bytes)
    )
    split = _split_of_data(roles, state)
    for number in order:
        role, dims = roles.roles[number], state[number]
        if role.given is None and role.label not in pinned:
            have = tuple(split.get(color, ()) for color in role.colors) if role.values else _whole(role)
            if role.values and dims is None and any(have) and divides(role, mesh, have):
                yield (*state[:number], have, *state[number + 1 :])
            for other in _other_dims(role, mesh, dims, names, have if divides(role, mesh, have) else _whole(role)):
                yield (*state[:number], other, *state[number + 1 :])


def _swapped(roles: Roles, mesh: Mesh, state: State, names: list[str]) -> State:
    """The state with two axes in each other's place, where these divide the dimensions as well."""
    other = dict(zip(names, reversed(names), strict=True))
    return tuple(
        dims if dims is None or role.given is not None or not divides(role, mesh, changed) else changed
        for role, dims in zip(roles.roles, state, strict=True)
        for changed in [tuple(tuple(other[name] for name in listed) for listed in dims or ())]
    )


def _split_of_data(roles: Roles, state: State) -> dict[int, tuple[str, ...]]:
    """The axes that colors have in what a state decides of data, as the batch."""
    found: dict[int, tuple[str, ...]] = {}
    for role, dims in zip(roles.roles, state, strict=True):
        if role.arguments and not role.is_state and dims is not None:
            for color, names in zip(role.colors, dims, strict=True):
                if names and not any(set(names) & set(other) for other in found.values()):
                    found.setdefault(color, names)
    return found


def _fuller(role: DecidedRole, mesh: Mesh, dims: Dims | None, name: str, held: Mapping[int, float]) -> Dims | None:
    """The dimensions of a state's role split over one more axis, to hold less of it."""
    if not role.is_state or dims is None or any(name in names for names in dims):
        return dims
    return fully_sharded(role, mesh, (name,), held, dims) or dims


def _other_dims(
    role: DecidedRole, mesh: Mesh, dims: Dims | None, names: list[str], blank: Dims
) -> Iterator[Dims | None]:
    """Other ways to split a role; `blank` is where to begin with one that is left to propagation."""
    have = dims if dims is not None else blank
    for name in names:
        rest = without(have, name)
        for dimension in range(role.type.rank):
            more = (*rest[:dimension], (*rest[dimension], name), *rest[dimension + 1 :])
            if more != dims and divides(role, mesh, more):
                yield more
        if rest != dims:
            yield rest
    if dims is not None:
        yield None


def _keep(roles: Roles, old: State, new: State, pinned: frozenset[str]) -> State:
    """The new state, with what is pinned as it was."""
    return tuple(
        before if role.label in pinned else after for role, before, after in zip(roles.roles, old, new, strict=True)
    )
