"""Shardings of arguments and results as users give them: by pytrees of specs, or on the arrays themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from gspmd.annotation import sharding_of
from gspmd.device_mesh import DeviceMesh
from gspmd.dialect.errors import AnnotationError, UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.sharded_array import ShardedArray

Given = list[TensorSharding | None]  # one a leaf; None where nothing is said


def given_shardings(mesh: DeviceMesh, prefix: Any, values: Any, what: str) -> Given:
    """One sharding a leaf of `values`, which `prefix` is a prefix of; `what` is what errors call it.

    Errors: UsageError when the structures differ, AnnotationError for a spec that does not fit its value.
    """
    if prefix is None:
        return [None] * len(jax.tree.leaves(values))
    if isinstance(prefix, list) and isinstance(values, tuple):
        prefix = tuple(prefix)
    said = jax.tree.map(_Said, prefix, is_leaf=_is_spec)  # a None that is a leaf, unlike those among the values
    try:
        specs = jax.tree.leaves(jax.tree.broadcast(said, values))
    except ValueError as error:
        raise _misfit(what, str(error)) from None
    paths = jax.tree_util.tree_flatten_with_path(values)[0]
    return [
        _sharding(mesh, spec.sharding, len(value.shape), f"{what}{jax.tree_util.keystr(path)}")
        for spec, (path, value) in zip(specs, paths, strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class _Said:
    sharding: Any


def _misfit(what: str, message: str) -> UsageError:
    """What `jax.tree.broadcast` says in many lines, and where: `.. error: different types at key path\n .. tree[0]`."""
    first, _, rest = message.partition("\n")
    reason = first.partition(": ")[2].removesuffix(" at key path") or first
    path = rest.split("\n")[0].partition("prefix_tree")[2].strip()
    return UsageError(
        f"{what}{path} does not fit the values: {reason}", hint="give a pytree that begins as that of the values"
    )


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, PartitionSpec | NamedSharding | TensorSharding)


def _sharding(mesh: DeviceMesh, spec: Any, rank: int, what: str) -> TensorSharding | None:
    if spec is None:
        return None
    try:
        if isinstance(spec, TensorSharding):
            spec.check_rank(rank)
            return spec
        if isinstance(spec, NamedSharding):
            own = _in_own_order(spec.mesh, mesh)
            if own is not None:
                return sharding_of(own, tuple(spec.spec), rank)
            if tuple(spec.mesh.shape.items()) != mesh.mesh.axes:
                raise AnnotationError(f"its mesh is {dict(spec.mesh.shape)}, expected {dict(mesh.mesh.axes)}")
            spec = spec.spec
        if not isinstance(spec, PartitionSpec):
            raise AnnotationError(f"expected a PartitionSpec, a NamedSharding or None, got {spec!r:.100}")
        return sharding_of(mesh.mesh, tuple(spec), rank)
    except AnnotationError as error:
        raise AnnotationError(f"{what}: {error.message}", hint=error.hint) from None


def _in_own_order(given: Any, mesh: DeviceMesh) -> Mesh | None:
    """A mesh of the program's devices in another order, as numbers of its partitions; None for any other mesh."""
    if not isinstance(given, jax.sharding.Mesh) or mesh.devices is None:
        return None
    devices = tuple(given.devices.flat)
    if devices == mesh.devices or {*devices} != {*mesh.devices}:
        return None
    partition_of = {device: index for index, device in enumerate(mesh.devices)}
    return Mesh(tuple(given.shape.items()), tuple(partition_of[device] for device in devices), "")


def sharding_of_array(array: Any, mesh: DeviceMesh) -> TensorSharding | None:
    """How an array, or what stands for one, is split already; None where the mesh has no words for it."""
    if isinstance(array, ShardedArray):
        own = array.placement.mesh
        ordered = own.axes == mesh.mesh.axes and array.device_assignment == mesh.devices
        return array.placement.closed() if own == mesh.mesh or ordered else None
    sharding = getattr(array, "sharding", None)
    if not isinstance(sharding, NamedSharding) or not getattr(array, "committed", True):
        return None
    if mesh.mesh.size != sharding.mesh.size or mesh.mesh.size == 1:
        return None
    try:
        return sharding_of(_in_own_order(sharding.mesh, mesh) or mesh.mesh, tuple(sharding.spec), len(array.shape))
    except AnnotationError:
        return None
