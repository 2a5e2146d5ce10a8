"""Which part of a global array each partition holds, and cutting and assembling on the host."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gspmd.dialect.axes import Axes
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.sharding import TensorSharding
from gspmd.dtypes import Padding, filled

Array = np.ndarray[Any, Any]
Slices = tuple[slice, ...]


@functools.lru_cache(maxsize=4096)
def shard_indices(sharding: TensorSharding) -> tuple[tuple[int, ...], ...]:
    """Per partition id, the index of its shard in every dimension.

    Position p of the mesh, row-major, is partition `device_ids[p]`. Errors: ExecutionError for values of a manual
    region, which no array describes.
    """
    return _indices(sharding, sharding.dim_axes())


@functools.lru_cache(maxsize=4096)
def part_indices(sharding: TensorSharding) -> tuple[tuple[int, ...], ...]:
    """Per partition id, what it holds: the index of its shard, and of an unreduced value which summand of that.

    Partitions with the same indices hold copies. Errors: as `shard_indices`.
    """
    return _indices(sharding, (*sharding.dim_axes(), sharding.unreduced))


def _indices(sharding: TensorSharding, lists: Sequence[Axes]) -> tuple[tuple[int, ...], ...]:
    """Per partition id, its index along each list of axes."""
    if sharding.manual:
        raise ExecutionError("values of manual regions cannot pass between host and devices")
    mesh = sharding.mesh
    positions = np.arange(mesh.size)
    indices = np.zeros((mesh.size, len(lists)), np.int64)
    for dim, axes in enumerate(lists):
        for axis in axes:
            coordinate = positions // mesh.stride(axis) % axis.size
            indices[:, dim] = indices[:, dim] * axis.size + coordinate
    by_partition = np.empty_like(indices)
    by_partition[list(mesh.device_ids) if mesh.device_ids else positions] = indices
    return tuple(tuple(row) for row in by_partition.tolist())


@functools.lru_cache(maxsize=4096)
def shard_slices(sharding: TensorSharding, shape: tuple[int, ...]) -> tuple[Slices, ...]:
    """Per partition id, the part of the global array that it holds, without padding; may be empty."""
    return tuple(
        tuple(slice(*sharding.shard_range(shape, dim, index)) for dim, index in enumerate(row))
        for row in shard_indices(sharding)
    )


def extent(slices: Slices) -> Slices:
    """Where the valid elements are inside a shard: from its start, as many as the slices hold."""
    return tuple(slice(0, part.stop - part.start) for part in slices)


def cut(array: Array, sharding: TensorSharding, padding: Padding = "zero") -> list[Array]:
    """The shard of every partition, by partition id, in arrays of their own, padded at the tail.

    Shapes: `array` is global; every shard has `sharding.local_shape(array.shape)`. Copies of the same
    part are one and the same array. Of an unreduced value, the first summand is the array and the others are zeros.
    """
    local_shape = sharding.local_shape(array.shape)
    shards: dict[tuple[int, ...], Array] = {}
    result = []
    for indices, slices in zip(part_indices(sharding), shard_slices(sharding, array.shape), strict=True):
        if indices not in shards:
            part = array[slices] if indices[-1] == 0 else np.zeros_like(array[slices])
            if part.shape == local_shape:
                shards[indices] = np.array(part, order="C")
            else:
                shards[indices] = filled(local_shape, array.dtype, padding)
                shards[indices][extent(slices)] = part
        result.append(shards[indices])
    return result


def assemble(
    shards: Mapping[int, Array], shape: tuple[int, ...], dtype: np.dtype[Any], sharding: TensorSharding
) -> Array:
    """The global array from shards by partition id: padding trimmed, the first of equal parts taken, summands added.

    Errors: ExecutionError when a part is on none of the given partitions.
    """
    result = np.zeros(shape, dtype)
    seen = set()
    indices, slices = part_indices(sharding), shard_slices(sharding, shape)
    for partition in sorted(shards):
        if indices[partition] not in seen:
            seen.add(indices[partition])
            part = shards[partition][extent(slices[partition])]
            result[slices[partition]] = result[slices[partition]] + part if sharding.unreduced else part
    missing = set(indices) - seen
    if missing:
        raise ExecutionError(
            f"{len(missing)} of {len(set(indices))} parts of the array are on devices of other processes",
            hint="gather it inside the program (a replicated result), or read '.shards' in every process",
        )
    return result
