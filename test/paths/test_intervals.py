"""Schedules of messages: every place wanted is filled, no device sends or receives twice in a round, few are sent."""

from __future__ import annotations

import itertools
import random
import time

import numpy as np
import pytest

from gspmd.dialect.mesh import Mesh
from gspmd.transforms.exchange.halo import Windows, joint_axes, positions, retiling
from gspmd.transforms.exchange.intervals import Exchange, cheapest, schedule, tiles

COUNTS = (2, 3, 4, 6, 8)


def carry_out(exchange: Exchange) -> None:
    """Send everything as scheduled, between shards of numbered elements, and look at what arrives."""
    plan, devices = schedule(exchange), exchange.devices
    shards = [[-1] * exchange.local for _ in range(devices)]
    for shard, place, held in exchange.kept():
        for device in range(shard * exchange.spread, (shard + 1) * exchange.spread):
            shards[device][place : place + held[1] - held[0]] = range(*held)
    wanted = [exchange.wants[exchange.targets[d] if exchange.targets else d] for d in range(devices)]
    have = np.full((devices, exchange.length), -1)
    for pieces in (*plan.own, *plan.rounds):
        assert len(set(pieces.source.tolist())) == len(pieces), "a device sends twice in a round"
        assert len(set(pieces.target.tolist())) == len(pieces), "a device receives twice in a round"
        columns = (pieces.source, pieces.target, pieces.taken, pieces.put, pieces.length)
        for source, target, taken, put, length in zip(*(c.tolist() for c in columns), strict=True):
            have[target, put : put + length] = shards[source][taken : taken + length]
    inside = {element for low, high in exchange.holds for element in range(low, high)}
    for device, (low, high) in enumerate(wanted):
        assert have[device].tolist() == [e if e in inside else -1 for e in range(low, high)], (exchange, device)
    assert cheapest(exchange).sent <= exchange.local * (exchange.shards - 1)


@pytest.mark.parametrize("count", COUNTS)
def test_every_window_is_filled(count: int) -> None:
    for size, start, step, length in itertools.product(range(10), (-5, -1, 0, 2, 7), (-3, 0, 1, 2, 5), (1, 4, 9)):
        carry_out(Windows(size, start, step, length).exchange(count))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(COUNTS, COUNTS)))
def test_every_tiling_becomes_every_other(source: int, target: int) -> None:
    mesh = Mesh((("x", source), ("y", target)))
    x, y = (mesh.axis("x"),), (mesh.axis("y"),)
    for size, (a, b) in itertools.product(range(30), ((x, y), (x, x + y), (x + y, x), (x + y, y + x), (x + y, y))):
        carry_out(retiling(size, a, joint_axes(a, b), b))


def test_parts_of_an_axis_are_retiled() -> None:
    mesh = Mesh((("x", 8),))
    major, minor, whole = (mesh.axis("x", 1, 2),), (mesh.axis("x", 2, 4),), (mesh.axis("x"),)
    assert positions(minor, minor + major, major) == (2, (0, 1) * 4)
    for size in range(30):
        for a, b in itertools.permutations((major, minor, whole, minor + major), 2):
            carry_out(retiling(size, a, joint_axes(a, b), b))


def test_rounds_are_as_many_as_the_busiest_device_has_messages() -> None:
    rng = random.Random(0)
    for _ in range(300):
        count, size = rng.choice(COUNTS), rng.randint(1, 60)
        exchange = Windows(size, rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(1, 20)).exchange(count)
        plan = schedule(exchange)
        degrees = [0]
        for ends in ("source", "target"):
            every = [getattr(pieces, ends) for pieces in plan.rounds]
            degrees += np.bincount(np.concatenate(every)).tolist() if every else []
        longest = max((int(pieces.length.max()) for pieces in plan.rounds), default=0)
        assert plan.sent <= max(degrees) * longest, "more is sent than in as few rounds as there can be"


def test_shards_that_do_not_move_send_nothing() -> None:
    exchange = Exchange(4, tiles(16, 4), tiles(16, 4))
    assert cheapest(exchange).sent == 0


def test_half_of_a_dimension_is_spread_by_two_messages_of_half_a_shard() -> None:
    exchange = Windows(64, 0, 4, 4).exchange(8)
    assert (cheapest(exchange).sent, len(schedule(exchange).rounds)) == (8, 2)


def test_halos_of_a_hundred_thousand_shards_take_no_seconds() -> None:
    started = time.process_time()
    assert cheapest(Windows(1600000, -2, 16, 20).exchange(100000)).margins == (2, 2)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("count", [1024, 4096])
def test_thousands_of_shards_are_scheduled(count: int) -> None:
    assert cheapest(Windows(count * 16 - 5, 3, 8, 8).exchange(count)).sent <= 16
