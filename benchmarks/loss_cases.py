"""Programs partitioned by all, in processes that a partitioner may end, and what came of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sent
from made_up import drafts, shrinking
from made_up.program import Program
from sent import OURS, PARTITIONERS, Sent

from gspmd.isolation import ProcessDied, Worker
from gspmd.transforms.decide.objective import REPEATED_FOR_A_BYTE
from gspmd.transforms.machine.cost import BYTES_FIRST

MIN_BYTES = 1024  # what is not more than that, or than 1 %, is equal
_EQUAL = 1.01
_RENEWED = 40  # programs after which a process is replaced: what XLA has compiled stays in memory
_OTHER_ORDER = "the device order of"  # what ours says of the layout of a peer that is no sharding over the mesh
_UNSTEADY = frozenset(("argmax", "sort_pair", "routed", "dispatch", "select"))  # rounding may choose another element


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What one partitioner made of a program: what it sends, or why there is nothing.

    If results were looked at, `wrong` says what is wrong with them, and `unchecked` why they could not be.
    """

    sent: Sent | None = None
    failure: str = ""
    wrong: str = ""
    unchecked: str = ""

    @property
    def bytes(self) -> float:
        return self.sent.bytes if self.sent is not None and not self.wrong else float("inf")


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A program by its name, and what each partitioner made of it.

    Where ours sends more, `pinned` is what it sends if arguments and results lie as with the better peer.
    """

    name: str
    mesh: tuple[tuple[str, int], ...]
    kinds: tuple[str, ...]
    outcomes: Mapping[str, Outcome]
    pinned: Outcome | None = None

    @property
    def peer(self) -> str:
        """The peer that sends less, of those that are not known to be wrong."""
        return min((p for p in PARTITIONERS if p != OURS), key=lambda p: self.outcomes[p].bytes)

    @property
    def ours(self) -> float:
        return self.outcomes[OURS].bytes

    @property
    def theirs(self) -> float:
        return self.outcomes[self.peer].bytes

    @property
    def comparable(self) -> bool:
        return max(self.ours, self.theirs) < float("inf")

    @property
    def verdict(self) -> str:
        """Whether ours sends less, equal or more."""
        if _is_more(self.ours, self.theirs):
            return "more"
        return "less" if _is_more(self.theirs, self.ours) else "equal"

    @property
    def lost(self) -> bool:
        """Whether ours sends more."""
        return self.comparable and self.verdict == "more"

    @property
    def inside(self) -> bool:
        """Whether ours sends more with the peer's layout at the ends of the program, too."""
        return self.lost and self.pinned is not None and _is_more(self.pinned.bytes, self.theirs)

    @property
    def reason(self) -> str:
        """Why ours sends more, as far as it is known; "" if it does not."""
        ours, theirs = (self.outcomes[each].sent for each in (OURS, self.peer))
        if not self.lost or ours is None or theirs is None:
            return ""
        if _weighed(ours) <= _weighed(theirs):
            return "costs less by the objective, with the collectives and the arithmetic of both"
        if self.pinned is not None and _OTHER_ORDER in self.pinned.failure:
            return "the peer lays free ends in another device order"
        return "within the program" if self.inside else "not if the ends lie as with the peer"

    @property
    def ratio(self) -> float:
        """Of bytes, both with a little more, so that there is one where nothing is sent."""
        return (self.ours + MIN_BYTES) / (self.theirs + MIN_BYTES)


def _is_more(one: float, other: float) -> bool:
    return max(_EQUAL * other, other + MIN_BYTES) < one < float("inf")


def _weighed(sent: Sent) -> float:
    """What a program sends, and its collectives and arithmetic at their weights in the objective, in bytes."""
    latency = BYTES_FIRST.collective_latency_s * BYTES_FIRST.link_bytes_per_s
    collectives = sum(number for _, _, number, _ in sent.collectives)
    return sent.bytes + latency * collectives + sent.flops / REPEATED_FOR_A_BYTE


class Judge:
    """Has programs partitioned in a process of its own."""

    def __init__(self, devices: int, check: bool = False) -> None:
        self._worker = Worker(timeout_s=240, devices=devices)
        self._check = check
        self._calls = 0

    def made(self, seed: int, number: int, devices: Sequence[int]) -> Program:
        """The program of this number."""
        return self._worker.call(drafts.made, seed, number, tuple(devices))

    def case(self, name: str, program: Program) -> Case:
        """A made-up program."""
        steady = _UNSTEADY.isdisjoint(program.kinds)
        text = self._worker.call(Program.lowered, program)
        return self.case_of_text(name, text, program, 1e-3 if steady else 0.05)

    def case_of_text(self, name: str, text: str, program: Program | None = None, limit: float = 0.05) -> Case:
        """A program with Shardy's annotations, of which may be known how it was made up."""
        self._calls += 1
        if self._calls % _RENEWED == 0:
            self._worker.stop()
        outcomes = {partitioner: self._outcome(partitioner, text, limit) for partitioner in PARTITIONERS}
        if program is not None:
            case = Case(name, program.mesh, tuple(program.kinds), outcomes)
        else:
            case = Case(name, self._worker.call(sent.mesh_of, text), (), outcomes)
        if not case.lost:
            return case
        pinned = self._tried(sent.sent_as_laid_out_by, case.peer, text)
        return dataclasses.replace(case, pinned=Outcome(failure=pinned) if isinstance(pinned, str) else Outcome(pinned))

    def _outcome(self, partitioner: str, text: str, limit: float) -> Outcome:
        found = self._tried(sent.sent, partitioner, text)
        if isinstance(found, str):
            return Outcome(failure=found)
        wrong = self._tried(sent.wrong, partitioner, text, limit) if self._check else ""
        if wrong.startswith("refuses"):  # it could not be run, which says nothing of its results
            return Outcome(found, unchecked=wrong.removeprefix("refuses: "))
        return Outcome(found, wrong=wrong)

    def _tried(self, function: Any, *arguments: Any) -> Any:
        """What the function gives, or as text why it gives nothing."""
        try:
            return self._worker.call(function, *arguments)
        except ProcessDied as death:
            return f"aborts: {death}"
        except Exception as error:  # noqa: BLE001 - what a partitioner says of a program is part of the result
            return f"refuses: {' '.join(str(error).split())[:300]}"

    def least(self, case: Case, program: Program, seconds: float) -> Program:
        """The smallest form found of a case in which ours still sends more, inside if it does so there."""

        def lost(candidate: Program) -> bool:
            found = self.case("", candidate)
            return found.inside if case.inside else found.lost

        return shrinking.shrunk(program, lost, seconds)

    def lowered(self, program: Program) -> str:
        """The program as text."""
        return self._worker.call(Program.lowered, program)

    def stop(self) -> None:
        """End the process."""
        self._worker.stop()
