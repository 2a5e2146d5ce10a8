"""A global array whose shards may be uneven or in any device order, and which JAX accepts as its own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core, dtypes, sharding_impls  # makes JAX accept the class as an array; there is no public API
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from gspmd.dialect.axes import Axes, Axis, atoms, split_at
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ExecutionError, UsageError
from gspmd.dialect.notation import print_axis_name, print_dims, print_mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.runtime import in_flight, layout

Devices = tuple[Any, ...]
_LARGEST_PRINTED = 1 << 20  # bytes; JAX's own limit


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """The shard of one partition: `index` is its position in the global array.

    `padded` is the buffer on `device`, with the local shape, of which only `valid` is valid. Replicas have different
    `replica_id`s. On a device of another process, `padded` and `data` are None, else jax.Arrays.
    """

    partition: int
    device: Any
    index: tuple[slice, ...]
    replica_id: int
    padded: Any

    @property
    def valid(self) -> tuple[slice, ...]:
        return layout.extent(self.index)

    @property
    def data(self) -> Any:
        """The valid elements, on the device: the buffer itself if it has no padding."""
        if self.padded is None:
            return None
        return _trimmed(self.padded, tuple(part.stop for part in self.valid), self.padded.sharding)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The valid elements, on the host."""
        return np.asarray(self.padded)[self.valid]


class ShardedArray(jax.Array):
    """An array of global `shape`, split as `placement` says: a jax.Array whose shards need not be even.

    It wraps one jax.Array, `padded`: the array, padded at the end of every dimension to shards of ceil(size / shards).
    The content of the padding is unknown. Over a mesh with device ids, the mesh of the padded array has the devices in
    that order.

    JAX accepts it like its own arrays and computes with `to_jax()`, the array without padding, which is created on the
    devices; results are ordinary jax.Arrays. Functions of `gspmd.jit` and `gspmd.compile` use the shards directly. An
    array given to a donated argument is deleted: using it again raises ExecutionError.

    Errors: UsageError for a padded array of another shape than `placement` makes of `shape`, or without a mesh.
    """

    __slots__ = ("__weakref__", "_padded", "_placement", "_shape")
    __array_priority__ = 100  # as in JAX: NumPy's operators defer to ours

    def __init__(self, padded: jax.Array, shape: Sequence[int], placement: TensorSharding) -> None:
        expected = padded_shape(placement, tuple(shape))
        if padded.shape != expected or not isinstance(padded.sharding, NamedSharding):
            raise UsageError(
                f"an array {tuple(shape)} split as {_described(placement)} is padded to {expected} over a mesh, "
                f"got {padded.shape} with {padded.sharding}"
            )
        self._padded = padded
        self._shape = tuple(shape)
        self._placement = placement

    @property
    def padded(self) -> jax.Array:
        """The array with its padding, which JAX can split evenly. Raises ExecutionError after it was donated."""
        if self._padded.is_deleted():
            raise ExecutionError(
                f"{self!r} was donated to a program and is gone",
                hint="use the program's result instead, or pass a numpy array, which is copied",
                code=Code.DONATED,
            )
        return self._padded

    @property
    def placement(self) -> TensorSharding:
        """The placement of the array on the devices, including uneven dimensions."""
        return self._placement

    @property
    def sharding(self) -> NamedSharding:
        """The sharding of `to_jax()`, which JAX's functions can use for arrays of this shape.

        It splits as the placement does, up to the first axis by which a dimension cannot be divided. The mesh and all
        axes of the placement are those of `padded.sharding`.
        """
        return even_part(_named(self._padded), self._shape)

    @property
    def device_assignment(self) -> Devices:
        """The device of every partition."""
        return _assignment(_named(self._padded).mesh, self._placement.mesh.device_ids)

    def to_jax(self) -> jax.Array:
        """The array as an ordinary jax.Array: the same buffers if shards are even, else without padding.

        If the devices belong to several processes and shards are uneven, all processes have to call it.
        """
        return _trimmed(self.padded, self._shape, self.sharding)

    __jax_array__ = to_jax

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> Any:
        return self._padded.dtype

    @property
    def weak_type(self) -> bool:
        return bool(self._padded.aval.weak_type)  # only arrays of random keys have it

    @property
    def aval(self) -> Any:
        """The result of `jax.typeof`, as for `to_jax()`."""
        shaped = core.ShapedArray(self._shape, self.dtype, weak_type=self.weak_type)
        return core.update_aval_with_sharding(shaped, self.sharding)

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    @property
    def committed(self) -> bool:
        return True

    _committed = committed

    @property
    def device(self) -> Any:
        """As in JAX: the device if there is only one, else the sharding."""
        devices = self.device_assignment
        return devices[0] if len(devices) == 1 else self.sharding

    def devices(self) -> set[Any]:
        """All devices that hold a shard."""
        return set(self.device_assignment)

    @property
    def is_fully_addressable(self) -> bool:
        return self._padded.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        return self._padded.is_fully_replicated

    def platform(self) -> str:
        return str(self.device_assignment[0].platform)

    def on_device_size_in_bytes(self) -> int:
        """The memory of the array on all devices, including padding."""
        return int(self.padded.on_device_size_in_bytes())

    @property
    def buffers(self) -> dict[int, jax.Array]:
        """The arrays of the local shape on this process' devices, by partition id."""
        by_device = {shard.device: shard.data for shard in self.padded.addressable_shards}
        return {i: by_device[device] for i, device in enumerate(self.device_assignment) if device in by_device}

    @property
    def global_shards(self) -> list[Shard]:
        """The shards on all devices, by partition id."""
        slices, buffers = layout.shard_slices(self._placement, self._shape), self.buffers
        numbers = layout.replica_ids(self._placement)
        return [
            Shard(i, device, slices[i], numbers[i], buffers.get(i)) for i, device in enumerate(self.device_assignment)
        ]

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards on this process' devices, by partition id."""
        return [shard for shard in self.global_shards if shard.padded is not None]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards on this process' devices, by partition id."""
        return tuple(self.addressable_shards)

    def addressable_data(self, index: int) -> Any:
        """The elements of one of the shards on this process' devices."""
        return self.addressable_shards[index].data

    def is_deleted(self) -> bool:
        return self._padded.is_deleted()

    def delete(self) -> None:
        """Forget the shards and free their memory."""
        self._padded.delete()

    def is_ready(self) -> bool:
        """Whether the computation that produces this array is done."""
        padded: Any = self.padded
        return bool(padded.is_ready())

    def in_memory(self, kind: str | None) -> ShardedArray:
        """The same array in memory of that kind, as `pinned_host`; None for the devices' own."""
        device: Any = self.device_assignment[0]
        wanted, target = kind or device.default_memory().kind, _named(self._padded)
        if target.memory_kind == wanted:
            return self
        with at_once():
            moved = jax.device_put(self.padded, target.with_memory_kind(wanted))
        return ShardedArray(moved, self._shape, self._placement)

    def block_until_ready(self) -> ShardedArray:
        """Wait for the computation that produces this array."""
        self.padded.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self.padded.copy_to_host_async()

    def copy(self) -> ShardedArray:
        """A copy with the same placement."""
        with at_once():
            return ShardedArray(self.padded.copy(), self._shape, self._placement)

    def __copy__(self) -> ShardedArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ShardedArray:
        return self.copy()

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The global array on the host, in new memory, from one replica of each shard.

        Errors: ExecutionError if a part is only on devices of other processes.
        """
        padded, parts = self.padded, layout.part_indices(self._placement)
        missing = {*parts} - {parts[i] for i in self.buffers}
        if missing:
            raise ExecutionError(
                f"{len(missing)} of {len(set(parts))} parts of the array are on devices of other processes",
                hint="gather it inside the program (a replicated result), or read '.shards' in every process",
            )
        if self._placement.unreduced:
            return self._sum()
        return np.array(np.asarray(padded)[tuple(map(slice, self._shape))])

    def _sum(self) -> np.ndarray[Any, Any]:
        """The sum of the summands of an unreduced array, from one replica of each."""
        result = np.zeros(self._shape, self.dtype)
        for shard, replica in zip(self.shards, self._replica_ids(), strict=True):
            if replica == 0:
                result[shard.index] = result[shard.index] + shard.to_numpy()
        return result

    def _replica_ids(self) -> list[int]:
        ids = layout.replica_ids(self._placement)
        return [ids[partition] for partition in self.buffers]

    def __array__(self, dtype: Any = None, context: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def __bool__(self) -> bool:
        return bool(self.to_jax())

    def __int__(self) -> int:
        return int(self.to_jax())

    def __float__(self) -> float:
        return float(self.to_jax())

    def __complex__(self) -> complex:
        return complex(self.to_jax())

    def __index__(self) -> int:
        return self.to_jax().__index__()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_jax())

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self.to_jax())

    def __reduce__(self) -> Any:
        return self.to_jax().__reduce__()  # as for JAX's arrays: the value is pickled, not its placement

    def __dlpack__(self, **options: Any) -> Any:
        return self.to_jax().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        value: Any = self.to_jax()
        return value.__dlpack_device__()

    def tolist(self) -> Any:
        return self.to_numpy().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self.to_numpy().tobytes(order)

    def __format__(self, format_spec: str) -> str:
        if not self._is_printable():
            return repr(self)
        return format(self.to_numpy() if self._shape else self.to_numpy()[()], format_spec)

    def __str__(self) -> str:
        return str(self.to_numpy()) if self._is_printable() else repr(self)

    def __repr__(self) -> str:
        start, kind = "ShardedArray(", f"dtype={self.dtype.name}"
        if not self._is_printable():
            what = f"shape={self._shape}"
        elif not self.size:
            what = f"[], shape={self._shape}"
        else:
            what = np.array2string(self.to_numpy(), prefix=start, suffix=",", separator=", ")
        words = [what, kind, *(["weak_type=True"] if self.weak_type else []), _described(self._placement)]
        if self.is_deleted():
            words.append("deleted")
        return f"{start}{', '.join(words)})"

    def _is_printable(self) -> bool:
        """Whether its elements are available and few enough to print."""
        here = not self.is_deleted() and (self.is_fully_addressable or self.is_fully_replicated)
        return here and self.nbytes < _LARGEST_PRINTED


def _described(placement: TensorSharding) -> str:
    return f"{print_dims(placement)} of {print_mesh(placement.mesh)}"


def _of_value(name: str, declared: Any) -> Any:
    """A method or property of jax.Array, forwarded to `to_jax()`."""
    if isinstance(declared, property):
        return property(lambda array: getattr(array.to_jax(), name), doc=declared.__doc__)

    @functools.wraps(declared)
    def method(array: ShardedArray, *args: Any, **kwargs: Any) -> Any:
        return getattr(array.to_jax(), name)(*args, **kwargs)

    return method


# Operators, indexing, and all other methods of JAX's arrays that are not defined above.
for _name, _declared in vars(jax.Array).items():
    if _name not in vars(ShardedArray) and (callable(_declared) or isinstance(_declared, property)):
        setattr(ShardedArray, _name, _of_value(_name, _declared))

# Traced functions see the type of `to_jax()`, and programs compiled by JAX get its value.
core.pytype_aval_mappings[ShardedArray] = lambda array: array.aval
dtypes.register_canonicalize_value_handler(ShardedArray, ShardedArray.to_jax)


@functools.lru_cache(maxsize=4096)
def padded_shape(placement: TensorSharding, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the padded array: the number of shards times ceil(size / shards) in each dimension."""
    local = placement.local_shape(shape)
    return tuple(n * k for n, k in zip(local, placement.shard_counts(), strict=True))


def jax_can_hold(placement: TensorSharding, shape: tuple[int, ...]) -> bool:
    """Whether a jax.Array can have this placement: all shards have equal sizes."""
    return placement.divides(shape)


@functools.lru_cache(maxsize=4096)
def jax_sharding(placement: TensorSharding, devices: Devices, known: jax.sharding.Mesh | None = None) -> NamedSharding:
    """The placement as a NamedSharding: over the `known` mesh, if it has the axes used.

    Otherwise an axis of which parts are used is cut in the mesh: the parts of `x` cut at 2 are called `x:(1)2`,
    `x:(2)4`.
    """
    mesh = placement.mesh
    if known is not None and not mesh.device_ids and _has_axes(known, placement):
        entries = _short(tuple(axis.name for axis in axes) or None for axes in placement.dim_axes())
        return NamedSharding(known, PartitionSpec(*entries, unreduced={axis.name for axis in placement.unreduced}))
    axes = tuple(Axis(name, 1, size) for name, size in mesh.axes)
    cuts = atoms([axes, *placement.dim_axes(), placement.unreduced])
    parts = [part for axis in axes for part in split_at((axis,), cuts) or (axis,)]
    grid = np.empty(mesh.size, object)
    grid[:] = [devices[i] for i in mesh.device_ids or range(mesh.size)]
    dims = _short(_spec_entry(split_at(dim, cuts), placement) for dim in placement.dim_axes())
    unreduced = frozenset(_spec_entry(split_at(placement.unreduced, cuts), placement) or ())
    spec = PartitionSpec(*dims, unreduced=unreduced)
    names = tuple(print_axis_name(part, mesh) for part in parts)
    # JAX treats a mesh without axes as no mesh.
    sizes = [part.size for part in parts] or [1]
    # JAX accepts only unreduced axes of type Explicit.
    types = (AxisType.Explicit if unreduced else AxisType.Auto,) * len(sizes)
    return NamedSharding(jax.sharding.Mesh(grid.reshape(sizes), names or ("device",), axis_types=types), spec)


def _has_axes(known: jax.sharding.Mesh, placement: TensorSharding) -> bool:
    """Whether the mesh equals the placement's up to axes of size 1, and the placement uses whole axes of it."""
    wide = [[axis for axis in axes if axis[1] > 1] for axes in (known.shape_tuple, placement.mesh.axes)]
    if wide[0] != wide[1] or not all(map(placement.mesh.is_full, placement.used_axes())):
        return False
    types = dict(zip(known.axis_names, known.axis_types, strict=True))
    # JAX accepts only unreduced axes of type Explicit.
    return all(types[axis.name] == AxisType.Explicit for axis in placement.unreduced)


def unreduced_axes(array: jax.Array) -> tuple[str, ...]:
    """The axes along which devices hold summands of an array."""
    sharding = array.padded.sharding if isinstance(array, ShardedArray) else array.sharding
    return tuple(sorted(sharding.spec.unreduced)) if isinstance(sharding, NamedSharding) else ()


def _short(entries: Iterable[tuple[str, ...] | None]) -> list[tuple[str, ...] | None]:
    """A spec without trailing dimensions that are not split, as JAX writes specs of results."""
    found = list(entries)
    while found and found[-1] is None:
        found.pop()
    return found


def _spec_entry(axes: Axes, placement: TensorSharding) -> tuple[str, ...] | None:
    return tuple(print_axis_name(axis, placement.mesh) for axis in axes) or None


@functools.lru_cache(maxsize=4096)
def even_part(sharding: NamedSharding, shape: tuple[int, ...]) -> NamedSharding:
    """The sharding without uneven axes: for each dimension, the axes up to the first that does not divide it.

    Returns the same object where everything divides.
    """
    spec = [_divisors(entry, n, sharding) for n, entry in itertools.zip_longest(shape, sharding.spec.partitions)]
    if all(kept == _names(entry) for kept, entry in itertools.zip_longest(spec, sharding.spec.partitions)):
        return sharding
    return sharding.update(spec=sharding.spec.update(partitions=tuple(names or None for names in spec)))


def _divisors(entry: Any, size: int, sharding: NamedSharding) -> tuple[str, ...]:
    names = _names(entry)
    counts = itertools.accumulate((sharding.mesh.shape[name] for name in names), lambda a, b: a * b)
    kept = itertools.takewhile(lambda pair: size % pair[1] == 0, zip(names, counts, strict=True))
    return tuple(name for name, _ in kept)


def _names(entry: Any) -> tuple[str, ...]:
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def _named(array: jax.Array) -> NamedSharding:
    sharding = array.sharding
    assert isinstance(sharding, NamedSharding)
    return sharding


@functools.lru_cache(maxsize=4096)
def _assignment(mesh: jax.sharding.Mesh, device_ids: tuple[int, ...]) -> Devices:
    devices: list[Any] = list(mesh.devices.flat)
    ids = device_ids or range(len(devices))
    return tuple(device for _, device in sorted(zip(ids, devices, strict=True), key=lambda pair: pair[0]))


def _trimmed(padded: jax.Array, shape: tuple[int, ...], target: Any) -> jax.Array:
    if padded.shape == shape:
        return padded
    if 0 in shape:  # XLA would replicate it, which JAX could not assemble
        nothing = np.empty(shape, padded.dtype)
        with at_once():
            return jax.make_array_from_callback(shape, target, nothing.__getitem__)
    with at_once(), in_flight.turn(tuple(target.device_set)) as started:
        return started(_trimming(shape, target)(padded))


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Run JAX operations on concrete arrays, outside of any trace or mesh context, in all dtypes."""
    none = jax.sharding.Mesh(np.empty((), object), ())
    with (
        jax.ensure_compile_time_eval(),
        sharding_impls._internal_use_concrete_mesh(none),
        jax.sharding.use_abstract_mesh(none.abstract_mesh),
        jax.enable_x64(True),
    ):
        yield


@functools.lru_cache(maxsize=1024)
def _trimming(shape: tuple[int, ...], target: Any) -> Callable[[jax.Array], jax.Array]:
    def trim(padded: jax.Array) -> jax.Array:
        return jax.lax.slice(padded, (0,) * len(shape), shape)

    return jax.jit(trim, out_shardings=target)


@functools.lru_cache(maxsize=256)
def local_partitions(devices: Devices) -> Sequence[int]:
    """The partitions on devices of this process."""
    process = devices[0].client.process_index()
    return tuple(i for i, device in enumerate(devices) if device.process_index == process)
