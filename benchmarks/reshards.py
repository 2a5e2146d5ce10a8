"""Bytes sent for random reshards, by gspmd and by the partitioners inside jaxlib.

Usage: `python benchmarks/reshards.py [--count 60] [--seed 0] [--devices 8,64] [--orders] [--list]`.

Nothing is run: the collectives are counted in the partitioned programs, in the same way for all.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import traffic
import xla
from support.random_shardings import random_sharding

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims, print_mesh, print_sharding
from gspmd.dialect.sharding import TensorSharding

_MESHES = {
    8: [(("x", 8),), (("x", 4), ("y", 2)), (("x", 2), ("y", 2), ("z", 2))],
    64: [(("x", 8), ("y", 8)), (("x", 4), ("y", 4), ("z", 4)), (("x", 2), ("y", 8), ("z", 4)), (("x", 16), ("y", 4))],
}
_SIZES = (256, 512, 1024)  # whole multiples of every number of shards
Case = tuple[tuple[int, ...], TensorSharding, TensorSharding]


def random_case(rng: random.Random, devices: int, orders: bool = False) -> Case:
    """A shape of two or three dimensions and two different shardings of it, all shards even.

    With `orders` each is over a mesh of its own, of the same devices in an order of its own.
    """
    mesh = Mesh(rng.choice(_MESHES[devices]))
    meshes = [mesh, mesh]
    if orders:
        axes = [rng.choice(_MESHES[devices]) for _ in meshes]
        meshes = [Mesh(axes[i], tuple(rng.sample(range(devices), devices)), name) for i, name in enumerate("ab")]
    shape = tuple(rng.choice(_SIZES) for _ in range(rng.randint(2, 3)))
    while True:
        source, target = (random_sharding(rng, each, len(shape)) for each in meshes)
        if source != target:
            return shape, source, target


def sdy_text(case: Case) -> str:
    """The reshard, as a value that is constrained to both shardings in turn."""
    shape, *ends = case
    type_ = f"tensor<{'x'.join(map(str, shape))}xf32>"
    source, target = (print_sharding(end) for end in ends)
    meshes = {end.mesh.name: f"sdy.mesh @{end.mesh.name} = {print_mesh(end.mesh)}\n" for end in ends}
    return "".join(meshes.values()) + (
        f"func.func public @main(%a: {type_} {{sdy.sharding = #sdy.sharding{source}}})"
        f" -> ({type_} {{sdy.sharding = #sdy.sharding{target}}}) {{\n"
        f"  %0 = sdy.sharding_constraint %a {source} : {type_}\n"
        f"  %1 = sdy.sharding_constraint %0 {target} : {type_}\n"
        f"  return %1 : {type_}\n}}\n"
    )


def mhlo_text(case: Case) -> str:
    """The same with `mhlo.sharding`."""
    shape, *ends = case
    type_ = f"tensor<{'x'.join(map(str, shape))}xf32>"
    source, target = (f'mhlo.sharding = "{gspmd.Sharding(end).mhlo}"' for end in ends)
    return (
        f"func.func public @main(%a: {type_} {{{source}}}) -> ({type_} {{{target}}}) {{\n"
        f"  %0 = stablehlo.custom_call @Sharding(%a) {{{source}}} : ({type_}) -> {type_}\n"
        f"  %1 = stablehlo.custom_call @Sharding(%0) {{{target}}} : ({type_}) -> {type_}\n"
        f"  return %1 : {type_}\n}}\n"
    )


def ours(case: Case) -> float:
    """gspmd."""
    module = gspmd.partition(sdy_text(case)).module
    return sum(t.bytes for t in traffic.of_stablehlo(module))


def shardy_passes(case: Case) -> float:
    """Shardy's own passes."""
    from jaxlib.mlir.passmanager import PassManager
    from shardy import PIPELINES

    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(sdy_text(case), new_context())
    for pipeline in PIPELINES:
        PassManager.parse(f"builtin.module({pipeline})", module.context).run(module.operation)
    return sum(t.bytes for t in traffic.of_stablehlo(module))


def _xla(case: Case, use_shardy: bool) -> float:
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(sdy_text(case) if use_shardy else mhlo_text(case), new_context())
    with tempfile.TemporaryDirectory() as directory:
        xla.partition(module, case[1].mesh.size, use_shardy=use_shardy, dump_to=directory)
        (path,) = Path(directory).glob("*after_spmd-partitioning.*.txt")
        return sum(t.sliced_bytes for t in traffic.of_hlo(path.read_text()))


PARTITIONERS: dict[str, Callable[[Case], float]] = {
    "gspmd": ours,
    "XLA GSPMD": lambda case: _xla(case, False),
    "XLA, Shardy propagates": lambda case: _xla(case, True),
    "Shardy's passes": shardy_passes,
}


def compare(devices: int, count: int, seed: int, orders: bool, show: bool) -> None:
    """Print a line for each partitioner: how often gspmd sends more or less, and the mean ratio where both send."""
    rng = random.Random(seed)
    cases = [random_case(rng, devices, orders) for _ in range(count)]
    partitioners = dict(PARTITIONERS)
    if orders:
        del partitioners["Shardy's passes"]  # which leave a permute of devices to XLA
    sent = {name: [run(case) for case in cases] for name, run in partitioners.items()}
    mine = sent.pop("gspmd")
    sent["the better of them"] = [min(each) for each in zip(*sent.values(), strict=True)]
    print(f"{devices} devices, {count} reshards\n\n| gspmd against | sends more | sends less | bytes, geometric mean |")
    print("|---|---|---|---|")
    for name, theirs in sent.items():
        pairs = list(zip(mine, theirs, strict=True))
        more, less = sum(a > b * 1.001 for a, b in pairs), sum(b > a * 1.001 for a, b in pairs)
        ratios = [math.log(a / b) for a, b in pairs if a and b]
        print(f"| {name} | {more} | {less} | {math.exp(sum(ratios) / max(1, len(ratios))):.3f} |")
    print()
    for i, (shape, source, target) in enumerate(cases):
        best = sent["the better of them"][i]
        if show and mine[i] > best * 1.001:
            print(f"{print_mesh(source.mesh)} {shape} {print_dims(source)} -> {print_dims(target)}: {mine[i]} {best}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="how many reshards")
    parser.add_argument("--seed", type=int, default=0, help="of the random generator")
    parser.add_argument("--devices", default="8,64", help="numbers of devices, of 8 and 64")
    parser.add_argument("--orders", action="store_true", help="between meshes of different device orders")
    parser.add_argument("--list", action="store_true", help="list the reshards in which gspmd sends more")
    options = parser.parse_args()
    xla.prepare(64, quiet=True)
    for devices in map(int, options.devices.split(",")):
        started = time.perf_counter()
        compare(devices, options.count, options.seed, options.orders, options.list)
        print(f"{time.perf_counter() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
