"""How JAX holds the arguments and results of a partitioned program, each as one array."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from gspmd.frontend.value_shardings import Wanted
from gspmd.runtime import arguments, placing
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.runtime.manual_program import WholeForm
from gspmd.runtime.sharded_array import Devices, ShardedArray, jax_sharding, local_partitions
from gspmd.transforms.ir.signature import ValueSignature

Aval = Any


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """One argument or result: its type and sharding for JAX's executable, `taken` from what a user passes.

    `given` makes what the user gets of a result; None where that is the array itself. `is_itself`: the array is the
    value, and not the value in another form.
    """

    aval: Aval
    sharding: NamedSharding
    taken: Callable[[Any], Any]
    given: Callable[[Any], Any] | None = None
    is_itself: bool = True

    def lies_right(self, leaf: Any) -> bool:
        """Whether C++ may pass a leaf like this one: it takes arrays over as many devices for what they should be."""
        if not isinstance(leaf, jax.Array) or leaf.sharding.num_devices == 1 or leaf.ndim != len(self.aval.shape):
            return True
        return bool(leaf.sharding.is_equivalent_to(self.sharding, leaf.ndim))


def held(
    value: ValueSignature, form: WholeForm, aval: Aval, devices: Devices, wanted: Wanted, mesh: jax.sharding.Mesh
) -> Held:
    """How JAX holds a value that XLA takes for one of `form`; `mesh` is the program's.

    As itself, where its shards are equal. Else as what they make together: a value with padding at its ends, or all
    shards one after the other.
    """
    if form.by_shards or not value.sharding.divides(value.shape):
        return _in_parts(value, form, devices)
    sharding = _named(value, devices, wanted, mesh)
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended) and len(sharding.spec.partitions) > aval.ndim:
        sharding = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec.partitions[: aval.ndim]))
    given = functools.partial(_put_together, sharding) if 0 in value.shape else None
    return Held(aval, sharding, _Taken(len(local_partitions(devices)) == len(devices)), given)


def _put_together(sharding: NamedSharding, array: jax.Array) -> jax.Array:
    """A result without elements, of which XLA gives every device the whole."""
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return array
    return jax.make_array_from_callback(array.shape, sharding, np.empty(array.shape, array.dtype).__getitem__)


def _named(value: ValueSignature, devices: Devices, wanted: Wanted, mesh: jax.sharding.Mesh) -> NamedSharding:
    """Where the value is, in the user's own words, if there are any, else by axes of the program's mesh."""
    sharding = jax_sharding(value.sharding, devices)
    if sharding.mesh.shape_tuple == mesh.shape_tuple:
        sharding = NamedSharding(mesh, sharding.spec)
    own = NamedSharding(mesh, wanted.spec) if isinstance(wanted.spec, PartitionSpec) else wanted.spec
    if own is not None and _says_the_same(own, sharding, len(value.shape)):
        sharding = own
    return sharding if value.memory_kind is None else sharding.with_memory_kind(value.memory_kind)


def _says_the_same(own: NamedSharding, sharding: NamedSharding, rank: int) -> bool:
    if isinstance(own.mesh, AbstractMesh) or PartitionSpec.UNCONSTRAINED in own.spec.partitions:
        return False
    return len(own.spec.partitions) <= rank and own.is_equivalent_to(sharding, rank)


@dataclasses.dataclass(frozen=True, slots=True)
class _Taken:
    """Leaves that JAX puts in place by itself, and those that it would not take."""

    is_local: bool

    def __call__(self, leaf: Any) -> Any:
        if isinstance(leaf, ShardedArray):
            return leaf.to_jax()
        if not self.is_local and isinstance(leaf, jax.Array) and leaf.is_fully_addressable:
            # JAX would ask the other processes whether they pass the same.
            return leaf if leaf.sharding.num_devices > 1 else np.asarray(leaf)
        return leaf


def _in_parts(value: ValueSignature, form: WholeForm, devices: Devices) -> Held:
    dtype, is_whole = numpy_dtype(value.element_type), value.sharding.divides(value.shape)
    sharding = placing.shards_in_a_row(form, devices) if form.by_shards else jax_sharding(value.sharding, devices)
    if value.memory_kind is not None:
        sharding = sharding.with_memory_kind(value.memory_kind)

    def taken(leaf: Any) -> jax.Array:
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return placing.as_passed(arguments.place(0, value, _of_type(leaf, dtype), devices, "zero"), form, devices)

    def given(array: jax.Array) -> jax.Array:
        result = placing.from_passed(array, form, value.shape, value.sharding, devices)
        return result.to_jax() if is_whole else result

    return Held(jax.core.ShapedArray(form.shape, dtype), sharding, taken, given, False)


def _of_type(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """A host array in the type that JAX gives it."""
    if isinstance(leaf, np.ndarray | np.generic):
        if leaf.dtype == jax.dtypes.float0:
            return np.zeros(leaf.shape, dtype)
        if jax.dtypes.canonicalize_dtype(leaf.dtype) == dtype:
            return np.asarray(leaf, dtype)
    return leaf
