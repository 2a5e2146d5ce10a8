"""Put arrays of any kind onto the devices with a placement, padded if it is uneven."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from gspmd.dialect.sharding import TensorSharding
from gspmd.runtime import in_flight
from gspmd.runtime.array_layout import in_usual_layout
from gspmd.runtime.dtypes import Padding, filled
from gspmd.runtime.layout import part_indices, shard_slices
from gspmd.runtime.manual_program import XlaForm
from gspmd.runtime.sharded_array import (
    Devices,
    ShardedArray,
    at_once,
    even_part,
    jax_sharding,
    local_partitions,
    padded_shape,
)


def place(array: Any, placement: TensorSharding, devices: Devices, padding: Padding = "zero") -> ShardedArray:
    """A host array, a `jax.Array` or a `ShardedArray` with any placement, moved to `devices` with `placement`.

    An array with that placement is not copied. An array on devices is not moved through the host, unless it is only on
    devices of this process and `devices` belong to several processes. `filled` is the padding.
    """
    if not isinstance(array, jax.Array):
        return from_host(np.asarray(array), placement, devices, padding)
    target, shape = jax_sharding(placement, devices), array.shape
    if not isinstance(array, ShardedArray):
        array = in_usual_layout(array)
    source = array.padded if isinstance(array, ShardedArray) else array
    wanted = padded_shape(placement, shape)
    if lies_so(array, placement, devices):
        return ShardedArray(_seen_as(source, target), shape, placement)
    if placement.unreduced:
        return from_host(np.asarray(array), placement, devices, padding)
    if not array.size:  # XLA replicates results without elements
        return from_host(np.empty(shape, array.dtype), placement, devices, padding)
    if array.is_fully_addressable and not target.is_fully_addressable:
        return from_host(np.asarray(array), placement, devices, padding)
    with at_once(), in_flight.turn(devices) as started:
        if not _is_along(source.sharding, target):
            value = array.to_jax() if isinstance(array, ShardedArray) else array
            source = jax.device_put(value, even_part(target, shape))
        if source.sharding != target:
            source = _laying(shape, wanted, target, padding)(source)
        started(source)
    return ShardedArray(source, shape, placement)


def lies_so(array: jax.Array, placement: TensorSharding, devices: Devices) -> bool:
    """Whether every device holds its part of the placement, including padding."""
    source = array.padded if isinstance(array, ShardedArray) else array
    wanted = padded_shape(placement, array.shape)
    return source.shape == wanted and _places_alike(source.sharding, jax_sharding(placement, devices), wanted)


def from_host(
    array: np.ndarray[Any, Any], placement: TensorSharding, devices: Devices, padding: Padding = "zero"
) -> ShardedArray:
    """Copy a global host array to the devices, padded if uneven, without communication between processes.

    Of an unreduced array, the first summand is the array and the others are zeros. The parts are copied first, because
    the caller may overwrite the array, and on CPUs `jax.device_put` aliases its memory even with `may_alias=False`.
    """
    shape = padded_shape(placement, array.shape)
    if shape != array.shape:
        padded = filled(shape, array.dtype, padding)
        padded[tuple(map(slice, array.shape))] = array
    else:
        padded = array
    here = local_partitions(devices)
    parts = [_part(padded, placement, partition) for partition in here]
    if padded is array:
        parts = [part.copy() for part in parts]
    with jax.enable_x64(True):
        buffers = jax.device_put(parts, [devices[partition] for partition in here])
    return ShardedArray(_joined(shape, array.dtype, jax_sharding(placement, devices), buffers), array.shape, placement)


def _part(padded: np.ndarray[Any, Any], placement: TensorSharding, partition: int) -> np.ndarray[Any, Any]:
    """The shard of one partition of an evenly split array."""
    part = padded[shard_slices(placement, padded.shape)[partition]]
    is_first = part_indices(placement)[partition][-1] == 0
    return part if is_first else np.zeros_like(part)


def from_buffers(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    placement: TensorSharding,
    devices: Devices,
    buffers: Sequence[jax.Array],
) -> ShardedArray:
    """The array from one buffer of the local shape on each device of this process, in any order.

    XLA replicates results without elements.
    """
    if 0 in shape:
        return from_host(np.empty(shape, dtype), placement, devices)
    padded = _joined(padded_shape(placement, shape), dtype, jax_sharding(placement, devices), buffers)
    return ShardedArray(padded, shape, placement)


def as_passed(array: ShardedArray, form: XlaForm, devices: Devices) -> jax.Array:
    """The array in XLA's form: with its padding, or as the concatenation of all shards."""
    if not form.by_shards:
        return array.padded
    return _joined(form.shape, array.dtype, shards_in_a_row(form, devices), list(array.buffers.values()))


def from_passed(
    array: jax.Array, form: XlaForm, shape: tuple[int, ...], placement: TensorSharding, devices: Devices
) -> ShardedArray:
    """The inverse of `as_passed`: the array of global `shape` for a result."""
    if not form.by_shards and 0 not in shape:
        return ShardedArray(array, shape, placement)
    buffers = [shard.data for shard in array.addressable_shards]
    return from_buffers(shape, np.dtype(array.dtype), placement, devices, buffers)


def shards_in_a_row(form: XlaForm, devices: Devices) -> NamedSharding:
    """The sharding of a concatenation of all shards."""
    grid = np.empty(len(devices), object)
    grid[:] = devices
    mesh = jax.sharding.Mesh(grid, ("partition",))
    return NamedSharding(mesh, PartitionSpec("partition") if form.shape else PartitionSpec())


def _joined(shape: tuple[int, ...], dtype: Any, target: NamedSharding, buffers: Sequence[jax.Array]) -> jax.Array:
    """One array from buffers, without copies."""
    kind = next((buffer.sharding.memory_kind for buffer in buffers), None)
    target = target if kind in (None, target.memory_kind) else target.with_memory_kind(kind)
    with jax.enable_x64(True):
        return jax.make_array_from_single_device_arrays(shape, target, list(buffers), dtype=dtype)


def _seen_as(array: jax.Array, target: NamedSharding) -> jax.Array:
    """The same buffers under an equivalent sharding."""
    if array.sharding == target:
        return array
    return _joined(array.shape, array.dtype, target, [shard.data for shard in array.addressable_shards])


@functools.lru_cache(maxsize=4096)
def _places_alike(one: Any, other: NamedSharding, shape: tuple[int, ...]) -> bool:
    """Whether every device has the same part under both, in any device order."""
    if one.memory_kind != other.memory_kind or one.device_set != other.device_set:
        return False
    if one.is_equivalent_to(other, len(shape)):
        return True
    if any(isinstance(each, NamedSharding) and each.spec.unreduced for each in (one, other)):
        return False  # JAX cannot list the parts of these
    parts: bool = one.devices_indices_map(shape) == other.devices_indices_map(shape)
    return parts


def _is_along(source: Any, target: NamedSharding) -> bool:
    """Whether one program can reshard between the two: their devices are in the same order."""
    return (
        isinstance(source, NamedSharding)
        and source.memory_kind == target.memory_kind
        and tuple(source.mesh.devices.flat) == tuple(target.mesh.devices.flat)
    )


@functools.lru_cache(maxsize=1024)
def _laying(
    shape: tuple[int, ...], wanted: tuple[int, ...], target: NamedSharding, padding: Padding
) -> Callable[[jax.Array], jax.Array]:
    """A program that removes the padding of `shape` and pads to the required shape."""

    def lay(array: jax.Array) -> jax.Array:
        value = jax.lax.slice(array, (0,) * len(shape), shape)
        filling = filled((1,), np.dtype(array.dtype), padding)[0]
        return jax.lax.pad(value, filling, [(0, n - own, 0) for n, own in zip(wanted, shape, strict=True)])

    return jax.jit(lay, out_shardings=target)
