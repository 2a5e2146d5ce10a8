"""Programs over meshes of many devices: what is partitioned must give what one device does, however groups are cut.

Run as `python test/real_meshes.py [--seed N] [--count N] [--devices N ...]`. Each program holds several values
that come and leave in random shardings, over axes and parts of axes and over two orders of the devices, so that its
replica groups are cut in different ways, and a manual computation whose groups name an axis. It is run on so many
virtual CPU devices, as is a function of `gspmd.jit`. The exit code is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "128"

import numpy as np
from jax.sharding import PartitionSpec
from support.random_shardings import random_sharding

import gspmd
from gspmd.dialect.axes import Axis
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.sharding import DimSharding, TensorSharding, replicated

Array = np.ndarray[Any, np.dtype[np.int32]]
SIZES = {
    72: [(2, 6, 6), (4, 3, 6), (2, 4, 9), (12, 3, 2)],
    96: [(4, 4, 6), (2, 12, 4), (8, 2, 6), (2, 3, 16)],
    105: [(3, 5, 7), (7, 5, 3), (5, 3, 7)],
    128: [(4, 4, 8), (2, 16, 4), (32, 2, 2), (8, 2, 8)],
}
_VALUES = 5


class Program:
    """Text, arguments and expected results, made value by value."""

    def __init__(self, rng: random.Random, sizes: tuple[int, ...]) -> None:
        self._rng = rng
        self.mesh = Mesh(tuple(zip("xyz", sizes, strict=True)))
        ids = list(range(self.mesh.size))
        rng.shuffle(ids)
        self._meshes = [self.mesh, Mesh(self.mesh.axes, tuple(ids), "other")][: rng.randint(1, 2)]
        self.inputs: list[Array] = []
        self.expected: list[Array] = []
        self._arguments: list[str] = []
        self._results: list[str] = []
        self._body: list[str] = []
        (x, n), (y, m) = rng.sample(self.mesh.axes, 2)
        cut = min(k for k in range(2, n + 1) if n % k == 0)
        for axis in (Axis(x, 1, cut), Axis(x, 1, n), Axis(y, 1, m)):
            self._gathered(axis)
        for _ in range(_VALUES):
            self._value()
        self._manual()

    @property
    def text(self) -> str:
        names, types = ", ".join(f"%r{i}" for i in range(len(self.expected))), ", ".join(map(_type, self.expected))
        meshes = "\n".join(f"sdy.mesh @{mesh.name} = {print_mesh(mesh)}" for mesh in self._meshes)
        head = f"func.func public @main({', '.join(self._arguments)}) -> ({', '.join(self._results)}) {{"
        zero = "%zero = stablehlo.constant dense<0> : tensor<i32>"
        return "\n".join([meshes, head, zero, *self._body, f"return {names} : {types}", "}", ""])

    def _gathered(self, axis: Axis) -> None:
        """A vector that comes split along an axis or a part of one, and leaves whole."""
        i, given = len(self.inputs), np.arange(3 * axis.size - 1, dtype=np.int32)
        self._body.append(f"%r{i} = stablehlo.negate %a{i} : {_type(given)}")
        split = print_sharding(TensorSharding(self.mesh, (DimSharding((axis,)),)))
        self._add(given, split, -given, print_sharding(replicated(self.mesh, 1)))

    def _value(self) -> None:
        """An argument, and its negative or its sum along a dimension."""
        rng, i = self._rng, len(self.inputs)
        shape = tuple(rng.choice([1, 6, 16, 24, 35]) for _ in range(rng.randint(1, 3)))
        given = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) + i
        if given.ndim > 1 and rng.random() < 0.6:
            dim = rng.randrange(given.ndim)
            made = given.sum(dim, dtype=np.int32)
            self._body.append(
                f"%r{i} = stablehlo.reduce(%a{i} init: %zero) applies stablehlo.add across dimensions = [{dim}] "
                f": ({_type(given)}, tensor<i32>) -> {_type(made)}"
            )
        else:
            made = -given
            self._body.append(f"%r{i} = stablehlo.negate %a{i} : {_type(given)}")
        self._add(given, self._sharding(given), made, self._sharding(made))

    def _manual(self) -> None:
        """A sum over the devices along one axis, as a user writes it."""
        i, (name, size) = len(self.inputs), self._rng.choice(self.mesh.axes)
        given = np.arange(4 * size, dtype=np.int32)
        made = given.reshape(size, 4).sum(0, dtype=np.int32)
        split, local = f'<@mesh, [{{"{name}"}}]>', _type(made)
        groups = f'#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "{name}">]>'
        self._body.append(f"""
            %r{i} = sdy.manual_computation(%a{i}) in_shardings=[{split}] out_shardings=[<@mesh, [{{}}]>]
                manual_axes={{"{name}"}} (%m: {local}) {{
              %s = "stablehlo.all_reduce"(%m) <{{replica_groups = {groups}, use_global_device_ids,
                channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}> ({{
                ^bb0(%p: tensor<i32>, %q: tensor<i32>):
                  %t = stablehlo.add %p, %q : tensor<i32>
                  stablehlo.return %t : tensor<i32>
              }}) : ({local}) -> {local}
              sdy.return %s : {local}
            }} : ({_type(given)}) -> {local}""")
        self._add(given, self._sharding(given), made, self._sharding(made))

    def _add(self, given: Array, comes: str, made: Array, leaves: str) -> None:
        self._arguments.append(f"%a{len(self.inputs)}: {_type(given)} {{sdy.sharding = #sdy.sharding{comes}}}")
        self._results.append(f"{_type(made)} {{sdy.sharding = #sdy.sharding{leaves}}}")
        self.inputs.append(given)
        self.expected.append(made)

    def _sharding(self, value: Array) -> str:
        return print_sharding(random_sharding(self._rng, self._rng.choice(self._meshes), value.ndim))


def _type(value: Array) -> str:
    return f"tensor<{''.join(f'{n}x' for n in value.shape)}i32>"


def wrong(program: Program) -> tuple[list[int], int]:
    """The numbers of the results that are wrong, and how many different groups by axes the program has."""
    product = gspmd.partition(program.text)
    found = [np.asarray(result) for result in gspmd.compile(product, padding="nan")(*program.inputs)]
    different = [i for i, (a, b) in enumerate(zip(found, program.expected, strict=True)) if not np.array_equal(a, b)]
    return different, len(set(re.findall(r"#stablehlo\.replica_group_mesh_axes<.*?\]>", product.module_text)))


def jitted(devices: int) -> bool:
    """Whether two sums over parts of one axis, by `gspmd.jit`, are right."""

    def sums(a: Any) -> Any:
        return a.reshape(2, 32, 8).sum(0), a.reshape(4, 16, 8).sum(0)

    a = np.arange(512, dtype=np.int32).reshape(64, 8)
    found = gspmd.jit(sums, mesh={"x": 8, "y": devices // 8}, in_shardings=(PartitionSpec("x"),))(a)
    return all(np.array_equal(np.asarray(f), e) for f, e in zip(found, sums(a), strict=True))


def main() -> int:
    options = _parse()
    failures = 0
    for devices in options.devices:
        if devices % 8 == 0:
            right = jitted(devices)
            print(f"// {devices} devices, gspmd.jit: {'right' if right else 'wrong'}", flush=True)
            failures += not right
        for seed in range(options.seed, options.seed + options.count):
            rng = random.Random(f"{devices} {seed}")
            program = Program(rng, rng.choice(SIZES[devices]))
            sizes = "x".join(str(size) for _, size in program.mesh.axes)
            try:
                bad, groups = wrong(program)
                print(f"// {devices} devices, {sizes}, seed {seed}: {groups} groups by axes, wrong: {bad}", flush=True)
            except gspmd.Error as error:
                print(f"// {devices} devices, {sizes}, seed {seed}: {error}", flush=True)
                bad = [-1]
            if bad:
                print(f"{program.text}// -----", flush=True)
                failures += 1
    return 1 if failures else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program (default: 0)")
    parser.add_argument("--count", type=int, default=4, help="programs for each number of devices (default: 4)")
    parser.add_argument("--devices", type=int, nargs="+", choices=list(SIZES), default=list(SIZES), help="default: all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
