"""The part of a global array on each partition."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding

Slices = tuple[slice, ...]


@functools.lru_cache(maxsize=4096)
def shard_indices(sharding: TensorSharding) -> tuple[tuple[int, ...], ...]:
    """Per partition id, the index of its shard in every dimension.

    Position p of the mesh, row-major, is partition `device_ids[p]`. Errors: ExecutionError for values of a manual
    region, which arrays cannot represent.
    """
    return _indices(sharding, sharding.dim_axes())


@functools.lru_cache(maxsize=4096)
def part_indices(sharding: TensorSharding) -> tuple[tuple[int, ...], ...]:
    """Per partition id, the index of its shard, and for an unreduced value the index of its summand.

    Partitions with the same indices hold replicas. Errors: as `shard_indices`.
    """
    return _indices(sharding, (*sharding.dim_axes(), sharding.unreduced))


def element_a_device(mesh: Mesh) -> TensorSharding:
    """The sharding of an array with a dimension for each axis of the mesh, and an element for each of its devices."""
    return TensorSharding(mesh, tuple(DimSharding((Axis(name, 1, size),)) for name, size in mesh.axes))


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
    """Per partition id, its part of the global array, without padding; may be empty."""
    return tuple(
        tuple(slice(*sharding.shard_range(shape, dim, index)) for dim, index in enumerate(row))
        for row in shard_indices(sharding)
    )


def extent(slices: Slices) -> Slices:
    """The valid elements of a shard: those at its start, as many as the slices select."""
    return tuple(slice(0, part.stop - part.start) for part in slices)


@functools.lru_cache(maxsize=4096)
def replica_ids(sharding: TensorSharding) -> tuple[int, ...]:
    """Per partition id, the number of earlier partitions with the same part."""
    counts: Counter[tuple[int, ...]] = Counter()
    numbers = []
    for index in part_indices(sharding):
        numbers.append(counts[index])
        counts[index] += 1
    return tuple(numbers)
