"""Which commands cases are asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


class Unfit(Exception):
    """The format has no case for any of the commands that are asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Commands to choose from (none: all), and whether there may be cases in processes of their own."""

    commands: tuple[str, ...] = ()
    terminals: bool = True

    def among(self, commands: Sequence[str]) -> list[str]:
        """Those that are asked for; "api" stands for all calls."""
        found = [c for c in commands if not self.commands or c in self.commands or c.partition(".")[0] in self.commands]
        if not found:
            raise Unfit
        return found
