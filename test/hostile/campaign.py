"""Many cases on several workers, and what was found, in families."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from hostile.case import Case
from hostile.entries import Outcome
from hostile.judgement import EXIT_INTERRUPTED, Fault, fault, message, plain
from hostile.reduction import Reduction
from hostile.supervision import Limits, Supervisor


@dataclasses.dataclass(slots=True)
class Family:
    """Faults that look like one: the first case by number, how many there are, and the smallest form found."""

    fault: Fault
    case: Case
    number: int
    count: int = 0
    smallest: Case | None = None
    note: str = ""


@dataclasses.dataclass(slots=True)
class Tally:
    """All that a campaign found. `codes` has, by message, an example of each exit code that commands gave for it."""

    families: dict[str, Family] = dataclasses.field(default_factory=dict)
    cases: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    statuses: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    codes: dict[str, dict[int, tuple[int, Case]]] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    def add(self, number: int, case: Case, outcome: Outcome) -> None:
        """Count a case, and judge it."""
        self.cases[case.format] += 1
        self.statuses["" if outcome.ended else str(outcome.status)] += 1
        found = fault(case, outcome)
        if found is not None:
            family = self.families.setdefault(found.family, Family(found, case, number))
            if number < family.number:
                family.case, family.number, family.fault = case, number, found
            family.count += 1
        elif outcome.status not in (0, EXIT_INTERRUPTED) and (said := message(outcome)) and "." not in case.command:
            seen = self.codes.setdefault(plain(said), {})
            if outcome.status not in seen or number < seen[outcome.status][0]:
                seen[outcome.status] = (number, case)

    def differing(self) -> Iterator[Family]:
        """One family for each pair of exit codes that commands gave for one message."""
        pairs: dict[str, Family] = {}
        for said, seen in sorted(self.codes.items()):
            for (one, (first, a)), (two, (second, b)) in itertools.combinations(sorted(seen.items()), 2):
                name = f"exit codes: {one} of {a.command}, {two} of {b.command}"
                told = f"{said}\n{a}\n{b}"
                family = pairs.setdefault(name, Family(Fault("codes", name, told), b, max(first, second)))
                family.count += 1
                family.smallest = family.case
        yield from pairs.values()


Make = Callable[[int], Case]


class Campaign:
    """Cases by number, until there are enough or the time is over."""

    def __init__(self, make: Make, root: str, limits: Limits, jobs: int) -> None:
        self._make = make
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._supervisors = [Supervisor(root, limits) for _ in range(jobs)]
        self.tally = Tally()

    def run(self, count: int | None, seconds: float | None, progress: Callable[[int, Tally], None]) -> Tally:
        """Run them all. `progress` hears the number of each case that is done."""
        started = time.perf_counter()
        end = started + seconds if seconds is not None else None
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._serve, args=(s, count, end, progress, errors), daemon=True)
            for s in self._supervisors
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        self.tally.seconds = time.perf_counter() - started
        return self.tally

    def _serve(self, supervisor: Supervisor, count: int | None, end: float | None, progress: Any, errors: Any) -> None:
        try:
            supervisor.ready()
            while not errors:
                with self._lock:
                    number = next(self._numbers)
                    if (count is not None and number >= count) or (end is not None and time.perf_counter() > end):
                        return
                    case = self._make(number)
                outcome = supervisor.outcome(case)
                with self._lock:
                    self.tally.add(number, case, outcome)
                    progress(number, self.tally)
        except BaseException as error:  # noqa: BLE001 - goes on where the campaign was started
            errors.append(error)

    def reduce(self, family: Family, seconds: float) -> None:
        """Find the smallest form of a family's first case, on a new worker."""
        supervisor = self._supervisors[0]
        slow = family.fault.kind in ("hang", "memory")
        usual = supervisor.limits
        if slow:
            supervisor.limits = dataclasses.replace(usual, seconds=min(usual.seconds, 8.0))
        try:
            supervisor.stop()

            def fails(case: Case) -> bool:
                found = fault(case, supervisor.outcome(case))
                return found is not None and _same(found, family.fault)

            if not (fails(family.case) or fails(family.case)):
                family.note = "not alone" if not slow else "slow, but it ends"
                return
            family.smallest = Reduction(fails, seconds * (3 if slow else 1), 12 if slow else 600).reduced(family.case)
        finally:
            supervisor.limits = usual

    def stop(self) -> None:
        """End the workers."""
        for supervisor in self._supervisors:
            supervisor.stop()


def _same(one: Fault, other: Fault) -> bool:
    """Hangs are told by where they were seen, which is somewhere else each time."""
    return one.family == other.family or (one.kind == other.kind and one.kind in ("hang", "memory"))
