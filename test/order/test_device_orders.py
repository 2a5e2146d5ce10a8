"""From any sharding to any other on the same devices, whatever orders of these they are written over."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

import gspmd
from gspmd.dialect.axes import Axis, canonical
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.runtime.executable import compile as compile_
from gspmd.runtime.layout import shard_indices, shard_slices
from gspmd.runtime.sharded_array import jax_sharding

_AXES = {
    4: [(("p", 4),), (("p", 2), ("q", 2))],
    6: [(("p", 6),), (("p", 2), ("q", 3)), (("p", 3), ("q", 2))],
    8: [(("p", 8),), (("p", 2), ("q", 4)), (("p", 4), ("q", 2)), (("p", 2), ("q", 2), ("r", 2))],
}


@st.composite
def ends(draw: st.DrawFn) -> tuple[tuple[int, ...], TensorSharding, TensorSharding]:
    """A shape, and two shardings of it over meshes in orders of their own; few dimensions divide."""
    count = draw(st.sampled_from(list(_AXES)))
    shape = tuple(draw(st.lists(st.sampled_from([1, 3, 5, 8, 12]), min_size=1, max_size=3)))
    found = []
    for name in ("one", "other"):
        mesh = Mesh(draw(st.sampled_from(_AXES[count])), tuple(draw(st.permutations(range(count)))), name)
        homes: list[list[Axis]] = [[] for _ in range(len(shape) + 1)]  # the last: copies
        for axis in draw(st.permutations(mesh.all_axes())):
            homes[draw(st.integers(0, len(shape)))].append(axis)
        found.append(TensorSharding(mesh, tuple(DimSharding(canonical(home)) for home in homes[:-1])))
    return shape, found[0], found[1]


def by_sdy(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, body: str) -> str:
    type_ = f"tensor<{'x'.join(map(str, shape))}xi32>"
    meshes = "".join(f"sdy.mesh @{end.mesh.name} = {print_mesh(end.mesh)}\n" for end in (source, target))
    return (
        f"{meshes}func.func @main(%a: {type_} {{sdy.sharding = #sdy.sharding{print_sharding(source)}}}) -> "
        f"({type_} {{sdy.sharding = #sdy.sharding{print_sharding(target)}}}) {{\n{body.format(type=type_)}\n}}\n"
    )


def by_mhlo(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, body: str) -> str:
    type_ = f"tensor<{'x'.join(map(str, shape))}xi32>"
    one, other = (gspmd.Sharding(end).mhlo for end in (source, target))
    return (
        f"module attributes {{mhlo.num_partitions = {source.mesh.size} : i32}} {{\n"
        f'func.func @main(%a: {type_} {{mhlo.sharding = "{one}"}}) -> ({type_} {{mhlo.sharding = "{other}"}}) '
        f"{{\n{body.format(type=type_)}\n}}\n}}\n"
    )


RETURNED = "  return %a : {type}"
ADDED = "  %0 = stablehlo.add %a, %a : {type}\n  return %0 : {type}"


@pytest.mark.parametrize("written", [by_sdy, by_mhlo])
@pytest.mark.parametrize("body", [RETURNED, ADDED])
@settings(max_examples=15, deadline=None)
@given(case=ends())
def test_any_sharding_becomes_any_other(written: Any, body: str, case: Any) -> None:
    shape, source, target = case
    product = gspmd.partition(written(*case, body))
    for said, value in zip((source, target), (product.in_shardings[0], product.out_shardings[0]), strict=True):
        assert shard_indices(value.value) == shard_indices(said)  # the user's own, order included
    given_ = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    (result,) = compile_(product)(given_)
    expected = given_ if body == RETURNED else 2 * given_
    np.testing.assert_array_equal(result.to_numpy(), expected)
    slices = shard_slices(target, shape)
    for shard in result.shards:  # every copy of every shard, not only those that the whole is made of
        np.testing.assert_array_equal(shard.to_numpy(), expected[slices[shard.partition]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(), ("q",), ("p",)]))
def test_a_permute_sends_each_shard_that_changes_once(seed: int, copies: tuple[str, ...]) -> None:
    rng = random.Random(seed)
    meshes = [Mesh((("p", 2), ("q", 4)), tuple(rng.sample(range(8), 8)), name) for name in ("one", "other")]
    shardings = [
        TensorSharding(mesh, (DimSharding(tuple(a for a in mesh.all_axes() if a.name not in copies)), DimSharding()))
        for mesh in meshes
    ]
    product = gspmd.partition(by_sdy((16, 4), *shardings, RETURNED))
    before, after = map(shard_indices, shardings)
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert [c.kind for c in product.collectives] == ["collective_permute"] * bool(changed)
    assert [c.bytes for c in product.collectives] == [16 * 4 * 4 // len(set(before))] * bool(changed)
    if changed:
        pairs = pairs_of(product.module_text)
        assert sum(a != b for a, b in pairs) == changed
        assert all(before[a] == after[b] for a, b in pairs)


def pairs_of(text: str) -> list[tuple[int, int]]:
    listed = text.split("source_target_pairs = dense<[[")[1].split("]]>", maxsplit=1)[0]
    numbers = [int(number) for number in listed.replace("], [", ", ").split(", ")]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_arrays_in_their_order_are_used_as_they_are() -> None:
    mesh = Mesh((("p", 8),), (0, 3, 1, 6, 2, 5, 4, 7), "one")
    plain = Mesh((("p", 8),), (), "other")
    shardings = [TensorSharding(m, (DimSharding(m.all_axes()),)) for m in (mesh, plain)]
    program = compile_(gspmd.partition(by_sdy((16,), *shardings, ADDED)))
    devices = tuple(jax.devices())
    for given_ in (
        jax.device_put(np.arange(16, dtype=np.int32), jax_sharding(shardings[0], devices)),
        jax.device_put(  # the same parts, with the devices of the mesh listed otherwise
            np.arange(16, dtype=np.int32),
            NamedSharding(
                jax.sharding.Mesh(np.array(devices)[list(mesh.device_ids)].reshape(4, 2).T, ("a", "b")),
                PartitionSpec(("b", "a")),
            ),
        ),
    ):
        (placed,) = program.place(given_)
        mine = {s.device: s.data.unsafe_buffer_pointer() for s in given_.addressable_shards}
        assert {s.device: s.data.unsafe_buffer_pointer() for s in placed.shards} == mine
        (result,) = program(given_)
        np.testing.assert_array_equal(result.to_numpy(), 2 * np.arange(16))
        again = result.to_jax()
        assert [s.index for s in sorted(again.addressable_shards, key=lambda s: s.device.id)] == [
            (slice(2 * i, 2 * i + 2),) for i in range(8)
        ]
