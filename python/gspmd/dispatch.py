"""Calls of an executable with jax.Arrays in and out, which pass as they are where they lie right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxlib import _jax

from gspmd import arguments
from gspmd.dtypes import numpy_dtype
from gspmd.runtime import Executable
from gspmd.sharded_array import ShardedArray, jax_can_hold, jax_sharding, local_partitions
from gspmd.transforms.support.signature import ValueSignature

# Newer jaxlibs read an array as a whole, by the shape that PJRT knows, which for a result is that of a shard: it has to
# be assembled from its shards. Older ones read shard by shard, and take results as they are.
_READ_AS_ONE = hasattr(_jax.ArrayImpl, "_to_np_array_did_copy")


class Dispatcher:
    """An executable called with the leaves of a function's arguments; returns the leaves of its results.

    `out_avals` are the results as JAX knows them: weakly typed, random keys, or of no values at all (float0).
    """

    def __init__(self, executable: Executable, out_avals: Sequence[Any]) -> None:
        self._executable = executable
        inputs, outputs = executable.signature.inputs, executable.signature.outputs
        self._inputs = [_Input(value, executable.devices) for value in inputs]
        self._donated = [i for i, value in enumerate(inputs) if value.donated]
        self._handlers = [
            _handler(executable, index, value, aval)
            for index, (value, aval) in enumerate(zip(outputs, out_avals, strict=True))
        ]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Errors: as `Executable`."""
        executable = self._executable
        if self._donated:
            arguments.check_donation(executable.signature.inputs, leaves)
        arrays: list[Any] = [
            leaf if expected.is_held_by(leaf) else None for leaf, expected in zip(leaves, self._inputs, strict=True)
        ]
        others = [index for index, array in enumerate(arrays) if array is None]
        if others:
            self._place(leaves, others, arrays)
        results: list[Any] = executable.run(arrays, self._handlers)
        for index in self._donated:
            if isinstance(leaves[index], jax.Array | ShardedArray):
                leaves[index].delete()
        return results

    def _place(self, leaves: Sequence[Any], others: Sequence[int], arrays: list[Any]) -> None:
        """Bring the others of the leaves to the devices; those of the host all at once."""
        hosts: dict[int, np.ndarray[Any, Any]] = {}
        inputs = self._executable.signature.inputs
        for index in others:
            expected, leaf = self._inputs[index], self._inputs[index].argument(leaves[index])
            if expected.target is None or isinstance(leaf, jax.Array | ShardedArray):
                arrays[index] = self._executable.input(index, leaf)
            else:
                hosts[index] = arguments.to_host(index, inputs[index], leaf)
        if hosts:
            targets = [self._inputs[index].target for index in hosts]
            with jax.enable_x64(True):
                placed = jax.device_put(list(hosts.values()), targets, may_alias=False)
            for index, array in zip(hosts, placed, strict=True):
                arrays[index] = array


class _Input:
    """What an argument should be. Remembers of which shardings it was found that they are the right ones.

    `target` is where JAX puts what comes from the host: None where it cannot, or would ask other processes first.
    """

    def __init__(self, value: ValueSignature, devices: tuple[Any, ...]) -> None:
        self._devices = devices
        self._shape, self._dtype = value.shape, numpy_dtype(value.element_type)
        self._known: dict[Any, bool] = {}
        self._right = _jax_form(value, devices)
        local = len(local_partitions(devices)) == len(devices)
        self.target = self._right if local else None

    def is_held_by(self, leaf: Any) -> bool:
        """Whether this is a jax.Array of the right shards on the right devices, to be passed as it is."""
        if type(leaf) is not _jax.ArrayImpl or leaf.shape != self._shape or leaf.dtype != self._dtype:
            return False
        sharding = leaf.sharding
        fits = self._known.get(sharding)
        if fits is None:
            fits = self._known[sharding] = self._fits(sharding)
        return fits and not leaf.is_deleted()

    def _fits(self, sharding: Any) -> bool:
        return (
            self._right is not None
            and isinstance(sharding, NamedSharding)
            and tuple(sharding.mesh.devices.flat) == self._devices
            and sharding.is_equivalent_to(self._right, len(self._shape))
        )

    def argument(self, leaf: Any) -> Any:
        """A leaf as the runtime takes it: random keys as their bits, host arrays in the type that JAX gives them."""
        if isinstance(leaf, jax.Array):
            return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        if isinstance(leaf, np.ndarray | np.generic):
            if leaf.dtype == jax.dtypes.float0:
                return np.zeros(leaf.shape, self._dtype)
            return np.asarray(leaf, self._dtype) if jax.dtypes.canonicalize_dtype(leaf.dtype) == self._dtype else leaf
        return leaf


def _handler(executable: Executable, index: int, value: ValueSignature, aval: Any) -> Any:
    """Makes a result from its buffers, in jaxlib where that can be."""
    devices = executable.devices
    if aval.dtype == jax.dtypes.float0:
        return lambda buffers: np.zeros(aval.shape, aval.dtype)
    if not jax_can_hold(value.sharding, value.shape):
        return lambda buffers: executable.result(index, buffers)
    target, is_key = _jax_form(value, devices), jnp.issubdtype(aval.dtype, jax.dtypes.prng_key)
    if target is None:
        wrap = _key(aval) if is_key else lambda array: array
        return lambda buffers: wrap(executable.result(index, buffers).to_jax())
    weak = bool(getattr(aval, "weak_type", False)) and not is_key
    kind = jax.core.ShapedArray(value.shape, numpy_dtype(value.element_type), weak_type=weak)
    return _array_handler(kind, target, _key(aval) if is_key else None)


def _jax_form(value: ValueSignature, devices: tuple[Any, ...]) -> NamedSharding | None:
    """The sharding of jax.Arrays whose shards are in the devices' order; None where there is none."""
    if not jax_can_hold(value.sharding, value.shape):
        return None
    sharding = jax_sharding(value.sharding, devices)
    return sharding if tuple(sharding.mesh.devices.flat) == devices else None


def _array_handler(aval: Any, sharding: NamedSharding, finish: Callable[[jax.Array], jax.Array] | None) -> Any:
    """Makes a jax.Array of its shards, which come in the devices' order, and goes on with `finish`."""
    if not _READ_AS_ONE:
        handler = _jax.array_result_handler(aval, sharding, committed=True, _skip_checks=True)
        return handler if finish is None else handler.wrap(finish)

    def assembled(buffers: list[jax.Array]) -> jax.Array:
        array: jax.Array = _jax.ArrayImpl(aval, sharding, buffers, committed=True, _skip_checks=True)
        return array if finish is None else finish(array)

    return assembled


def _key(aval: Any) -> Callable[[jax.Array], jax.Array]:
    name = aval.dtype._impl.name  # JAX names it on arrays only
    return lambda bits: jax.random.wrap_key_data(bits, impl=name)
