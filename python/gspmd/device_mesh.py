"""Device meshes as people give them: JAX's, sizes by name, numbers, device ids, also of devices that are not here."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType

from gspmd.dialect.errors import AnnotationError, ExecutionError, UsageError
from gspmd.dialect.mesh import Mesh

DEFAULT_NAMES = ("x", "y", "z", "w")
MeshLike = Any  # jax Mesh or AbstractMesh, gspmd Mesh, {"x": 4, "y": 2}, (4, 2), 8, array of device ids


@dataclasses.dataclass(frozen=True)
class DeviceMesh:
    """A mesh, and the devices in its order; `devices` is None for the first of those that JAX has when it runs.

    `kind` is the AbstractMesh that the mesh was given as, or a part of: JAX compares it with the meshes of
    `jax.shard_map` by what devices it says.
    """

    mesh: Mesh
    devices: tuple[Any, ...] | None = None
    kind: AbstractMesh | None = dataclasses.field(default=None, compare=False)

    def abstract(self) -> AbstractMesh:
        """The mesh in which JAX traces: every axis left to the partitioner."""
        names = tuple(name for name, _ in self.mesh.axes)
        sizes = tuple(size for _, size in self.mesh.axes)
        types = (AxisType.Auto,) * len(names)
        if self.kind is not None:
            kind: AbstractMesh = self.kind.update(axis_types=types)
            return kind
        devices = jax.devices()
        if self.mesh.size > len(devices):
            return AbstractMesh(sizes, names, axis_types=types)
        grid = np.array(devices[: self.mesh.size], object).reshape(sizes)
        found: AbstractMesh = jax.sharding.Mesh(grid, names, axis_types=types).abstract_mesh
        return found

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Make it the mesh that JAX traces in, in place of one of any size that `jax.set_mesh` set."""
        none = jax.sharding.Mesh(np.empty((), object), ())
        with (
            contextlib.nullcontext() if jax.sharding.get_mesh().empty else jax.set_mesh(none),
            jax.sharding.use_abstract_mesh(none.abstract_mesh),
            jax.sharding.use_abstract_mesh(self.abstract()),
        ):
            yield

    def here(self) -> tuple[Any, ...]:
        """The devices to run on. Raises ExecutionError where there are too few."""
        if self.devices is not None:
            return self.devices
        devices = jax.devices()
        if len(devices) < self.mesh.size:
            platform = devices[0].platform
            raise ExecutionError(
                f"the mesh has {self.mesh.size} devices, but there are {len(devices)} {platform} devices",
                hint=f"set JAX_NUM_CPU_DEVICES={self.mesh.size} in the environment before jax is used"
                if platform == "cpu"
                else "'lower' and 'partitioned' work without them",
            )
        return tuple(devices[: self.mesh.size])


def device_mesh(mesh: MeshLike = None) -> DeviceMesh:
    """The mesh that `mesh` means; None is the one around, as `jax.set_mesh` sets it.

    Taken are `jax.sharding.Mesh` and `AbstractMesh`, sizes by name (`{"x": 4, "y": 2}`), sizes (`(4, 2)` or `8`, whose
    axes are called x, y, z, w), a NumPy array of device ids, as in the paper, and `gspmd.dialect.mesh.Mesh`. Sizes
    may be far beyond the devices at hand: such programs can be lowered and looked at, not run.

    Errors: UsageError for anything else, or no mesh; AnnotationError for bad sizes or names.
    """
    if isinstance(mesh, DeviceMesh):
        return mesh
    if mesh is None:
        return _around()
    if isinstance(mesh, Mesh):
        return DeviceMesh(dataclasses.replace(mesh, name=""))
    if isinstance(mesh, jax.sharding.Mesh):
        return DeviceMesh(_mesh(mesh.shape.items()), tuple(mesh.devices.flat), mesh.abstract_mesh)
    if isinstance(mesh, AbstractMesh):
        return DeviceMesh(_mesh(mesh.shape.items()), kind=mesh)
    if isinstance(mesh, Mapping):
        return DeviceMesh(_mesh(mesh.items()))
    if isinstance(mesh, np.ndarray) and mesh.ndim:
        return _of_ids(mesh)
    if isinstance(mesh, int | np.integer) or (
        isinstance(mesh, Sequence) and mesh and all(isinstance(size, int | np.integer) for size in mesh)
    ):
        return DeviceMesh(_numbered(tuple(map(int, mesh)) if isinstance(mesh, Sequence) else (int(mesh),)))
    raise UsageError(
        f"a mesh cannot be made from {mesh!r:.100}", hint='give a jax Mesh, sizes by name as {"x": 4}, or sizes'
    )


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], *, devices: Sequence[Any] | None = None
) -> jax.sharding.Mesh | AbstractMesh:
    """As `jax.make_mesh`, but an `AbstractMesh` where there are fewer devices: enough to partition, not to run.

    All axes are of type Auto: the partitioner decides.

    Errors: UsageError for shapes and names that do not match.
    """
    shapes, names = tuple(axis_shapes), tuple(axis_names)
    if len(shapes) != len(names):
        raise UsageError(f"a mesh of {len(shapes)} sizes needs as many names, got {len(names)}")
    abstract = DeviceMesh(_mesh(tuple(zip(names, shapes, strict=True)))).abstract()
    available = jax.devices() if devices is None else list(devices)
    if len(available) < abstract.size:
        return abstract
    types = (AxisType.Auto,) * len(names)
    if devices is None:
        return jax.make_mesh(shapes, names, axis_types=types)
    grid = np.empty(abstract.size, object)
    grid[:] = available[: abstract.size]
    return jax.sharding.Mesh(grid.reshape(shapes), names, axis_types=types)


def _mesh(axes: Iterable[tuple[Any, Any]]) -> Mesh:
    for name, size in axes:
        if not isinstance(name, str) or not isinstance(size, int | np.integer):
            raise UsageError(
                f"a mesh has sizes by name, not {size!r:.50} by {name!r:.50}", hint='give {"x": 4, "y": 2}'
            )
    return Mesh(tuple((name, int(size)) for name, size in axes), name="")


def _around() -> DeviceMesh:
    """JAX's mesh around: with devices where `jax.set_mesh` gave some."""
    abstract = jax.sharding.get_abstract_mesh()
    if abstract.empty:
        raise UsageError("there is no mesh", hint='give one, as mesh={"x": 8}, or use jax.set_mesh')
    try:
        concrete = jax.sharding.get_mesh()
    except ValueError:  # while JAX traces, devices are not known, nor needed
        concrete = None
    if concrete is not None and concrete.shape_tuple == abstract.shape_tuple:
        return device_mesh(concrete)
    return device_mesh(abstract)


def _of_ids(ids: np.ndarray[Any, Any]) -> DeviceMesh:
    if ids.dtype.kind not in "iu" or sorted(ids.flat) != list(range(ids.size)):
        raise AnnotationError(f"device ids of a mesh of {ids.size} devices must be a permutation of 0..{ids.size - 1}")
    mesh, by_id = _numbered(ids.shape), {device.id: device for device in jax.devices()}
    missing = any(int(i) not in by_id for i in ids.flat)
    return DeviceMesh(mesh, None if missing else tuple(by_id[int(i)] for i in ids.flat))


def _numbered(shape: tuple[int, ...]) -> Mesh:
    """Axes without names are those of the mesh around, if it has the same sizes, else they are called x, y, z, w."""
    around = jax.sharding.get_abstract_mesh()
    if not around.empty and tuple(around.axis_sizes) == shape:
        return _mesh(around.shape.items())
    if len(shape) > len(DEFAULT_NAMES):
        raise UsageError(f"a mesh of {len(shape)} axes needs names", hint='give {"name": size, ...}')
    return _mesh(tuple(zip(DEFAULT_NAMES, shape, strict=False)))
