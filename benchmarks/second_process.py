"""A whole run of a small training program, as people start it again and again: `gspmd.jit` beside `jax.jit`.

Usage: `python benchmarks/second_process.py [--layers 8] [--steps 5] [--rounds 5]`.

Each run is a process: it imports, makes a GPT's state, lowers and compiles the step for a look at its memory, as
training programs do, and then calls the function. A first process fills a compilation cache of JAX's, a second one
finds what the first has left. Printed are medians, over rounds in which the two ways take turns, of the seconds of a
process and of those of all processors, which say more where other programs run; and the parts of the latter as the
process itself sees them. Losses are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from gspmd.tables import table

OURS, PEER = "gspmd.jit", "jax.jit"
_DEVICES = 8
_PARTS = ("import", "lower", "compile", "steps")


def train(how: str, layers: int, steps: int) -> dict[str, Any]:
    """One process: processor seconds of its parts, and the last loss."""
    taken: dict[str, Any] = {}
    last = time.process_time()

    def until(part: str) -> None:
        nonlocal last
        now = time.process_time()
        taken[part], last = now - last, now

    import functools

    import jax

    if how == OURS:
        import gspmd

        jit = gspmd.jit
    else:
        jit = jax.jit
    until("import")
    import plain_gpt
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((_DEVICES,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    config = plain_gpt.Config(layers=layers)
    state, batch = plain_gpt.init(config), plain_gpt.tokens(config)
    split = functools.partial(NamedSharding, mesh)
    states, rows = jax.tree.map(split, plain_gpt.specs(state, _DEVICES)), split(PartitionSpec("x"))
    state, batch = jax.device_put((state, batch), (states, rows))
    step = jit(
        functools.partial(plain_gpt.step, config),
        in_shardings=(states, rows),
        out_shardings=(states, split(PartitionSpec())),
        donate_argnums=(0,),
    )
    until("state")
    lowered = step.lower(state, batch)
    until("lower")
    taken["temporary"] = lowered.compile().memory_analysis().temp_size_in_bytes
    until("compile")
    for _ in range(steps):
        state, loss = step(state, batch)
    taken["loss"] = float(loss)
    until("steps")
    return taken


def run(how: str, layers: int, steps: int, cache: str) -> tuple[float, float, dict[str, Any]]:
    """Seconds and processor seconds of a process of its own, and what it says of itself."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(_DEVICES),
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, __file__, "--child", how, "--layers", str(layers), "--steps", str(steps)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, busy_s, json.loads(output.splitlines()[-1])


def main(arguments: list[str]) -> None:
    """Measure and print; see `--help`."""
    parser = argparse.ArgumentParser(description="Time first and second processes of a small training program.")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=(OURS, PEER), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(train(options.child, options.layers, options.steps)))
        return
    found: dict[tuple[str, str], list[Any]] = {}
    for turn in range(options.rounds):
        for how in (OURS, PEER) if turn % 2 else (PEER, OURS):
            with tempfile.TemporaryDirectory() as cache:
                for which in ("first", "second"):
                    told = run(how, options.layers, options.steps, cache)
                    found.setdefault((which, how), []).append(told)
    rows = [["process", "", "s", "processor s", *_PARTS, "loss"]]
    for (which, how), runs in sorted(found.items()):
        medians = [statistics.median(each[i] for each in runs) for i in (0, 1)]
        parts = [statistics.median(each[2][part] for each in runs) for part in _PARTS]
        rows.append([which, how, *(f"{s:.2f}" for s in (*medians, *parts)), f"{runs[0][2]['loss']:.5f}"])
    print("\n".join(table(rows, right=range(2, 9))))
    for which in ("first", "second"):
        pairs = list(zip(found[which, OURS], found[which, PEER], strict=True))
        ratios = [statistics.median(ours[i] / peer[i] for ours, peer in pairs) for i in (0, 1)]
        print("{}: median ratio of time {:.3f}, of processor time {:.3f}".format(which, *ratios))


if __name__ == "__main__":
    main(sys.argv[1:])
