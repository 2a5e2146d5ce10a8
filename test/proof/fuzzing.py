"""Made-up programs: what is wrong with one, and the smallest form of it that still is."""

from __future__ import annotations

import dataclasses

import gspmd
from gspmd.isolation import ProcessDied, Worker
from proof.execution import USUAL, Options, Verdict, inputs_of, verdicts
from proof.graphs import Graph
from proof.program import Program
from proof.shrinking import shrunk


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """The program of a seed, on meshes of up to 8 devices or of exactly so many more, and how it is partitioned."""

    seed: int
    devices: int = 8
    options: Options = USUAL

    def program(self) -> Program:
        return Graph(self.seed, self.devices).program()


def failure(program: Program, made: Made) -> str:
    """What is wrong with the partitioned program, "" if nothing is; a refusal with its reason is nothing wrong."""
    found = verdicts(program, inputs_of(program, made.seed), None, made.options)
    return "; ".join(f"result {i}: {v.why}" for i, v in enumerate(found) if v.kind == "wrong")


def kind(made: Made) -> Verdict:
    """What became of a program."""
    program = made.program()
    found = verdicts(program, inputs_of(program, made.seed), None, made.options) or [Verdict("right")]
    return max(found, key=lambda v: ("right", "judged", "reference", "refused", "wrong").index(v.kind))


def tried(made: Made, worker: Worker) -> Verdict:
    """The same in another process; one that ends or never answers is wrong."""
    try:
        return worker.call(kind, made)
    except ProcessDied as death:
        return Verdict("wrong", str(death))


def at_fault(program: Program, made: Made) -> str:
    """The pass and the operation that make a program wrong, as `gspmd check --bisect` finds them."""
    inputs = inputs_of(program, made.seed)
    options = {"options": {"list_groups_up_to": made.options.list_groups_up_to}}
    try:
        fault = gspmd.check(str(program), inputs=inputs, options=options, bisect=True).fault
    except gspmd.Error as error:
        return f"cannot be searched: {error}"
    if fault is None:
        return "nothing is at fault with the tolerances of gspmd check"
    return f"at fault: '{fault.pass_name}' at '{fault.operation}' {fault.value} {fault.step}: {fault.symptom}"


def least(made: Made, worker: Worker) -> tuple[Program, str]:
    """The smallest form found of a program that fails, and how it does."""
    last = [""]

    def fails(program: Program) -> bool:
        try:
            found = worker.call(failure, program, made)
        except ProcessDied as death:
            found = str(death)
        last[0] = found or last[0]
        return bool(found)

    program = shrunk(made.program(), fails)
    fails(program)
    return program, last[0]
