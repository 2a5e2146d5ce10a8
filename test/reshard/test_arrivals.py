"""Reshards as programs, where nothing but the bytes sent decides: every shard and every sum arrives."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from support.random_shardings import random_mesh, random_shape, random_sharding

from gspmd.dialect.axes import size_of
from gspmd.dialect.notation import print_axes, print_dims, print_mesh, print_sharding
from gspmd.dialect.sharding import TensorSharding
from gspmd.pass_manager import PassManager
from gspmd.runtime import executable as runtime
from gspmd.transforms.parsing.mlir import new_context, parse_module

# Collectives cost no time to begin, so that blocks are exchanged wherever this sends least.
HASTY = """
like = "h100"
[network]
topology = "switch"
bytes_per_s = 1e9
latency_s = 1e-15
[memory]
bytes_per_s = 1e15
"""
Case = tuple[tuple[int, ...], TensorSharding, TensorSharding]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("targets") / "hasty.toml"
    path.write_text(HASTY)
    return path


def program(cases: list[Case]) -> str:
    """A program that takes partial sums to the target of every case, back, and to the target again.

    It sums the leading dimension of every tensor, which leaves sums partial where it is split. On the way back the
    partial axes are left out.
    """
    arguments, results, body, returned = [], [], [], []
    for i, (shape, source, target) in enumerate(cases):
        count = size_of(source.unreduced)
        of = f"tensor<{'x'.join(map(str, (count, *shape)))}xi32>"
        type_ = f"tensor<{'x'.join(map(str, shape))}xi32>"
        first = "{" + print_axes(source.unreduced, source.mesh) + "}"
        inner = print_dims(source.with_axes(source.dim_axes())).removeprefix("[")
        split = f"<@mesh, [{first}, {inner}>"
        arguments.append(f"%a{i}: {of} {{sdy.sharding = #sdy.sharding{split}}}")
        finished = print_sharding(source.with_axes(source.dim_axes()))
        ends = [print_sharding(target), finished, print_sharding(target)]
        results += [f"{type_} {{sdy.sharding = #sdy.sharding{end}}}" for end in ends]
        body.append(
            f"%s{i} = stablehlo.reduce(%a{i} init: %zero) applies stablehlo.add across dimensions = [0] "
            f"{{sdy.sharding = #sdy.sharding_per_value<[{print_sharding(source)}]>}} : ({of}, tensor<i32>) -> {type_}"
        )
        values = [f"%s{i}", f"%t{i}", f"%b{i}", f"%u{i}"]
        for before, after, end in zip(values, values[1:], ends, strict=False):
            body.append(f"{after} = sdy.sharding_constraint {before} {end} : {type_}")
        returned += [(value, type_) for value in values[1:]]
    mesh = print_mesh(cases[0][1].mesh)
    values_text, types = (", ".join(column) for column in zip(*returned, strict=True))
    return (
        f"sdy.mesh @mesh = {mesh}\n"
        f"func.func public @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
        + "\n".join(body)
        + f"\nreturn {values_text} : {types}\n}}\n"
    )


def check(cases: list[Case], target: Path) -> None:
    module = parse_module(program(cases), new_context())
    PassManager([f"gspmd-reshard{{target={target}}}", "gspmd-localize"]).run(module)
    arrays, sums = [], []
    for shape, source, _ in cases:
        array = np.arange(size_of(source.unreduced) * np.prod(shape), dtype=np.int32)
        arrays.append(array.reshape(size_of(source.unreduced), *shape) + 1)
        sums += [arrays[-1].sum(axis=0, dtype=np.int32)] * 3
    results = runtime.compile(module)(*arrays)
    ends = [end for _, source, target in cases for end in (target, source.with_axes(source.dim_axes()), target)]
    for expected, result, end in zip(sums, results, ends, strict=True):
        assert result.placement.dim_axes() == end.dim_axes()
        for shard in result.shards:
            np.testing.assert_array_equal(shard.to_numpy(), expected[shard.index], str(end))


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_shard_and_every_sum_arrives(seed: int, partial: bool, hasty: Path) -> None:
    rng = random.Random(seed)
    mesh = random_mesh(rng)
    cases = []
    for _ in range(5):
        # What is even takes other ways than what is not.
        shape = random_shape(rng) if rng.random() < 0.5 else tuple(rng.choice((12, 24, 48)) for _ in range(3))
        source, target = (random_sharding(rng, mesh, len(shape), partial and way == 0) for way in range(2))
        cases.append((shape, source, target))
    check(cases, hasty)
