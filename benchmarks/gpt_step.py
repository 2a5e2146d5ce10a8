"""A step of a fully sharded GPT on eight virtual CPU devices: `gspmd.jit` beside `jax.jit` with the same shardings.

Usage: `python benchmarks/gpt_step.py [--only NAME,..] [--rounds 15] [--option NAME=VALUE] [--hlo DIRECTORY]`.

Weights, optimizer state and batch are split over one axis of eight devices; both functions are given the same arrays,
shardings and donations. In every round each takes one step, in turn, on the state that its last step left. Printed are
medians: the time of a step until all its results are there, and that of all processors together, which says more where
other programs run; and what the optimised HLO of each sends, holds and calls. Losses are compared after every step.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
import plain_gpt
from hlo_counts import count
from jax.sharding import NamedSharding, PartitionSpec

import gspmd
from gspmd.tables import table
from gspmd.text_report import bytes_text

_DEVICES = 8
OURS, PEER = "gspmd.jit", "jax.jit"

_TINY = plain_gpt.Config(width=64, positions=32, vocabulary=128)
_WIDE = plain_gpt.Config(width=256, heads=8, positions=128, batch=16, vocabulary=512)
MODELS: dict[str, tuple[plain_gpt.Config, str]] = {
    "tiny": (_TINY, "first"),
    "small": (plain_gpt.Config(), "first"),
    "small-last": (plain_gpt.Config(), "last"),
    "small-largest": (plain_gpt.Config(), "largest"),
    "small-tied-sgd": (plain_gpt.Config(tied=True, adam=False), "first"),
    "small-fused": (plain_gpt.Config(fused=True, biases=False), "first"),
    "wide": (_WIDE, "first"),
    "wide-largest": (_WIDE, "largest"),
}
"""Sizes, and the dimension of weights that is split."""


class Trained:
    """A step compiled one way, with the state that its last call left."""

    def __init__(self, how: str, config: plain_gpt.Config, dimension: str, options: dict[str, Any]) -> None:
        mesh = gspmd.make_mesh((_DEVICES,), ("x",))
        state, batch = plain_gpt.init(config), plain_gpt.tokens(config)
        split = functools.partial(NamedSharding, mesh)
        states, rows = jax.tree.map(split, plain_gpt.specs(state, _DEVICES, dimension)), split(PartitionSpec("x"))
        given: dict[str, Any] = {
            "in_shardings": (states, rows),
            "out_shardings": (states, split(PartitionSpec())),
            "donate_argnums": (0,),
        }
        function = functools.partial(plain_gpt.step, config)
        self.state, self.batch = jax.device_put((state, batch), (states, rows))
        if how == OURS:
            jitted = gspmd.jit(function, mesh=mesh, options=options, **given)
        else:
            jitted = jax.jit(function, **given)
        started = time.perf_counter()
        compiled = jitted.lower(self.state, self.batch).compile()
        self.compile_s = time.perf_counter() - started
        executable = compiled.runtime_executable()
        self.text = executable.hlo_modules()[0].to_string()
        memory = executable.get_compiled_memory_stats()
        self.temporary_bytes = memory.temp_size_in_bytes
        self._step = compiled

    def step(self) -> tuple[float, float, float]:
        """Seconds of a step, those of all processors together, and the loss."""
        started, busy = time.perf_counter(), time.process_time()
        self.state, loss = self._step(self.state, self.batch)
        jax.block_until_ready((self.state, loss))
        return time.perf_counter() - started, time.process_time() - busy, float(loss)


def measure(name: str, rounds: int, layers: int | None, options: dict[str, Any], hlo: str | None) -> None:
    """Print what a step of one model takes, both ways."""
    config, dimension = MODELS[name]
    config = dataclasses.replace(config, layers=layers or config.layers)
    ways = {how: Trained(how, config, dimension, options) for how in (OURS, PEER)}
    seconds: dict[str, list[tuple[float, float]]] = {how: [] for how in ways}
    for turn in range(rounds + 2):
        losses = []
        for how in ways if turn % 2 else reversed(ways):
            *taken, loss = ways[how].step()
            losses.append(loss)
            if turn >= 2:
                seconds[how].append(tuple(taken))
        np.testing.assert_allclose(*losses, rtol=1e-4, err_msg=f"losses differ at step {turn}")
    rows = [["", "ms", "processor ms", "sends", "collectives", "temporary", "operations", "compiled in s"]]
    for how, way in ways.items():
        if hlo is not None:
            Path(hlo, f"{name}-{how}.txt").write_text(way.text)
        rows.append(_row(how, way, [statistics.median(each) for each in zip(*seconds[how], strict=True)]))
    print("\n".join(["", name, *table(rows, right=(1, 2, 3, 5, 6, 7))]))
    if rounds:
        pairs = zip(*([zip(*seconds[how], strict=True) for how in (OURS, PEER)]), strict=True)
        ratios = [statistics.median(a / b for a, b in zip(ours, peer, strict=True)) for ours, peer in pairs]
        print("  median ratio of time {:.3f}, of processor time {:.3f}".format(*ratios), flush=True)


def _row(how: str, way: Trained, medians_s: list[float]) -> list[str]:
    counts = count(way.text)
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.number.items()))
    called = f"{sum(entry_operations(way.text).values())}"
    times = [f"{s * 1e3:.1f}" for s in medians_s] or ["", ""]
    temporary = bytes_text(way.temporary_bytes)
    return [how, *times, bytes_text(counts.bytes), kinds, temporary, called, f"{way.compile_s:.1f}"]


def entry_operations(text: str) -> Counter[str]:
    """The operations of the entry computation that something is run for, by name."""
    entry = text[text.index("\nENTRY ") :]
    names = re.findall(r"^ +(?:ROOT )?%?[\w.\-]+ = \S.*? ([a-z][\w\-]*)\(", entry, re.MULTILINE)
    free = {"parameter", "constant", "bitcast", "get-tuple-element", "tuple", "partition-id"}
    return Counter(name for name in names if name not in free)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; see `--help`."""
    parser = argparse.ArgumentParser(description="Time a step of a fully sharded GPT.")
    parser.add_argument("--only", type=lambda t: t.split(","), default=list(MODELS), metavar="NAME,..")
    parser.add_argument("--rounds", type=int, default=15, help="timed steps (15); 0 for none")
    parser.add_argument("--layers", type=int, help="another number of layers")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of a pass")
    parser.add_argument("--hlo", metavar="DIRECTORY", help="write the optimised HLO of both there")
    options = parser.parse_args(arguments)
    given = {name: int(value) for name, value in (text.split("=") for text in options.option)}
    for name in options.only:
        measure(name, options.rounds, options.layers, given, options.hlo)


if __name__ == "__main__":
    main(sys.argv[1:])
