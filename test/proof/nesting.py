"""Made-up nests, run partitioned and by JAX without: what is wrong with one, and the smallest form that still is."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import gspmd
from gspmd.dialect.errors import Unsupported
from gspmd.isolation import ProcessDied, Worker
from gspmd.reduction import reduced
from proof.execution import Verdict
from proof.nest_tracing import Array, arguments, function, shardings
from proof.nests import Block, Nest, Statement

TOLERANCE = 2e-4
"""Of floats, all of which are about 1."""


def expected(program: Nest, seed: int) -> list[Array]:
    """What JAX computes on one device."""
    results = jax.jit(function(program, partitioned=False))(*map(jnp.asarray, arguments(program, seed)))
    return [np.asarray(value) for value in results]


def step_by_step(program: Nest, seed: int) -> list[Array]:
    """The same with every operation compiled alone: XLA fuses some into what is wrong (docs/xla.md)."""
    with jax.disable_jit():
        return expected(program, seed)


def verdict(program: Nest, seed: int, wanted: list[Array]) -> Verdict:
    """`right`, `refused` with a reason, or `wrong`; `judged` where JAX was wrong, too, on one device."""
    run = function(program, partitioned=True)
    try:
        partitioned = gspmd.jit(run, mesh=dict(program.mesh), in_shardings=shardings(program))
        actual = [np.asarray(value) for value in partitioned(*arguments(program, seed))]
    except Unsupported as error:
        return Verdict("refused", f"{error.op or ''}: {error.message}")
    except gspmd.Error as error:
        return Verdict("wrong", f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        return Verdict("wrong", traceback.format_exc(limit=-3))
    found = _differences(wanted, actual)
    if found and not _differences(step_by_step(program, seed), actual):
        return Verdict("judged")
    return Verdict("wrong", "; ".join(found)) if found else Verdict("right")


def _differences(wanted: list[Array], actual: list[Array]) -> list[str]:
    return [f"result {i}: {why}" for i, (e, a) in enumerate(zip(wanted, actual, strict=True)) if (why := _why(e, a))]


def _why(expected: Array, actual: Array) -> str:
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if expected.dtype.kind == "f":
        error = np.abs(actual - expected).max(initial=0)
        return "" if error <= TOLERANCE else f"error {error:.3g}"
    wrong = int((expected != actual).sum())
    return f"{wrong} of {expected.size} elements differ" if wrong else ""


def tried(program: Nest, seed: int, worker: Worker) -> Verdict:
    """The verdict, found in another process: one that ends or never answers is wrong.

    It is `reference` where that becomes of JAX on one device.
    """
    try:
        wanted = worker.call(expected, program, seed)
    except Exception as error:  # noqa: BLE001 - JAX refuses in many ways
        return Verdict("reference", f"{type(error).__name__}: {str(error)[:300]}")
    try:
        return worker.call(verdict, program, seed, wanted)
    except ProcessDied as death:
        return Verdict("wrong", str(death))


def least(program: Nest, seed: int, worker: Worker, kind: str = "wrong", tries: int = 60) -> tuple[Nest, str]:
    """The smallest form found of a nest that fails, and how it does."""
    why = ""

    def fails(candidate: Nest) -> bool:
        nonlocal why
        found = tried(candidate, seed, worker)
        if found.kind == kind:
            why = found.why
        return found.kind == kind

    return reduced(program, _smaller, fails, tries=tries), why


def _smaller(program: Nest) -> Iterator[Nest]:
    """The same with one argument whole, or one statement less, the largest ones first."""
    if any(program.specs):
        yield dataclasses.replace(program, specs=((),) * len(program.specs))
    for body in sorted(_shorter(program.body), key=_size):
        yield dataclasses.replace(program, body=body)


def _size(block: Block) -> int:
    return sum(1 + sum(map(_size, statement.blocks)) for statement in block.statements)


def _shorter(block: Block) -> Iterator[Block]:
    """The block without one statement, with what is in one in its place, or with less in one."""
    for i, statement in enumerate(block.statements):
        for instead in _less(statement):
            statements = (*block.statements[:i], *instead, *block.statements[i + 1 :])
            yield dataclasses.replace(block, statements=statements)


def _less(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    yield ()
    for i, inner in enumerate(statement.blocks):
        yield inner.statements
        for shorter in _shorter(inner):
            blocks = (*statement.blocks[:i], shorter, *statement.blocks[i + 1 :])
            yield (dataclasses.replace(statement, blocks=blocks),)
