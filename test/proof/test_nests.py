"""A sample of the fuzzer of nested control flow, and what it stands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from gspmd.isolation import Worker
from proof.nest_tracing import arguments
from proof.nesting import expected, least, tried, verdict
from proof.nests import Block, Nest, Statement, nest

PROGRAMS = 8


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_made_up_nest(seed: int, worker: Worker) -> None:
    found = tried(nest(seed), seed, worker)
    assert found.kind in ("right", "judged", "reference"), found.why


ADD = Statement("add", (0, 0, 0), 0)
LOOP = Statement("repeat", (0, 0, 0), 2, (Block((ADD, ADD), (0, 1), (0, 0, 0, 0)),))
SMALL = Nest((("x", 2),), 4, 3, ((), (("x",),), (), ()), Block((ADD, LOOP), (), (0, 1, 2)))


def test_a_seed_names_a_program() -> None:
    assert nest(3) == nest(3)
    assert str(nest(3)) != str(nest(4))


def test_a_wrong_result_is_found() -> None:
    wanted = expected(SMALL, 0)
    assert verdict(SMALL, 0, wanted).kind == "right"
    assert verdict(SMALL, 0, [np.zeros_like(value) - 99 for value in wanted]).kind == "judged"


def test_shrinking_keeps_what_fails(worker: Worker) -> None:
    broken = Statement("no such thing", (0, 0, 0), 0)
    inner = Block((ADD, broken), (0,), (0, 0, 0, 0))
    program = dataclasses.replace(SMALL, body=Block((ADD, dataclasses.replace(LOOP, blocks=(inner,))), (), (0,)))
    found, why = least(program, 0, worker, kind="reference")
    assert found.body.statements == (broken,)
    assert not any(found.specs)
    assert "no such thing" in why


def test_a_manual_computation_on_one_device_is_that_of_all() -> None:
    own = Statement("own_number", (0, 0, 0), 0)
    manual = Statement("manual", (0, 0, 0), 1, (Block((own,), (), (0, 0, 0, 0)),))
    program = dataclasses.replace(SMALL, body=Block((manual,), (), (0,)))
    (value,) = expected(program, 0)
    np.testing.assert_array_equal(value, [0, 1])
    assert [a.ndim for a in arguments(program, 0)] == [0, 1, 2, 2]
