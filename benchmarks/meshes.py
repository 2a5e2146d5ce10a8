"""The time of partitioning random decoders with random recipes over meshes of two to four axes, beside XLA Shardy.

Usage: `python benchmarks/meshes.py [--seed 0] [--count 40] [--slowest 5]`.

Sizes need not divide by the axes. Heads that are fewer than the devices of their axis, for example, cut the axis, and
the number of placements grows fast with the number of parts. Times are processor seconds of everything from the text to
the partitioned module, of one run. XLA is timed by its passes for propagation and partitioning.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import statistics
import time
from typing import TYPE_CHECKING, Any

import xla

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEVICES = 512


@dataclasses.dataclass(frozen=True)
class Case:
    """A random decoder, named by its number: the text of its training step, its mesh and its target."""

    number: int
    text: str
    mesh: dict[str, int]
    target: str
    summary: str


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; see `--help`."""
    options = _parse(arguments)
    xla.prepare(_DEVICES)
    rows, timed = [], []
    for case in _cases(options.seed, options.count):
        ours_s, peer_s = _ours(case), _peer(case)
        timed.append((ours_s, peer_s))
        rows.append(f"{ours_s:6.1f} s  {peer_s:6.1f} s  case {case.number}: {case.summary}")
        print(rows[-1], flush=True)
    ours, peers = zip(*timed, strict=True)
    ratio = statistics.median(a / b for a, b in timed)
    print(f"\nmedian {statistics.median(ours):.1f} s of gspmd, {statistics.median(peers):.1f} s of XLA Shardy,")
    print(f"median ratio {ratio:.2f}, slowest {max(ours):.1f} s and {max(peers):.1f} s. The slowest of gspmd:")
    print("\n".join(sorted(rows, reverse=True)[: options.slowest]))


def _cases(seed: int, count: int) -> Iterator[Case]:
    """Programs that JAX lowers: it refuses arguments that do not divide."""
    import jax
    import numpy as np
    from jax.sharding import Mesh
    from search_models import Llama

    from gspmd.examples.common.recipe import Recipe
    from gspmd.examples.common.running import lowered

    number = seed
    while count:
        draw, number = random.Random(number), number + 1
        groups, axes = draw.choice([2, 3, 4, 6, 8, 10, 16]), draw.choice([2, 2, 3, 3, 4])
        sizes = [draw.choice([2, 3, 4, 8, 16]) for _ in range(axes)]
        while math.prod(sizes) > _DEVICES:
            sizes[draw.randrange(axes)] = 2
        names = "xyzw"[:axes]
        split = {dim: tuple(draw.sample(names, draw.randint(1, min(3, axes)))) for dim in "nNkKhHvVmBPMdD"}
        recipe = Recipe("random", {}, {dim: split[dim] for dim in split if draw.random() < 0.5})
        width, heads, hidden = draw.choice([1000, 1024, 4096]), groups * draw.choice([1, 2, 4, 5]), [3000, 4096, 14336]
        batch, length = draw.choice([48, 64, 256]), draw.choice([512, 1000])
        model = Llama(4, width, heads, groups, draw.choice(hidden), batch, length)
        shape, target = dict(zip(names, sizes, strict=True)), draw.choice(["", "tpu-v5p"])
        mesh = Mesh(np.array(jax.devices()[: math.prod(sizes)]).reshape(sizes), tuple(names))
        try:
            text = str(lowered(model.program(recipe.on(shape)), mesh).program)
        except ValueError:
            continue
        summary = f"{shape}, {target or 'no target'}, {model.heads} heads in {groups} groups, {dict(recipe.table)}"
        yield Case(number - 1, text, shape, target, summary)
        count -= 1


def _ours(case: Case) -> float:
    from gspmd import api

    started = time.process_time()
    api.partition(case.text, target=case.target)
    return time.process_time() - started


def _peer(case: Case) -> float:
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module: Any = parse_module(case.text, new_context())
    return sum(xla.partition(module, math.prod(case.mesh.values()), use_shardy=True).values())


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program (0)")
    parser.add_argument("--count", type=int, default=40, help="how many programs (40)")
    parser.add_argument("--slowest", type=int, default=5, help="how many of the slowest to show again (5)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
