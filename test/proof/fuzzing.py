"""Made-up programs: what is wrong with one, and the smallest form of it that still is."""

from __future__ import annotations

from execution import Verdict, inputs_of, verdicts
from graphs import Graph
from isolation import Died, Worker
from program import Program
from shrinking import shrunk


def failure(program: Program, seed: int) -> str:
    """What is wrong with the partitioned program, "" if nothing is; a refusal with its reason is nothing wrong."""
    found = verdicts(program, inputs_of(program, seed))
    return "; ".join(f"result {i}: {v.why}" for i, v in enumerate(found) if v.kind == "wrong")


def kind(seed: int) -> Verdict:
    """What became of the program of a seed."""
    program = Graph(seed).program()
    found = verdicts(program, inputs_of(program, seed)) or [Verdict("right")]
    return max(found, key=lambda v: ("right", "judged", "reference", "refused", "wrong").index(v.kind))


def tried(seed: int, worker: Worker) -> Verdict:
    """The same in another process; one that ends or never answers is wrong."""
    try:
        return worker.call(kind, seed)
    except Died as death:
        return Verdict("wrong", str(death))


def least(seed: int, worker: Worker) -> tuple[Program, str]:
    """The smallest form found of a program that fails, and how it does."""
    last = [""]

    def fails(program: Program) -> bool:
        try:
            found = worker.call(failure, program, seed)
        except Died as death:
            found = str(death)
        last[0] = found or last[0]
        return bool(found)

    program = shrunk(Graph(seed).program(), fails)
    fails(program)
    return program, last[0]
