"""What a search decides upon: arguments, and values inside a program, that are split alike."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.sharding import TensorSharding
from gspmd.suggestions.annotating import GivenValue
from gspmd.suggestions.operation_times import bytes_of
from gspmd.transforms.ir.types import TensorType

_SMALL = 1e-3  # the part of the time of the largest color that makes one worth a try


@dataclasses.dataclass(frozen=True, slots=True)
class DecidedRole:
    """Arguments, by number, that are split alike: of one type, and with one name but for numbers, which are `*`.

    Or `values` inside the program that are: what operations of one kind make, of one shape and the same colors.
    `colors` has one number a dimension: dimensions of the same color are tied by sharding rules. `given` is how they
    are annotated, None for those that are to be decided upon. `is_state` says that the program returns values of their
    type: it updates them, as it does weights.
    """

    label: str
    names: tuple[str, ...]
    arguments: tuple[int, ...]
    type: TensorType
    colors: tuple[int, ...]
    given: TensorSharding | None = None
    is_state: bool = False
    values: tuple[GivenValue, ...] = ()

    @property
    def bytes(self) -> float:
        """What all of them take on a device that has them whole."""
        return (len(self.arguments) + len(self.values)) * bytes_of(self.type)


@dataclasses.dataclass(frozen=True, slots=True)
class Roles:
    """All arguments of a program by role, then values inside, and of each color the seconds of its operations."""

    roles: tuple[DecidedRole, ...]
    times_s: dict[int, float]

    def colors(self) -> list[int]:
        """Colors of arguments that are to be decided upon, those of most operations first."""
        free = {color for role in self.roles if role.arguments and role.given is None for color in role.colors}
        return sorted(free, key=lambda color: (-self.times_s.get(color, 0.0), color))

    def large_colors(self) -> list[int]:
        """Colors that take more than a thousandth of the time of the one that takes most."""
        found = self.colors()
        least = _SMALL * max((self.times_s.get(color, 0.0) for color in found), default=0.0)
        return [color for color in found if self.times_s.get(color, 0.0) >= least]

    def input_colors(self) -> list[int]:
        """Colors of arguments that the program does not update."""
        inputs = {color for role in self.roles if role.arguments and not role.is_state for color in role.colors}
        return [color for color in self.colors() if color in inputs]

    def state_bytes(self) -> dict[int, float]:
        """Of each color the bytes of the state that it occurs in."""
        found: dict[int, float] = {}
        for role in self.roles:
            if role.is_state:
                for color in set(role.colors):
                    found[color] = found.get(color, 0.0) + role.bytes
        return found

    def data_colors(self) -> list[int]:
        """Colors that occur in no state: what examples are counted by, and what they consist of."""
        state = {color for role in self.roles if role.is_state for color in role.colors}
        return [color for color in self.colors() if color not in state]
