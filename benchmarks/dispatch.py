"""What a call costs on the host: `gspmd.jit` beside `jax.jit`, for functions of few and of many arrays.

Usage: `python benchmarks/dispatch.py [--calls 200] [--arrays 1,20,300]`.

Arguments lie on eight virtual CPU devices as the program wants them. A call is timed until it returns, which is before
the devices are done, by the processor time of the thread that calls; to it is added what freeing the results takes,
which `gspmd.jit` may put off until the next call. The two functions are called in turn, each as often first. Printed
are medians in microseconds, and the median of the ratios of calls that follow each other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

import gspmd

FORMS = ("arrays that lie right", "the same, donated", "the same, compiled ahead of time", "host arrays")


def increments(values: Any) -> Any:
    """One small operation for each array."""
    return jax.tree.map(lambda x: x + 1, values)


def measure(form: str, arrays: int, calls: int) -> tuple[float, float, float]:
    """Median microseconds of a call, by gspmd.jit and by jax.jit, and the median of their ratios."""
    mesh = gspmd.make_mesh((4, 2), ("x", "y"))
    split = NamedSharding(mesh, PartitionSpec("x"))
    donated = (0,) if "donated" in form else ()
    ours = gspmd.jit(increments, mesh=mesh, in_shardings=split, out_shardings=split, donate_argnums=donated)
    peer = jax.jit(increments, in_shardings=split, out_shardings=split, donate_argnums=donated)
    if "ahead" in form:
        shapes = {f"w{i}": jax.ShapeDtypeStruct((8,), jnp.float32, sharding=split) for i in range(arrays)}
        ours, peer = (function.lower(shapes).compile() for function in (ours, peer))
    times: dict[Any, list[float]] = {ours: [], peer: []}
    for call in range(calls + 3):
        for function, found in sorted(times.items(), key=lambda item: (item[0] is ours) == (call % 2)):
            values: Any = {f"w{i}": jnp.full((8,), float(i)) for i in range(arrays)}
            values = jax.device_get(values) if form == "host arrays" else jax.device_put(values, split)
            jax.block_until_ready(values)
            started = time.thread_time()
            result = function(values)
            took = time.thread_time() - started
            jax.block_until_ready(result)
            started = time.thread_time()
            del result
            if call >= 3:
                found.append(took + time.thread_time() - started)
    ratio = statistics.median(mine / other for mine, other in zip(times[ours], times[peer], strict=True))
    return statistics.median(times[ours]) * 1e6, statistics.median(times[peer]) * 1e6, ratio


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Time calls of gspmd.jit beside those of jax.jit.")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--arrays", default="1,20,300", help="numbers of array arguments")
    options = parser.parse_args(arguments)
    print(f"{'':32}{'arrays':>7}{'gspmd.jit':>12}{'jax.jit':>12}{'ratio':>8}")
    for form in FORMS:
        for arrays in map(int, options.arrays.split(",")):
            ours, peer, ratio = measure(form, arrays, options.calls)
            print(f"{form:32}{arrays:7}{ours:9.0f} us{peer:9.0f} us{ratio:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
