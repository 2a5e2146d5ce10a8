"""Cutting and assembling against an oracle that walks the mesh device by device."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import numpy as np
import pytest
from handwritten import value
from hypothesis import given, settings
from hypothesis import strategies as st

from gspmd import layout
from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.sharded_array import ShardedArray, from_host, from_jax, jax_can_hold, jax_sharding

MESHES = [(1,), (2,), (3,), (8,), (2, 2), (2, 4), (4, 2), (2, 3), (2, 2, 2), (1, 4)]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[TensorSharding, tuple[int, ...]]:
    """A sharding on a mesh of up to 8 devices in any order, sub-axes included, and a shape of any fit."""
    sizes = draw(st.sampled_from(MESHES))
    ids = tuple(draw(st.permutations(range(math.prod(sizes)))))
    mesh = Mesh(tuple((f"a{i}", size) for i, size in enumerate(sizes)), ids)
    parts: list[Axis] = []
    for name, size in mesh.axes:
        cut = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        parts += [part for part in (Axis(name, 1, cut), Axis(name, cut, size // cut)) if part.size > 1]
    rank = draw(st.integers(0, 3))
    dims: list[list[Axis]] = [[] for _ in range(rank)]
    for part in draw(st.permutations(parts)):
        owner = draw(st.integers(-1, rank - 1))
        if owner < 0:
            continue
        last = dims[owner][-1] if dims[owner] else None
        if last is not None and last.name == part.name and last.end == part.pre:
            dims[owner][-1] = Axis(part.name, last.pre, last.size * part.size)
        else:
            dims[owner].append(part)
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=rank, max_size=rank)))
    return TensorSharding(mesh, tuple(DimSharding(tuple(dim)) for dim in dims)), shape


def oracle(sharding: TensorSharding, shape: tuple[int, ...]) -> dict[int, list[list[int]]]:
    """Per device id and dimension, the global indices it holds, by walking the mesh's coordinates."""
    mesh = sharding.mesh
    held = {}
    coordinates = itertools.product(*(range(size) for _, size in mesh.axes))
    for position, coordinate in enumerate(coordinates):
        where = dict(zip((name for name, _ in mesh.axes), coordinate, strict=True))
        device = mesh.device_ids[position] if mesh.device_ids else position
        held[device] = []
        for size, dim in zip(shape, sharding.dims, strict=True):
            shard, shards = 0, 1
            for axis in dim.axes:
                rest = mesh.axis_size(axis.name) // (axis.pre * axis.size)
                shard = shard * axis.size + where[axis.name] // rest % axis.size
                shards *= axis.size
            width = math.ceil(size / shards)
            held[device].append([i for i in range(shard * width, (shard + 1) * width) if i < size])
    return held


def numbered(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(1, 1 + math.prod(shape)).reshape(shape).astype(dtype)


@given(layouts())
@settings(max_examples=300, deadline=None)
def test_every_partition_gets_its_part_and_padding(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    array = numbered(shape)
    shards = layout.cut(array, sharding, "nan")
    expected = oracle(sharding, shape)
    assert len(shards) == sharding.mesh.size
    for device, shard in enumerate(shards):
        assert shard.shape == sharding.local_shape(shape)
        part = array[np.ix_(*expected[device])]
        inside = tuple(slice(0, n) for n in part.shape)
        np.testing.assert_array_equal(shard[inside], part)
        assert np.count_nonzero(~np.isnan(shard)) == part.size


@given(layouts())
@settings(max_examples=300, deadline=None)
def test_assembling_undoes_cutting(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    array = numbered(shape)
    shards = dict(enumerate(layout.cut(array, sharding, "nan")))
    np.testing.assert_array_equal(layout.assemble(shards, shape, array.dtype, sharding), array)


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_devices_hold_what_was_cut(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    devices = tuple(jax.devices()[: sharding.mesh.size])
    array = numbered(shape)
    sharded = from_host(array, sharding, devices, "nan")
    expected = oracle(sharding, shape)
    for shard in sharded.shards:
        assert shard.data.devices() == {devices[shard.partition]}
        np.testing.assert_array_equal(shard.to_numpy(), array[np.ix_(*expected[shard.partition])])
    np.testing.assert_array_equal(np.asarray(sharded), array)


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_jax_sees_the_same_array(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    devices = tuple(jax.devices()[: sharding.mesh.size])
    array = numbered(shape)
    sharded = from_host(array, sharding, devices)
    if not jax_can_hold(sharding, shape):
        with pytest.raises(ExecutionError, match=r"uneven shards.*use to_numpy"):
            sharded.to_jax()
        return
    whole = sharded.to_jax()
    np.testing.assert_array_equal(np.asarray(whole), array)
    pointers = {s.device: s.data.unsafe_buffer_pointer() for s in sharded.shards}
    assert all(s.data.unsafe_buffer_pointer() == pointers[s.device] for s in whole.addressable_shards)
    back = from_jax(jax.device_put(array, jax_sharding(sharding, devices)), sharding, devices)
    assert back is not None
    np.testing.assert_array_equal(np.asarray(back), array)


def test_sub_axes_are_cut_out_of_the_mesh_that_jax_gets() -> None:
    mesh = parse_mesh('<["x"=4, "y"=2]>')
    sharding = value('f32[4,6] [{"x":(2)2}, {"y"}]', mesh).sharding
    named = jax_sharding(sharding, tuple(jax.devices()))
    assert dict(named.mesh.shape) == {"x:(1)2": 2, "x:(2)2": 2, "y": 2}
    assert tuple(named.spec) == ("x:(2)2", "y")


def test_values_that_no_array_describes_are_refused() -> None:
    mesh = Mesh((("x", 2),))
    sharding = TensorSharding(mesh, (DimSharding(),), manual=(Axis("x", 1, 2),))
    with pytest.raises(ExecutionError, match="cannot pass between host and devices"):
        layout.cut(np.zeros(4, np.float32), sharding)


def test_parts_of_other_processes_are_missed() -> None:
    sharding = value('f32[4] [{"x"}]', Mesh((("x", 2),))).sharding
    with pytest.raises(ExecutionError, match="1 of 2 parts of the array are on devices of other processes"):
        layout.assemble({0: np.zeros(2, np.float32)}, (4,), np.dtype("float32"), sharding)


def test_one_copy_is_enough_where_others_are_elsewhere() -> None:
    sharding = value("f32[4] [{}]", Mesh((("x", 2),))).sharding
    array = numbered((4,))
    np.testing.assert_array_equal(layout.assemble({1: array}, (4,), array.dtype, sharding), array)


def test_repr_names_type_and_sharding() -> None:
    sharding = value('bf16[4,2] [{"x"}, {}]', Mesh((("x", 2),))).sharding
    devices = tuple(jax.devices()[:2])
    array = from_host(np.zeros((4, 2), np.float32), sharding, devices)
    assert repr(array) == 'ShardedArray(float32[4,2], <@mesh, [{"x"}, {}]> of <["x"=2]>)'
    assert isinstance(array, ShardedArray)
    array.delete()
    assert repr(array).endswith(", deleted)")
