"""Run cases in packs, and count what became of them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence

import gspmd
from gspmd.isolation import ProcessDied, Worker
from proof.enumeration import Case, Operation, joined, packs
from proof.execution import USUAL, Array, Options, Verdict, inputs_of, on_one_device, verdicts
from proof.program import Program
from proof.shrinking import shrunk

_SEED = 1
_expected: dict[Operation, list[Array] | str] = {}


def tried(cases: Sequence[Case], options: Options = USUAL) -> list[Verdict]:
    """The worst of the results of every case. If the pack is not right as a whole, each case is run alone."""
    programs = [case.program(f"c{i}_") for i, case in enumerate(cases)]
    references = _references(cases)
    known = [(c, p, r) for c, p, r in zip(cases, programs, references, strict=True) if not isinstance(r, str)]
    if not known:
        return [Verdict("reference", r) for r in references if isinstance(r, str)]
    inputs = [array for _, p, _ in known for array in inputs_of(p, _SEED)]
    expected = [array for _, _, r in known for array in r]
    found = iter(verdicts(joined([p for _, p, _ in known]), inputs, expected, options))
    outcome = []
    for program, reference in zip(programs, references, strict=True):
        if isinstance(reference, str):
            outcome.append(Verdict("reference", reference))
            continue
        mine = [next(found) for _ in program.results]
        outcome.append(next((v for v in mine if v.kind != "right"), mine[0]))
    if len(cases) > 1 and any(v.kind in ("wrong", "refused") for v in outcome):
        return [
            v if v.kind in ("right", "judged") else tried([c], options)[0] for c, v in zip(cases, outcome, strict=True)
        ]
    return outcome


def _references(cases: Sequence[Case]) -> list[list[Array] | str]:
    """What one device computes of each operation, or why it does not; those that are new in one module."""
    new = [operation for operation in dict.fromkeys(c.operation for c in cases) if operation not in _expected]
    programs = [operation.program(cases[0].program().mesh, f"r{i}_") for i, operation in enumerate(new)]
    if programs:
        try:
            results = iter(_computed(joined(programs)))
            _expected.update({o: [next(results) for _ in p.results] for o, p in zip(new, programs, strict=True)})
        except gspmd.Error:
            for operation, program in zip(new, programs, strict=True):
                try:
                    _expected[operation] = _computed(program)
                except gspmd.Error as error:
                    _expected[operation] = str(error)
    return [_expected[case.operation] for case in cases]


def _computed(program: Program) -> list[Array]:
    return on_one_device(str(program), inputs_of(program, _SEED))


def least(case: Case, options: Options = USUAL) -> Program:
    """The case with as few annotations as it is still wrong with."""

    def fails(program: Program) -> bool:
        return any(v.kind == "wrong" for v in verdicts(program, inputs_of(program, _SEED), None, options))

    return shrunk(case.program(), fails)


@dataclasses.dataclass(slots=True)
class Tally:
    """What became of the cases of a family."""

    family: str
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    reasons: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    wrong: list[tuple[Case, str]] = dataclasses.field(default_factory=list)


def sweep(family: str, cases: Iterable[Case], worker: Worker, options: Options = USUAL) -> Tally:
    """Try them all; a process that ends or never answers is a wrong case too."""
    tally = Tally(family)
    for pack in packs(iter(cases)):
        try:
            found = worker.call(tried, pack, options)
        except ProcessDied:
            found = [_alone(case, worker, options) for case in pack]
        for case, verdict in zip(pack, found, strict=True):
            tally.kinds[verdict.kind] += 1
            if verdict.kind in ("refused", "reference"):
                tally.reasons[f"{verdict.kind}: {verdict.why}"] += 1
            elif verdict.kind == "wrong":
                tally.wrong.append((case, verdict.why))
    return tally


def _alone(case: Case, worker: Worker, options: Options) -> Verdict:
    try:
        return worker.call(tried, [case], options)[0]
    except ProcessDied as death:
        return Verdict("wrong", str(death))
