"""What lies where, against an oracle that walks the mesh device by device."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.handwritten import value

from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.runtime import layout
from gspmd.runtime.placing import from_host, place
from gspmd.runtime.sharded_array import ShardedArray, jax_can_hold, jax_sharding

MESHES = [(1,), (2,), (3,), (8,), (2, 2), (2, 4), (4, 2), (2, 3), (2, 2, 2), (1, 4)]


@st.composite
def layouts(draw: st.DrawFn, rank: int | None = None) -> tuple[TensorSharding, tuple[int, ...]]:
    """A sharding on a mesh of up to 8 devices in any order, sub-axes included, and a shape of any fit."""
    sizes = draw(st.sampled_from(MESHES))
    ids = tuple(draw(st.permutations(range(math.prod(sizes)))))
    mesh = Mesh(tuple((f"a{i}", size) for i, size in enumerate(sizes)), ids)
    parts: list[Axis] = []
    for name, size in mesh.axes:
        cut = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        parts += [part for part in (Axis(name, 1, cut), Axis(name, cut, size // cut)) if part.size > 1]
    rank = draw(st.integers(0, 3)) if rank is None else rank
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
def test_every_partition_has_its_part(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    expected = oracle(sharding, shape)
    found = layout.shard_slices(sharding, shape)
    assert [[list(range(part.start, part.stop)) for part in parts] for parts in found] == [
        expected[device] for device in range(sharding.mesh.size)
    ]
    parts, numbers = layout.shard_indices(sharding), layout.replica_ids(sharding)
    assert len({*zip(parts, numbers, strict=True)}) == sharding.mesh.size
    assert all(numbers[i] == parts[:i].count(part) for i, part in enumerate(parts))


@given(layouts(), st.sampled_from(["float32", "int32"]))
@settings(max_examples=60, deadline=None)
def test_devices_hold_their_parts_and_padding(case: tuple[TensorSharding, tuple[int, ...]], dtype: str) -> None:
    sharding, shape = case
    devices = tuple(jax.devices()[: sharding.mesh.size])
    array = numbered(shape, dtype)
    sharded = from_host(array, sharding, devices, "nan")
    assert sharded.device_assignment == devices
    expected = oracle(sharding, shape)
    for shard in sharded.shards:
        assert shard.device == devices[shard.partition]
        assert shard.data.devices() == shard.padded.devices() == {shard.device}
        part = array[np.ix_(*expected[shard.partition])]
        np.testing.assert_array_equal(shard.to_numpy(), part, strict=True)
        np.testing.assert_array_equal(shard.data, part, strict=True)
        assert shard.padded.shape == sharding.local_shape(shape)
        if dtype == "float32":
            assert np.count_nonzero(~np.isnan(shard.padded)) == part.size
    np.testing.assert_array_equal(np.asarray(sharded), array, strict=True)


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_jax_gets_the_same_array(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    devices = tuple(jax.devices()[: sharding.mesh.size])
    array = numbered(shape)
    sharded = from_host(array, sharding, devices, "nan")
    whole = sharded.to_jax()
    assert whole.sharding == sharded.sharding
    np.testing.assert_array_equal(np.asarray(whole), array, strict=True)
    mesh = whole.sharding.mesh
    for n, *entries in itertools.zip_longest(shape, sharded.padded.sharding.spec, whole.sharding.spec):
        axes, kept = ([entry] if isinstance(entry, str) else list(entry or ()) for entry in entries)
        counts = [math.prod(mesh.shape[axis] for axis in axes[: i + 1]) for i in range(len(axes))]
        assert kept == axes[: next((i for i, count in enumerate(counts) if n % count), len(counts))]
    assert jax_can_hold(sharding, shape) == (sharded.padded.shape == shape)
    if jax_can_hold(sharding, shape):
        assert whole is sharded.padded


@given(layouts(), st.data())
@settings(max_examples=60, deadline=None)
def test_arrays_on_devices_are_placed_as_those_of_the_host(
    case: tuple[TensorSharding, tuple[int, ...]], data: st.DataObject
) -> None:
    """From any layout to any other, on the same devices, the same in another order, or others."""
    wanted, shape = case
    given = data.draw(layouts(len(shape)))[0]
    available = tuple(data.draw(st.permutations(jax.devices())))
    devices = available[: wanted.mesh.size]
    start = data.draw(st.sampled_from([available, tuple(jax.devices())]))[: given.mesh.size]
    array = numbered(shape)
    source = from_host(array, given, start, "nan")
    for before in (source, source.to_jax(), jax.device_put(array, start[0])):
        placed = place(before, wanted, devices, "nan")
        np.testing.assert_array_equal(np.asarray(before), array)
        assert placed.placement == wanted
        assert placed.device_assignment == devices
        assert placed.padded.sharding == jax_sharding(wanted, devices)
        expected = from_host(array, wanted, devices, "nan")
        for shard, other in zip(placed.shards, expected.shards, strict=True):
            np.testing.assert_array_equal(shard.padded, other.padded, strict=True)


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_what_lies_right_is_not_copied(case: tuple[TensorSharding, tuple[int, ...]]) -> None:
    sharding, shape = case
    devices = tuple(jax.devices()[: sharding.mesh.size])
    source = from_host(numbered(shape), sharding, devices)
    mesh = Mesh((("all", sharding.mesh.size),))
    others = [source, ShardedArray(source.padded, shape, sharding)]
    if jax_can_hold(sharding, shape):
        parts = [buffer for _, buffer in sorted(source.buffers.items())]
        others.append(source.to_jax())
        if sharding.is_replicated():
            replicated = jax_sharding(TensorSharding(mesh, (DimSharding(),) * len(shape)), devices[::-1])
            others.append(jax.make_array_from_single_device_arrays(shape, replicated, parts))
    expected = [shard.padded.unsafe_buffer_pointer() for shard in source.shards]
    for other in others:
        placed = place(other, sharding, devices)
        assert [shard.padded.unsafe_buffer_pointer() for shard in placed.shards] == expected


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
        layout.shard_indices(sharding)
