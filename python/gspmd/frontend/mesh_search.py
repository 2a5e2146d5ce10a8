"""Finds the mesh of a function without one, as `jax.jit` finds devices: from shardings and arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
from jax.experimental.layout import Format
from jax.sharding import AbstractMesh, NamedSharding, SingleDeviceSharding

from gspmd.dialect.error_codes import Code
from gspmd.dialect.sharding import TensorSharding
from gspmd.frontend.device_mesh import DeviceMesh, device_mesh, mesh_around
from gspmd.frontend.jax_stages import Tracer, equations, legacy_mesh
from gspmd.runtime.familiar_errors import WrongSharding
from gspmd.runtime.sharded_array import ShardedArray


@dataclasses.dataclass(frozen=True, slots=True)
class FoundMesh:
    """A mesh of a call. `is_given`: the user gave it for the function, so it is also the mesh around the function."""

    mesh: DeviceMesh
    is_given: bool


def find_mesh(given: DeviceMesh | None, specs: Iterable[Any], leaves: Sequence[Any]) -> FoundMesh | None:
    """The mesh of a call: the given one, or that of `jax.set_mesh`, shardings, arrays or `with mesh:`; None for none.

    `specs` are the shardings that the user gave for arguments and results, `leaves` the arguments. If one of these
    names a single device, there is no mesh.
    """
    around = given or mesh_around()
    if around is not None:
        return FoundMesh(around, True)
    specs = list(specs)
    for shardings in (specs, map(_sharding, leaves)):
        found = _largest(shardings)
        if found is not None:
            return FoundMesh(found, False)
    legacy = None if on_one_device(specs, leaves) else legacy_mesh()
    return None if legacy is None else FoundMesh(device_mesh(legacy), True)


def on_one_device(specs: Iterable[Any], leaves: Sequence[Any]) -> bool:
    """Whether shardings or arrays name the single device of a function without a mesh."""
    return any(isinstance(sharding, SingleDeviceSharding) for sharding in (*specs, *map(_sharding, leaves)))


def mesh_inside(jaxpr: Any) -> FoundMesh | None:
    """The mesh of the function's own constraints and `jax.shard_map`s."""
    found = _largest(sharding for equation in equations(jaxpr) for sharding in _shardings_in(equation))
    return None if found is None else FoundMesh(found, False)


def check_legacy_mesh(jaxpr: Any, program: DeviceMesh) -> None:
    """Raise WrongSharding for a constraint over the mesh of a `with mesh:` block with other devices."""
    legacy = legacy_mesh()
    if legacy is None or not program.is_here() or {*legacy.devices.flat} == {*program.here()}:
        return
    constraints = (sharding for equation in equations(jaxpr) for sharding in _shardings_in(equation))
    if any(isinstance(sharding, NamedSharding) and sharding.mesh == legacy for sharding in constraints):
        raise WrongSharding(
            f"a constraint is over the mesh {dict(legacy.shape)} of the `with mesh:` block around, but the function "
            f"runs on {program.mesh.size} devices: Received incompatible devices for jitted computation",
            hint="put the arguments on the devices of that mesh, or leave the block",
            code=Code.DEVICE_COUNT,
        )


def _shardings_in(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        if isinstance(value, jax.sharding.Mesh | AbstractMesh):
            yield NamedSharding(value, jax.sharding.PartitionSpec())
        elif isinstance(value, jax.sharding.Sharding | TensorSharding):
            yield value
        elif isinstance(value, tuple):
            yield from (entry for entry in value if isinstance(entry, jax.sharding.Sharding))


def _sharding(leaf: Any) -> Any:
    if isinstance(leaf, ShardedArray):
        return leaf
    sharding = getattr(leaf, "sharding", None)
    if isinstance(leaf, Tracer) or not getattr(leaf, "committed", True):
        return None
    return sharding.sharding if isinstance(sharding, Format) else sharding


def _largest(shardings: Iterable[Any]) -> DeviceMesh | None:
    """The largest mesh of shardings; the first one if several are as large."""
    found: DeviceMesh | None = None
    for sharding in shardings:
        mesh = _mesh_of(sharding)
        if mesh is not None and (found is None or mesh.mesh.size > found.mesh.size):
            found = mesh
    return found


def _mesh_of(sharding: Any) -> DeviceMesh | None:
    if isinstance(sharding, ShardedArray):
        return DeviceMesh(dataclasses.replace(sharding.placement.mesh, name=""), sharding.device_assignment)
    if isinstance(sharding, TensorSharding):
        return DeviceMesh(dataclasses.replace(sharding.mesh, name=""))
    if isinstance(sharding, NamedSharding) and not sharding.mesh.empty:
        return device_mesh(sharding.mesh)
    return None
