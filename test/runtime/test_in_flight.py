"""Loops that wait for no result end on CPU devices of one process, whatever they call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from support.loops import KINDS

import gspmd
from gspmd.runtime import in_flight

_LOOPS = str(Path(__file__).parents[1] / "support/loops.py")


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_waits_for_no_result_ends(kind: str) -> None:
    finished = subprocess.run(
        [sys.executable, _LOOPS, kind, "120"], capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout.startswith("ended with")
    assert "rendezvous" not in finished.stderr


def test_few_programs_are_on_their_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(in_flight, "_wait", lambda array: waited.append(len(waited)))
    monkeypatch.setattr(in_flight._Started, "count", 0)
    result = jnp.ones(3)
    for _ in range(2):
        in_flight.make_room()
        in_flight.started([result])
    assert waited == []
    in_flight.make_room()
    assert waited == [0]


def test_where_results_are_gone_a_program_is_waited_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight._Started, "count", 0)
    large = (in_flight._SMALL + 1,)
    for _ in range(2):
        in_flight.started(jnp.ones(large))
    in_flight.make_room()
    in_flight.started(jnp.ones(large))
    assert in_flight._Started.count == 0


def test_a_small_result_that_is_gone_for_the_user_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight._Started, "count", 0)
    for _ in range(2):
        in_flight.started(jnp.ones(3))
    in_flight.make_room()
    assert in_flight._Started.count == 0


def test_only_several_cpu_devices_share_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = jax.devices("cpu")
    monkeypatch.setattr(in_flight, "_threads", lambda: 2)
    assert in_flight.share_threads(devices) == (len(devices) > 1)
    assert not in_flight.share_threads(devices[:1])
    with in_flight.turn(devices[:1]) as started:
        assert started(np.float32(1)) == 1


def test_where_there_are_many_threads_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = jax.devices("cpu")
    monkeypatch.setattr(in_flight, "_threads", lambda: 4 * len(devices))
    assert not in_flight.share_threads(devices)
    assert in_flight.pace(devices, lambda: 1e9) is in_flight.FREE


@pytest.mark.parametrize(("said", "found"), [({"PJRT_NPROC": "32", "NPROC": "3"}, 32), ({"NPROC": "3"}, 3)])
def test_the_environment_says_how_many_threads_there_are(
    said: dict[str, str], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    in_flight._threads.cache_clear()
    assert in_flight._threads() == found
    monkeypatch.undo()
    in_flight._threads.cache_clear()


def test_of_programs_that_xla_runs_at_once_every_sixteenth_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "share_threads", lambda devices: True)
    mesh = gspmd.make_mesh((4, 2), ("x", "y"))
    add = gspmd.jit(lambda x: x + 1, mesh=mesh, in_shardings=PartitionSpec("x"))
    product = gspmd.jit(lambda x: x @ x, mesh=mesh)
    result = add(add(jnp.ones(8)))  # what is given lies otherwise than what comes back, which is prepared for once
    assert add.pace is in_flight.BRIEF
    monkeypatch.setattr(in_flight._Started, "count", 0)  # what others have started is none of this
    waited: list[int] = []
    monkeypatch.setattr(in_flight, "_wait", lambda array: waited.append(len(waited)))
    for _ in range(32):
        result = add(result)
    assert len(waited) == 2
    product(jnp.ones((64, 64)))
    assert product.pace is in_flight.WITH_ROOM
