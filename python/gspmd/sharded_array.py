"""A global array whose shards live on devices, uneven and permuted ones included."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from gspmd import layout
from gspmd.dialect.axes import Axes, Axis, atoms, split_at
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.sharding import TensorSharding
from gspmd.dtypes import Padding

Devices = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """What one partition holds: `data` is on `device`, has the local shape, and is valid in `valid` only.

    `index` is where the valid elements belong in the global array.
    """

    partition: int
    device: Any
    index: tuple[slice, ...]
    data: jax.Array

    @property
    def valid(self) -> tuple[slice, ...]:
        return layout.extent(self.index)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The valid elements, on the host."""
        return np.asarray(self.data)[self.valid]


class ShardedArray:
    """An array of global `shape` and `dtype`, split by `sharding`; partition i is on `devices[i]`.

    `buffers` maps partition ids to arrays of the local shape, of this process' devices only. An array
    given to a donated argument is deleted: using it again raises ExecutionError.
    """

    __slots__ = ("_buffers", "_deleted", "devices", "dtype", "shape", "sharding")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        sharding: TensorSharding,
        devices: Devices,
        buffers: Mapping[int, jax.Array],
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.sharding = sharding
        self.devices = devices
        self._buffers = dict(buffers)
        self._deleted = False

    def __repr__(self) -> str:
        kind = f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        state = ", deleted" if self._deleted else ""
        return f"ShardedArray({kind}, {print_sharding(self.sharding)} of {print_mesh(self.sharding.mesh)}{state})"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def buffers(self) -> dict[int, jax.Array]:
        """The local arrays by partition id. Raises ExecutionError after the array was donated."""
        if self._deleted:
            raise ExecutionError(
                f"{self!r} was donated to a program and is gone",
                hint="use the program's result instead, or pass a numpy array, which is copied",
            )
        return self._buffers

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards on this process' devices, by partition id."""
        slices = layout.shard_slices(self.sharding, self.shape)
        return tuple(Shard(i, self.devices[i], slices[i], data) for i, data in sorted(self.buffers.items()))

    @property
    def is_deleted(self) -> bool:
        return self._deleted

    def delete(self) -> None:
        """Forget the shards and free their memory."""
        if not self._deleted:
            self._deleted = True
            for buffer in self._buffers.values():
                buffer.delete()

    def in_memory(self, kind: str | None) -> ShardedArray:
        """The same array in memory of that kind, as `pinned_host`; None for the devices' own."""
        buffers = self.buffers
        wanted = {i: kind or self.devices[i].default_memory().kind for i in buffers}
        if all(buffer.sharding.memory_kind == wanted[i] for i, buffer in buffers.items()):
            return self
        targets = [SingleDeviceSharding(self.devices[i], memory_kind=wanted[i]) for i in buffers]
        with jax.enable_x64(True):
            moved = jax.device_put(list(buffers.values()), targets)
        return ShardedArray(self.shape, self.dtype, self.sharding, self.devices, dict(zip(buffers, moved, strict=True)))

    def block_until_ready(self) -> ShardedArray:
        """Wait for the computation that produces this array."""
        for buffer in self.buffers.values():
            buffer.block_until_ready()
        return self

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The global array on the host: shards joined, padding trimmed, one copy among replicas."""
        first = self._one_copy_each()
        shards = {i: np.asarray(self.buffers[i]) for i in first}
        return layout.assemble(shards, self.shape, self.dtype, self.sharding)

    def _one_copy_each(self) -> list[int]:
        seen: dict[tuple[int, ...], int] = {}
        indices = layout.part_indices(self.sharding)
        for partition in sorted(self.buffers):
            seen.setdefault(indices[partition], partition)
        return list(seen.values())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("assembling a sharded array copies it")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def to_jax(self) -> jax.Array:
        """The same buffers as one jax.Array. Raises ExecutionError where JAX cannot express the layout."""
        if not jax_can_hold(self.sharding, self.shape):
            raise ExecutionError(f"{self!r} has uneven shards, which jax.Array cannot hold", hint="use to_numpy()")
        target = jax_sharding(self.sharding, self.devices)
        kind = next((buffer.sharding.memory_kind for buffer in self.buffers.values()), None)
        if kind is not None:
            target = target.with_memory_kind(kind)
        with jax.enable_x64(True):
            return jax.make_array_from_single_device_arrays(
                self.shape, target, list(self.buffers.values()), dtype=self.dtype
            )


def jax_can_hold(sharding: TensorSharding, shape: tuple[int, ...]) -> bool:
    """Whether JAX has a sharding for this: all shards equal, and the parts of every axis nested."""
    try:
        atoms([*sharding.dim_axes(), sharding.unreduced])
    except ValueError:
        return False
    return sharding.divides(shape)


@functools.lru_cache(maxsize=4096)
def jax_sharding(sharding: TensorSharding, devices: Devices) -> NamedSharding:
    """The placement as JAX's NamedSharding; an axis of which only parts are used is cut in the mesh.

    The parts of an axis `x` cut at 2 are called `x:(1)2`, `x:(2)4`.
    """
    mesh = sharding.mesh
    axes = tuple(Axis(name, 1, size) for name, size in mesh.axes)
    cuts = atoms([axes, *sharding.dim_axes(), sharding.unreduced])
    sizes, names = [], []
    for axis in axes:
        for part in split_at((axis,), cuts) or (axis,):
            sizes.append(part.size)
            names.append(_part_name(part, sharding))
    ids = mesh.device_ids or range(mesh.size)
    grid = np.empty(mesh.size, object)
    grid[:] = [devices[i] for i in ids]
    unreduced = frozenset(_spec_entry(split_at(sharding.unreduced, cuts), sharding) or ())
    dims = (_spec_entry(split_at(dim, cuts), sharding) for dim in sharding.dim_axes())
    spec = PartitionSpec(*dims, unreduced=unreduced)
    # JAX takes unreduced axes of explicit meshes only.
    types = (AxisType.Explicit if unreduced else AxisType.Auto,) * len(names)
    return NamedSharding(jax.sharding.Mesh(grid.reshape(sizes), tuple(names), axis_types=types), spec)


def _part_name(part: Axis, sharding: TensorSharding) -> str:
    full = part.size == sharding.mesh.axis_size(part.name)
    return part.name if full else f"{part.name}:({part.pre}){part.size}"


def _spec_entry(axes: Axes, sharding: TensorSharding) -> tuple[str, ...] | None:
    return tuple(_part_name(axis, sharding) for axis in axes) or None


def from_host(
    array: np.ndarray[Any, Any], sharding: TensorSharding, devices: Devices, padding: Padding = "zero"
) -> ShardedArray:
    """Copy a global host array to the devices, padding what is uneven."""
    local = local_partitions(devices)
    shards = layout.cut(array, sharding, padding)
    with jax.enable_x64(True):
        placed = jax.device_put([shards[i] for i in local], [devices[i] for i in local], may_alias=False)
    buffers = dict(zip(local, placed, strict=True))
    return ShardedArray(array.shape, array.dtype, sharding, devices, buffers)


def from_jax(array: jax.Array, sharding: TensorSharding, devices: Devices) -> ShardedArray | None:
    """The shards of an array that already lies as `sharding` asks, without a copy; None if it does not."""
    if not jax_can_hold(sharding, array.shape):
        return None
    target = jax_sharding(sharding, devices)
    if array.sharding.device_set != target.device_set or not _places_alike(array.sharding, target, array.shape):
        return None
    return _from_shards(array, sharding, devices)


@functools.lru_cache(maxsize=4096)
def _places_alike(one: Any, other: NamedSharding, shape: tuple[int, ...]) -> bool:
    """Whether every device has the same part, in whatever order the devices of the two are."""
    if one.is_equivalent_to(other, len(shape)):
        return True
    if unreduced_axes(one) or unreduced_axes(other):  # JAX has no list of parts of these
        return False
    parts: bool = one.devices_indices_map(shape) == other.devices_indices_map(shape)
    return parts


def unreduced_axes(sharding: Any) -> tuple[str, ...]:
    """The axes along which devices hold summands of an array of JAX with this sharding."""
    return tuple(sorted(sharding.spec.unreduced)) if isinstance(sharding, NamedSharding) else ()


def reshard_jax(array: jax.Array, sharding: TensorSharding, devices: Devices) -> ShardedArray:
    """Move a jax.Array to the devices as `sharding` asks, where `jax_can_hold` that."""
    with jax.enable_x64(True):
        moved = jax.device_put(array, jax_sharding(sharding, devices))
    return _from_shards(moved, sharding, devices)


def _from_shards(array: jax.Array, sharding: TensorSharding, devices: Devices) -> ShardedArray:
    by_device = {shard.device: shard.data for shard in array.addressable_shards}
    buffers = {i: by_device[devices[i]] for i in local_partitions(devices)}
    return ShardedArray(array.shape, np.dtype(array.dtype), sharding, devices, buffers)


@functools.lru_cache(maxsize=256)
def local_partitions(devices: Devices) -> Sequence[int]:
    """The partitions whose devices belong to this process."""
    process = devices[0].client.process_index()
    return tuple(i for i, device in enumerate(devices) if device.process_index == process)
