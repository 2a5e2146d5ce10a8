"""The arguments and results of a partitioned program as JAX has them, each as one array."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from gspmd.dialect.error_codes import Code
from gspmd.frontend.jax_stages import concrete_mesh
from gspmd.frontend.value_shardings import ValueSpec
from gspmd.runtime import arguments, placing
from gspmd.runtime.array_layout import in_usual_layout, own_layout, same_layout
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.runtime.familiar_errors import PlacementMismatch
from gspmd.runtime.manual_program import XlaForm
from gspmd.runtime.sharded_array import Devices, ShardedArray, jax_sharding, local_partitions
from gspmd.transforms.ir.signature import ValueSignature

Aval = Any


@dataclasses.dataclass(frozen=True, slots=True)
class JaxValue:
    """One argument or result: its type and sharding in JAX's executable; `taken` converts an argument that is passed.

    `given` converts a result for the user; None if it is the array itself. `is_itself`: the array is the value, not
    another form of it. `shown` is the sharding that the user sees; None if JAX cannot express it.
    """

    aval: Aval
    sharding: NamedSharding
    taken: Callable[[Any], Any]
    shown: NamedSharding | None
    given: Callable[[Any], Any] | None = None
    is_itself: bool = True

    def lies_right(self, leaf: Any) -> bool:
        """Whether C++ may pass leaves like this one: it does not check the sharding of arrays over as many devices."""
        if not isinstance(leaf, jax.Array) or leaf.ndim != len(self.aval.shape):
            return True
        if leaf.sharding.num_devices == 1:
            return own_layout(leaf) is None
        return _same_place(leaf.sharding, self.sharding, leaf.ndim)


def jax_value(
    value: ValueSignature, form: XlaForm, aval: Aval, devices: Devices, wanted: ValueSpec, mesh: jax.sharding.Mesh
) -> JaxValue:
    """A value, which XLA takes in `form`, as JAX has it; `mesh` is the program's.

    If all shards have the same size, it is the value itself. Otherwise it consists of all shards: either the value with
    padding at its ends, or the shards stacked one after the other.
    """
    sharding = _named(value, devices, wanted, _typed(mesh, aval))
    if form.by_shards or not value.sharding.divides(value.shape):
        return _in_parts(value, form, devices, sharding)
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended) and len(sharding.spec.partitions) > aval.ndim:
        sharding = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec.partitions[: aval.ndim]))
    given = functools.partial(_put_together, sharding) if 0 in value.shape else None
    return JaxValue(
        aval, sharding, _ArgumentConverter(len(local_partitions(devices)) == len(devices), sharding), sharding, given
    )


def _typed(mesh: jax.sharding.Mesh, aval: Aval) -> jax.sharding.Mesh:
    """The mesh with the axis types of a value's own type, as inside `jax.sharding.auto_axes`."""
    own = getattr(getattr(aval, "sharding", None), "mesh", None)
    if own is None or own.shape_tuple != mesh.shape_tuple or own.axis_types == mesh.axis_types:
        return mesh
    return mesh if AxisType.Manual in own.axis_types else concrete_mesh(own, list(mesh.devices.flat))


def check_place(path: str, leaf: Any, value: JaxValue) -> None:
    """Raise PlacementMismatch for an array with another sharding than specified for its argument, as JAX does.

    An array whose specified sharding JAX cannot express is resharded, since the user cannot reshard it.
    """
    if not isinstance(leaf, jax.Array) or isinstance(leaf, ShardedArray) or not value.is_itself or not leaf.committed:
        return
    if not _same_place(leaf.sharding, value.sharding, leaf.ndim):
        raise PlacementMismatch(
            f"argument {path} is placed as {leaf.sharding}, but its sharding should be {value.sharding}: "
            "Sharding passed to jit does not match the sharding on the respective arg",
            hint="put it there by jax.device_put first, or leave the argument out of in_shardings",
            code=Code.ARGUMENTS,
        )


def check_layout(path: str, leaf: Any, value: JaxValue, wanted: Any) -> None:
    """Raise PlacementMismatch for an array in another layout than the program's, `wanted`; None is the usual one."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, ShardedArray) or not value.is_itself:
        return
    own = own_layout(leaf)
    if own is wanted or (own is not None and wanted is not None and same_layout(own, wanted)):
        return
    if _same_place(leaf.sharding, value.sharding, leaf.ndim):  # JAX copies others, and changes their layout
        raise PlacementMismatch(
            f"argument {path} is in layout {own or 'of the device'}, but is compiled for {wanted or 'the usual one'}: "
            "Layout passed to jit does not match the layout on the respective arg",
            hint="convert it by jax.device_put(value, Format(layout, sharding)) first",
            code=Code.ARGUMENTS,
        )


@functools.lru_cache(maxsize=4096)
def _same_place(one: Any, other: Any, rank: int) -> bool:
    return bool(one.is_equivalent_to(other, rank))


def _put_together(sharding: NamedSharding, array: jax.Array) -> jax.Array:
    """A result without elements, which XLA returns whole on every device."""
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return array
    return jax.make_array_from_callback(array.shape, sharding, np.empty(array.shape, array.dtype).__getitem__)


def _named(value: ValueSignature, devices: Devices, wanted: ValueSpec, mesh: jax.sharding.Mesh) -> NamedSharding:
    """The sharding of the value: the user's own if there is one, else over axes of the program's mesh."""
    sharding = jax_sharding(value.sharding, devices, mesh)
    if value.memory_kind is not None:
        sharding = sharding.with_memory_kind(value.memory_kind)
    own, rank = _over_devices(wanted.spec, mesh), len(value.shape)
    if own is None or len(own.spec.partitions) > rank:
        return sharding
    entries = (None if entry is PartitionSpec.UNCONSTRAINED else entry for entry in own.spec.partitions)
    own = own.update(spec=own.spec.update(partitions=tuple(entries)))
    return own if own.is_equivalent_to(sharding, rank) else sharding


def _over_devices(spec: PartitionSpec | NamedSharding | None, mesh: jax.sharding.Mesh) -> NamedSharding | None:
    """A user's spec as a sharding over its own mesh, or over the program's if that mesh has no devices."""
    if spec is None:
        return None
    if isinstance(spec, PartitionSpec):
        typed = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
        return NamedSharding(mesh, spec) if spec.unreduced | spec.reduced <= typed else None
    if not isinstance(spec.mesh, AbstractMesh):
        return spec
    if spec.mesh.shape_tuple == mesh.shape_tuple:
        return NamedSharding(mesh, spec.spec, memory_kind=spec.memory_kind)
    if spec.mesh.size != mesh.size:
        return None
    return NamedSharding(concrete_mesh(spec.mesh, list(mesh.devices.flat)), spec.spec, memory_kind=spec.memory_kind)


def with_users_spec(
    value: ValueSignature, wanted: ValueSpec, inputs: Iterable[tuple[ValueSignature, ValueSpec]], aval: Aval
) -> ValueSpec:
    """The spec of a result, else that of the first argument with the same sharding.

    So a step that does not reshard its state returns it with the specs that it was given.
    """
    if wanted.spec is not None:
        return wanted
    for other, given in inputs:
        alike = (other.sharding, other.memory_kind) == (value.sharding, value.memory_kind)
        if not alike or not isinstance(given.spec, NamedSharding) or given.spec.spec.reduced:
            continue
        if isinstance(given.spec.mesh, AbstractMesh) or _typed(given.spec.mesh, aval) is given.spec.mesh:
            return dataclasses.replace(wanted, spec=given.spec)
    return wanted


@dataclasses.dataclass(frozen=True, slots=True)
class _ArgumentConverter:
    """Converts leaves that JAX would not take; JAX itself puts the others on devices."""

    is_local: bool
    sharding: NamedSharding

    def __call__(self, leaf: Any) -> Any:
        if isinstance(leaf, ShardedArray):
            return leaf.to_jax()
        if isinstance(leaf, jax.Array) and not _same_place(leaf.sharding, self.sharding, leaf.ndim):
            leaf = in_usual_layout(leaf)  # JAX would copy it in its own layout
        if not self.is_local and isinstance(leaf, jax.Array) and leaf.is_fully_addressable:
            # JAX would ask the other processes whether they pass the same value.
            if leaf.sharding.num_devices > 1:
                return leaf
            return self._keys(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)
        return leaf

    def _keys(self, leaf: jax.Array) -> jax.Array:
        """Random keys, which NumPy does not have, on their devices."""
        data = np.asarray(jax.random.key_data(leaf))
        dims = [*self.sharding.spec.partitions, *(None,) * (leaf.ndim - len(self.sharding.spec.partitions))]
        parts = NamedSharding(self.sharding.mesh, PartitionSpec(*dims))
        placed = jax.make_array_from_callback(data.shape, parts, data.__getitem__)
        keys: jax.Array = jax.random.wrap_key_data(placed, impl=jax.random.key_impl(leaf))
        return keys


def _in_parts(value: ValueSignature, form: XlaForm, devices: Devices, shown: NamedSharding) -> JaxValue:
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
        return _with_sharding(result.to_jax(), shown) if is_whole else result

    whole = shown if is_whole else None
    return JaxValue(jax.core.ShapedArray(form.shape, dtype), sharding, taken, whole, given, False)


def _with_sharding(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """The array with the user's own sharding, which is equivalent."""
    parts = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, parts, dtype=array.dtype)


def _of_type(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """A host array, converted to its dtype in JAX."""
    if isinstance(leaf, np.ndarray | np.generic):
        if leaf.dtype == jax.dtypes.float0:
            return np.zeros(leaf.shape, dtype)
        if jax.dtypes.canonicalize_dtype(leaf.dtype) == dtype:
            return np.asarray(leaf, dtype)
    return leaf
