"""States that the integer program finds for a program over a mesh, and what it says no step takes less than."""

from __future__ import annotations

from collections.abc import Mapping

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axis_name
from gspmd.explanations.explanation import Explanation
from gspmd.plan_search.integer_program import MOST_GROUPS, GlobalChoice, GlobalView
from gspmd.plan_search.pricing import Dims, State
from gspmd.plan_search.role import DecidedRole, Roles
from gspmd.plan_search.value_kinds import ValueKind, kinds_of_program, with_peak
from gspmd.plan_search.ways import Way, Ways
from gspmd.suggestions.tied_dimensions import TiedDimensions
from gspmd.transforms.machine.cost import Hardware

INTEGER_PROGRAM, INTEGER_PROGRAM_AGAIN = "integer program", "integer program, in less memory"
_SMALL = 1e-3  # of the largest argument, below which an argument of the state is left to propagation
# The parts of the memory that may be used which values are given, the first that is possible: what is gathered for a
# moment needs the rest.
_PARTS = {INTEGER_PROGRAM: (0.9, 0.99), INTEGER_PROGRAM_AGAIN: (0.55,)}


class GlobalStarts:
    """The integer program of an explained program, and what was decided before, by role: `kept`.

    Where it would be too large over all axes of the mesh, axes are grouped until it is small enough; `is_small` says
    whether it can be solved in seconds then.
    `whole_bytes` is what a device holds of the finished program where nothing is split, 0 where that is not known.
    """

    def __init__(
        self,
        explained: Explanation,
        roles: Roles,
        tied: TiedDimensions,
        hardware: Hardware,
        kept: Mapping[int, Dims],
        whole_bytes: float = 0.0,
    ) -> None:
        self.roles, self.mesh = roles, explained.mesh
        self.model = kinds_of_program(explained, roles, tied, hardware)
        if whole_bytes:
            self.model = with_peak(self.model, whole_bytes)
        self.numbers = self._numbers()
        self.first_uses = _first_uses(explained, roles)
        for most in range(MOST_GROUPS, 0, -1):
            self.ways = Ways(explained.mesh, hardware, most=most)
            self.view = GlobalView(self.model, self.ways, self._given(kept))
            self.is_small = self.view.is_small
            if self.is_small:
                break

    def _given(self, kept: Mapping[int, Dims]) -> dict[int, Way]:
        """The ways of kinds that are annotated or kept."""
        given = {}
        for number, role in enumerate(self.roles.roles):
            dims = given_dims(role, self.mesh) if role.given is not None else kept.get(number)
            way = None if dims is None else self.ways.way_of(dims)
            if way is not None and number in self.numbers:
                given[self.numbers[number]] = way
        return given

    def states(self, most_bytes: float, time_limit_s: float) -> dict[str, State]:
        """States by name: with most of the memory given to values, and with half of it. Errors: UsageError."""
        found: dict[str, State] = {}
        for name, parts in _PARTS.items():
            choices = (self.view.choose(part * most_bytes, time_limit_s) for part in parts)
            choice = next((choice for choice in choices if choice is not None), None)
            state = None if choice is None else self._state(choice)
            if state is not None and state not in found.values():
                found[name] = state
        return found

    def least_s(self, most_bytes: float, time_limit_s: float) -> float:
        """Seconds that no step takes less than; 0 where axes are grouped, as plans need not be. Errors: UsageError."""
        return 0.0 if self.ways.is_grouped else self.view.least_s(most_bytes, time_limit_s)

    def kind(self, slot: int) -> ValueKind | None:
        """The kind of a slot's values, None for one that no step has."""
        number = self.model.of_slot.get(slot)
        return None if number is None else self.model.kinds[number]

    def _numbers(self) -> dict[int, int]:
        """The kind of each role's values."""
        kinds = {(kind.shape, kind.colors): number for number, kind in enumerate(self.model.kinds) if kind.role is None}
        found = {kind.role: number for number, kind in enumerate(self.model.kinds) if kind.role is not None}
        for number, role in enumerate(self.roles.roles):
            if role.values and (role.type.shape, role.colors) in kinds:
                found[number] = kinds[role.type.shape, role.colors]
        return found

    def _state(self, choice: GlobalChoice) -> State:
        largest = max((role.bytes for role in self.roles.roles if role.arguments), default=0.0)
        found = [
            self._dims(role, choice.ways.get(self.numbers.get(number, -1)), largest)
            for number, role in enumerate(self.roles.roles)
        ]
        return tuple(None if self._follows(number, found) else dims for number, dims in enumerate(found))

    def _follows(self, number: int, found: list[Dims | None]) -> bool:
        """Whether a role is split as one like it that is used before it, from which propagation gets there.

        So the optimizer's state follows its parameters.
        """
        role = self.roles.roles[number]
        return role.is_state and any(
            other.is_state
            and (other.type.shape, other.colors, dims) == (role.type.shape, role.colors, found[number])
            and self.first_uses[each] < self.first_uses[number]
            for each, (other, dims) in enumerate(zip(self.roles.roles, found, strict=True))
        )

    def _dims(self, role: DecidedRole, way: Way | None, largest: float) -> Dims | None:
        is_small = role.is_state and role.bytes < _SMALL * largest
        return None if role.given is not None or way is None or is_small else self.ways.dims(way, role.type.rank)


def _first_uses(explained: Explanation, roles: Roles) -> list[int]:
    """The number of the first operation that uses arguments of a role."""
    program = explained.explainer.completion.annotated.program
    first: dict[int, int] = {}
    for op in program.ops:
        for value in op.operands:
            first.setdefault(value, op.index)
    last, arguments = len(program.ops), program.body.arguments
    return [
        min((first.get(arguments[number], last) for number in role.arguments), default=last) for role in roles.roles
    ]


def given_dims(role: DecidedRole, mesh: Mesh) -> Dims:
    """How a role is annotated in the program."""
    assert role.given is not None, "it is annotated"
    return tuple(tuple(print_axis_name(axis, mesh) for axis in axes) for axes in role.given.dim_axes())
