"""Bisection: find the pass that makes a program wrong, and the operation for which it does.

The output of each pass is a valid module, so it can be run: before `gspmd-localize` on one device, after it on all. The
first pass with a wrong output is at fault. Its input is then changed to return all intermediate values, and the
producer of the first wrong one is the operation at fault. If additional results change what the pass does, the program
is cut after an operation instead, which is found by binary search.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from gspmd.checks.evaluation import CheckSettings, judged
from gspmd.checks.probes import Probe, operations_in, prefix, probes_of, with_probes
from gspmd.checks.stages import StagedProgram, after_passes, after_pipeline, stages_of
from gspmd.checks.verdicts import CheckRun, Fault, ResultCheck
from gspmd.dialect.errors import Error, SourceLocation
from gspmd.dialect.location_marks import GIVEN
from gspmd.explanations.value_names import GivenNames
from gspmd.isolation import ProcessDied, Worker
from gspmd.pass_manager.manager import After
from gspmd.transforms.ir.operations import Location
from gspmd.transforms.localize import Localize
from gspmd.transforms.parsing.mlir import source_location
from gspmd.transforms.passes import Pass

CANNOT_RUN = "cannot be run: "
"""The prefix of the problem of a program that fails to run."""

_BATCH_BYTES = 1 << 28  # bytes of the values that are returned and compared at a time
_RETURN = "func.return"
_FOLD = "fold"
Make = Callable[[str], str]


@dataclasses.dataclass(frozen=True, slots=True)
class _AtFault:
    """The fault in the input of a pass."""

    operation: str = ""
    value: str = ""
    location: str = ""
    step: str = ""
    symptom: str = ""
    mark: int | None = None  # of the operation, if any


@dataclasses.dataclass(frozen=True, slots=True)
class FaultCandidate:
    """A fault, and the programs from which a reduction can start.

    `programs` have the fault and are tried in order: with the propagated shardings, if these are right, and as given.
    `mark` is that of the operation at fault.
    """

    fault: Fault
    programs: tuple[str, ...]
    mark: int | None = None


class Bisection:
    """Looks for the fault of one program, whose operations are marked by `names`."""

    def __init__(
        self,
        worker: Worker,
        program: str,
        names: GivenNames,
        passes: Sequence[Pass],
        attach: After,
        judging: CheckSettings,
    ) -> None:
        self._worker = worker
        self._program = program
        self._names = names
        self._passes = tuple(passes)
        self._attach = attach
        self._judging = judging

    def lead(self, problem: str) -> FaultCandidate:
        """The fault of the program; `problem` describes what is wrong."""
        stages = stages_of(self._program, self._passes, self._attach)
        number, symptom = self._first_wrong(stages)
        if not number:
            return FaultCandidate(Fault(problem, self._of_fold()), (self._program,))
        place = self._place(stages, number, symptom)
        fields = {f.name: getattr(place, f.name) for f in dataclasses.fields(place) if f.name != "mark"}
        fault = Fault(problem, self._passes[number - 1].argument, **fields)
        # Before resharding, a program is still one that a user could write, with all shardings.
        completed = stages.texts[min(number, self._localizing - 1) - 1]
        return FaultCandidate(fault, tuple(dict.fromkeys((completed, self._program))), place.mark)

    # ---- the pass ----

    def _first_wrong(self, stages: StagedProgram) -> tuple[int, str]:
        """The number of the first pass, from 1, with a wrong output, and the problem; 0 if there is none."""
        for number, text in enumerate(stages.texts[1:], 1):
            if text == stages.texts[number - 1]:
                continue
            last = number == len(stages.texts) - 1
            if last and stages.misfit is not None:
                return number, str(stages.misfit)
            symptom = self._symptom(self._program, text)
            if symptom and not (symptom.startswith(CANNOT_RUN) and number < self._localizing):
                return number, symptom
        if stages.failure is not None:
            return len(stages.texts), _said(stages.failure)
        return 0, ""

    @property
    def _localizing(self) -> int:
        """The number of the pass after which the program is the per-device program."""
        return next(i for i, pass_ in enumerate(self._passes, 1) if isinstance(pass_, Localize))

    def _of_fold(self) -> str:
        """The pass at fault if all single passes are right: the one that folds repeated layers, or none."""
        try:
            text = after_pipeline(self._program, self._passes, self._attach)
        except Exception:  # noqa: BLE001 - whatever a pass raises
            return _FOLD
        return _FOLD if self._symptom(self._program, text) else ""

    def _symptom(self, program: str, text: str) -> str:
        """The problem of a program that passes have changed; empty if there is none."""
        try:
            runs, _ = self._worker.call(judged, program, text, self._judging)
        except Exception as error:  # noqa: BLE001 - whatever XLA raises
            return _said(error)
        return symptom_of(runs)

    # ---- the operation ----

    def _place(self, stages: StagedProgram, number: int, symptom: str) -> _AtFault:
        """The fault, given the number of the first pass with a wrong output."""
        if number == len(stages.texts) - 1 and stages.misfit is not None:
            return self._of_error(stages.misfit)
        start = min(number, self._localizing) - 1
        given, passes = stages.texts[start], self._passes[start:number]

        def make(text: str) -> str:
            return after_passes(text, passes)

        found = None if symptom.startswith(CANNOT_RUN) else self._by_probes(given, make)
        found = found or self._by_prefix(given, make)
        if found is None and isinstance(stages.failure, Error) and stages.failure.location is not None:
            return self._of_error(stages.failure)
        return found or _AtFault(symptom=symptom.removeprefix(CANNOT_RUN))

    def _of_error(self, error: Error) -> _AtFault:
        """The name in quotes in an error."""
        location = str(error.location) if error.location else ""
        return _AtFault(error.op or "", "", location, "", error.message)

    def _by_probes(self, given: str, make: Make) -> _AtFault | None:
        """The first wrong value; None if there is none, or if returning all values fails."""
        any_wrong = False
        for batch in _batches(probes_of(given)):
            try:
                probed = with_probes(given, batch)
                runs, _ = self._worker.call(judged, probed, make(probed), self._judging)
            except Exception:  # noqa: BLE001 - the pass may fail on the additional results
                return None
            wrong = first_wrong(runs, len(batch))
            if wrong is not None:
                return self._of_probe(given, batch[wrong.index], wrong)
            any_wrong = any_wrong or bool(symptom_of(runs))
        return _AtFault(_RETURN, symptom=_RETURNED) if any_wrong else None

    def _of_probe(self, given: str, probe: Probe, wrong: _Wrong) -> _AtFault:
        if probe.op is None:
            return _AtFault("argument", f"%arg{probe.index}", symptom=wrong.symptom)
        name, location = operations_in(given)[probe.op]
        return self._of_operation(name, location, probe.index, wrong.symptom)

    def _of_operation(self, name: str, location: Location, index: int, symptom: str) -> _AtFault:
        """The operation of the given program for an operation of a pass's input."""
        made, results = self._names.made_for(location)
        place, mark = _text(source_location(location)), next(iter(GIVEN.numbers(location)), None)
        if name.startswith("sdy.") and made != name:
            return _AtFault(made, _at(results, 0), place, name, symptom, mark)
        return _AtFault(made or name, _at(results, index), place, "", symptom, mark)

    def _by_prefix(self, given: str, make: Make) -> _AtFault | None:
        """The last operation of the shortest prefix of the program that is wrong; None if no prefix is."""
        operations = operations_in(given)

        def symptom(count: int) -> str:
            try:
                text = prefix(given, count)
                self._worker.call(judged, text, text, self._judging)
            except Exception:  # noqa: BLE001 - a program that cannot run before the pass is no evidence
                return ""
            try:
                return self._symptom(text, make(text))
            except Exception as error:  # noqa: BLE001 - whatever a pass raises
                return _said(error)

        low, high = 0, len(operations)  # right after `low` operations, wrong after `high`
        last = symptom(high)
        if not last:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            found = symptom(middle)
            low, high, last = (low, middle, found) if found else (middle, high, last)
        name, location = operations[high - 1]
        return self._of_operation(name, location, 0, last.removeprefix(CANNOT_RUN))


# ---- verdicts ----


@dataclasses.dataclass(frozen=True, slots=True)
class _Wrong:
    """The number of a wrong probe in the batch."""

    index: int
    symptom: str


_RETURNED = "every value is right, but the returned ones are not"


def symptom_of(runs: Sequence[CheckRun]) -> str:
    """The problem of the first wrong result; empty if there is none."""
    found = next((result for run in runs for result in run.results if not result.passed), None)
    return "" if found is None else _result_text(found)


def first_wrong(runs: Sequence[CheckRun], probes: int) -> _Wrong | None:
    """The first of the last `probes` results that is wrong in any run."""
    found: list[_Wrong] = []
    for run in runs:
        first = len(run.results) - probes
        found += [_Wrong(r.index - first, r.reason) for r in run.results[first:] if not r.passed][:1]
    return min(found, key=lambda wrong: wrong.index, default=None)


def _result_text(result: ResultCheck) -> str:
    return f"result {result.name or result.index}: {result.reason}"


def _said(error: Exception) -> str:
    """The reason why a program cannot run."""
    text = " ".join(str(error).split())[:400].removeprefix("gspmd: error: ")
    if isinstance(error, ProcessDied):
        return f"{CANNOT_RUN}{text}"
    return f"{CANNOT_RUN}{text if isinstance(error, Error) else f'{type(error).__name__}: {text}'}"


def _batches(probes: Sequence[Probe]) -> Iterator[list[Probe]]:
    """Probes in order, in batches that fit into memory."""
    batch: list[Probe] = []
    size = 0.0
    for probe in probes:
        if batch and size + probe.bytes > _BATCH_BYTES:
            yield batch
            batch, size = [], 0.0
        batch.append(probe)
        size += probe.bytes
    if batch:
        yield batch


def _at(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else ""


def _text(location: SourceLocation | None) -> str:
    return str(location) if location is not None else ""
