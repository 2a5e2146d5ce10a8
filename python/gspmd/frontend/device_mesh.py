"""The forms in which users give device meshes: JAX's, sizes by name, numbers, device ids; devices may be absent."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, ExecutionError, UsageError, shown
from gspmd.dialect.mesh import Mesh
from gspmd.frontend.jax_stages import concrete_mesh, is_tracing, legacy_mesh
from gspmd.runtime.familiar_errors import MissingMesh, WrongValue

DEFAULT_NAMES = ("x", "y", "z", "w")
MeshLike = Any  # jax Mesh or AbstractMesh, gspmd Mesh, {"x": 4, "y": 2}, (4, 2), 8, array of device ids


@dataclasses.dataclass(frozen=True)
class DeviceMesh:
    """A mesh, and its devices in order; `devices` is None for the first devices that JAX has at run time.

    `kind` is the AbstractMesh of the mesh that was given: JAX compares its devices with those of the meshes of
    `jax.shard_map`.
    """

    mesh: Mesh
    devices: tuple[Any, ...] | None = None
    kind: AbstractMesh | None = dataclasses.field(default=None, compare=False)
    lowered_for: str = ""

    def lowered_on(self, platform: str, device_kind: str, cores: int) -> DeviceMesh:
        """The mesh for a program that is lowered for a platform whose devices may be absent.

        Traced functions read the device kind from the mesh around. Types of values have the user's own mesh.
        """
        kind = self.kind
        if kind is None or kind.abstract_device is None or not self.has_explicit_axes:
            device = AbstractDevice(device_kind, cores, platform)
            kind = AbstractMesh(*_sizes_and_names(self.mesh), axis_types=self._types, abstract_device=device)
        return dataclasses.replace(self, kind=kind, lowered_for=platform)

    @property
    def stands_in(self) -> bool:
        """Whether it has no devices, or CPU devices, which can stand in for those of any target."""
        return self.devices is None or self.devices[0].platform == "cpu"

    @property
    def _types(self) -> tuple[AxisType, ...]:
        return (AxisType.Auto,) * len(self.mesh.axes) if self.kind is None else self.kind.axis_types

    def abstract(self, explicit: bool = False) -> AbstractMesh:
        """The mesh in which JAX traces: all axes of type Auto, or if `explicit`, of the types that were given."""
        sizes, names = _sizes_and_names(self.mesh)
        types = (AxisType.Auto,) * len(names)
        if self.kind is not None:
            kind: AbstractMesh = self.kind if explicit else self.kind.update(axis_types=types)
            return kind
        devices = jax.devices()
        if self.mesh.size > len(devices):
            return AbstractMesh(sizes, names, axis_types=types)
        grid = np.array(devices[: self.mesh.size], object).reshape(sizes)
        found: AbstractMesh = jax.sharding.Mesh(grid, names, axis_types=types).abstract_mesh
        return found

    @property
    def has_explicit_axes(self) -> bool:
        """Whether the types of values have shardings."""
        return self.kind is not None and AxisType.Explicit in self.kind.axis_types

    def trace_contexts(self, is_given: bool, by_gspmd: bool) -> Sequence[contextlib.AbstractContextManager[None]]:
        """The contexts in which to trace a function over this mesh, in order, until one of them succeeds.

        A mesh that the user gave is the mesh around the function, like that of `jax.set_mesh`. A mesh that was found on
        arrays or shardings is not, as with `jax.jit`, unless the function needs one. Conversely, some libraries write
        annotations that do not fit whenever there is a mesh; their functions are traced without.
        """
        program, typed = (TracedProgram(self, by_gspmd, has_types) for has_types in (False, True))
        own = self.abstract()
        if is_given:
            return [around(typed, own), around(program, None)]
        return [around(typed, None), around(program, None), around(program, own)]

    @contextlib.contextmanager
    def around_operations(self) -> Iterator[None]:
        """Make it the mesh of a function that runs operation by operation."""
        with PROGRAM(TracedProgram(self, by_gspmd=False)), contextlib.ExitStack() as stack:
            mesh = self.jax_mesh()
            if isinstance(mesh, jax.sharding.Mesh):
                stack.enter_context(jax.set_mesh(mesh))
            yield

    def jax_mesh(self) -> jax.sharding.Mesh | AbstractMesh:
        """The mesh as one of JAX's, with devices if these are present."""
        return concrete_mesh(self.abstract(), self.here()) if self.is_here() else self.abstract()

    def mesh_of(self, devices: Sequence[Any]) -> jax.sharding.Mesh:
        """A mesh of JAX's of these devices, with the axis types of the given mesh."""
        return concrete_mesh(self.abstract(explicit=True), devices)

    @property
    def platform(self) -> str:
        """The platform for which JAX lowers: that of the devices, or of JAX's own if these are absent."""
        return self.lowered_for or self._elsewhere or str((self.devices or jax.devices())[0].platform)

    def is_here(self) -> bool:
        return self.devices is not None or (self.mesh.size <= len(jax.devices()) and not self._elsewhere)

    @property
    def _elsewhere(self) -> str:
        """The platform of an abstract mesh's abstract device if JAX has devices of another platform; else ''."""
        device = None if self.kind is None else self.kind.abstract_device
        if self.devices is not None or device is None or device.platform == jax.devices()[0].platform:
            return ""
        return str(device.platform)

    def here(self) -> tuple[Any, ...]:
        """The devices to run on. Raises ExecutionError if there are too few."""
        if self.devices is not None:
            return self.devices
        devices = jax.devices()
        if self._elsewhere:
            raise ExecutionError(
                f"the mesh has {self._elsewhere} devices, but there are {devices[0].platform} devices",
                hint="give the devices to compile for by compile(devices=...), or give a target",
                code=Code.OTHER_MACHINE,
            )
        if len(devices) < self.mesh.size:
            platform = devices[0].platform
            raise ExecutionError(
                f"the mesh has {self.mesh.size} devices, but there are {len(devices)} {platform} devices",
                hint=f"set JAX_NUM_CPU_DEVICES={self.mesh.size} in the environment before jax is used"
                if platform == "cpu"
                else "'lower' and 'partitioned' work without them",
                code=Code.TOO_FEW_DEVICES,
            )
        return tuple(devices[: self.mesh.size])


@dataclasses.dataclass(frozen=True)
class TracedProgram:
    """A program that JAX traces: its mesh, and its partitioner, gspmd or XLA.

    `has_types`: the types of arrays over a mesh with axes of type Auto have that mesh, as with `jax.jit`. `types` is
    the mesh with axes of type Explicit in the types of values, if there is no mesh around.
    """

    mesh: DeviceMesh
    by_gspmd: bool
    has_types: bool = False
    types: AbstractMesh | None = None


# The program that is being traced, or None. It is part of the key of JAX's cache of traced functions.
PROGRAM = jax.make_user_context(None)


@contextlib.contextmanager
def around(program: TracedProgram, mesh: AbstractMesh | None) -> Iterator[None]:
    """Trace the program inside `mesh` or without a mesh; hides the mesh of `jax.set_mesh` meanwhile."""
    with PROGRAM(program), contextlib.ExitStack() as stack:
        outer = jax.sharding.get_abstract_mesh()
        if outer != mesh and not outer.empty:
            none = jax.sharding.Mesh(np.empty((), object), ())
            if not is_tracing(()) and not jax.sharding.get_mesh().empty:
                stack.enter_context(jax.set_mesh(none))
            stack.enter_context(jax.sharding.use_abstract_mesh(none.abstract_mesh))
        if outer != mesh and mesh is not None:
            stack.enter_context(jax.sharding.use_abstract_mesh(mesh))
        yield


def device_mesh_on(mesh: MeshLike, device: Any, backend: str | None) -> DeviceMesh | None:
    """The mesh for `jax.jit`'s arguments `device` and `backend`: the given mesh, over the devices of `backend`.

    A device, or a backend without a mesh, gives no mesh: such a function is left to JAX.

    Errors: UsageError for both, or for a device and a mesh; ExecutionError for a backend that is absent.
    """
    if device is not None and backend is not None:
        raise WrongValue("can't specify both a device and a backend for jit", hint="give one of these")
    if device is not None and mesh is not None:
        raise WrongValue("a device was given in addition to a mesh or a backend", hint="give one of these")
    if backend is None:
        return None if mesh is None else device_mesh(mesh)
    try:
        devices = jax.devices(backend)
    except RuntimeError as error:
        raise ExecutionError(f"no {backend} devices: {str(error).splitlines()[0]}", code=Code.TOO_FEW_DEVICES) from None
    if mesh is None:
        return None
    known = device_mesh(mesh)
    return dataclasses.replace(known, devices=tuple(devices[: known.mesh.size]))


def device_mesh(mesh: MeshLike = None) -> DeviceMesh:
    """The mesh that a user gives as `mesh`; None is the mesh around, of `jax.set_mesh` or `with mesh:`.

    It may be a `jax.sharding.Mesh` or `AbstractMesh`, sizes by name (`{"x": 4, "y": 2}`), sizes (`(4, 2)` or `8`, whose
    axes are called x, y, z, w), a NumPy array of device ids, as in the paper, or a `gspmd.dialect.mesh.Mesh`. It may
    have more devices than are present: such programs can be lowered and inspected, but not run.

    Errors: UsageError for anything else, or no mesh; AnnotationError for bad sizes or names.
    """
    if isinstance(mesh, DeviceMesh):
        return mesh
    if mesh is None:
        around, legacy = mesh_around(), legacy_mesh()
        if around is None and legacy is None:
            raise no_mesh()
        return around or device_mesh(legacy)
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
        f"a mesh cannot be made from {shown(mesh)}",
        hint='give a jax Mesh, sizes by name such as {"x": 4}, or sizes',
        code=Code.MESH,
    )


def no_mesh() -> UsageError:
    return MissingMesh(
        "there is no mesh",
        hint='give one, such as mesh={"x": 8}, or use jax.set_mesh',
        code=Code.NO_MESH,
    )


def own_order(given: Any, program: DeviceMesh) -> Mesh | None:
    """A mesh of the program's devices in another order, as numbers of its partitions; None for any other mesh."""
    if not isinstance(given, jax.sharding.Mesh) or program.devices is None:
        return None
    devices = tuple(given.devices.flat)
    if devices == program.devices or {*devices} != {*program.devices}:
        return None
    partition_of = {device: index for index, device in enumerate(program.devices)}
    return Mesh(tuple(given.shape.items()), tuple(partition_of[device] for device in devices), "")


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], *, devices: Sequence[Any] | None = None
) -> jax.sharding.Mesh | AbstractMesh:
    """Like `jax.make_mesh`, but if there are fewer devices, an `AbstractMesh`: enough to partition, but not to run.

    All axes are of type Auto: they are left to the partitioner.

    Errors: UsageError for shapes and names that do not match, or are not sequences.
    """
    try:
        shapes, names = tuple(axis_shapes), tuple(axis_names)
        chosen = None if devices is None else list(devices)
    except TypeError:
        raise UsageError(
            "sizes, names and devices of a mesh have to be sequences",
            hint='call make_mesh((4, 2), ("x", "y"))',
            code=Code.MESH,
        ) from None
    if len(shapes) != len(names):
        raise UsageError(f"a mesh of {len(shapes)} sizes needs {len(shapes)} names, got {len(names)}", code=Code.MESH)
    abstract = DeviceMesh(_mesh(tuple(zip(names, shapes, strict=True)))).abstract()
    available = jax.devices() if chosen is None else chosen
    if len(available) < abstract.size:
        return abstract
    types = (AxisType.Auto,) * len(names)
    if devices is None:
        return jax.make_mesh(shapes, names, axis_types=types)
    grid = np.empty(abstract.size, object)
    grid[:] = available[: abstract.size]
    return jax.sharding.Mesh(grid.reshape(shapes), names, axis_types=types)


def _sizes_and_names(mesh: Mesh) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return tuple(size for _, size in mesh.axes), tuple(name for name, _ in mesh.axes)


def _mesh(axes: Iterable[tuple[Any, Any]]) -> Mesh:
    for name, size in axes:
        if not isinstance(name, str) or not isinstance(size, int | np.integer):
            raise UsageError(
                f"a mesh maps names to sizes, not {shown(name)} to {shown(size)}",
                hint='give {"x": 4, "y": 2}',
                code=Code.MESH,
            )
    mesh = Mesh(tuple((name, int(size)) for name, size in axes), name="")
    mesh.check_devices()
    return mesh


def has_manual_axes() -> bool:
    """Whether JAX is tracing inside a manual computation."""
    return AxisType.Manual in jax.sharding.get_abstract_mesh().axis_types


def mesh_around() -> DeviceMesh | None:
    """The mesh of the function that is traced, or of `jax.set_mesh`, with devices if these are known."""
    program: TracedProgram | None = PROGRAM.value
    if program is not None:
        return program.mesh
    abstract = jax.sharding.get_abstract_mesh()
    if abstract.empty:
        return None
    try:
        concrete = jax.sharding.get_mesh()
    except ValueError:  # while JAX traces, devices are neither known nor needed
        concrete = None
    if concrete is not None and concrete.shape_tuple == abstract.shape_tuple:
        # `jax.sharding.auto_axes` changes the types of axes only in the abstract mesh.
        return dataclasses.replace(device_mesh(concrete), kind=abstract)
    return device_mesh(abstract)


def _of_ids(ids: np.ndarray[Any, Any]) -> DeviceMesh:
    if ids.dtype.kind not in "iu" or sorted(ids.flat) != list(range(ids.size)):
        raise AnnotationError(
            f"device ids of a mesh of {ids.size} devices must be a permutation of 0..{ids.size - 1}", code=Code.MESH
        )
    mesh, by_id = _numbered(ids.shape), {device.id: device for device in jax.devices()}
    missing = any(int(i) not in by_id for i in ids.flat)
    return DeviceMesh(mesh, None if missing else tuple(by_id[int(i)] for i in ids.flat))


def _numbered(shape: tuple[int, ...]) -> Mesh:
    """A mesh of these sizes, with the axis names of the mesh around if it has the same sizes, else x, y, z, w."""
    around = jax.sharding.get_abstract_mesh()
    if not around.empty and tuple(around.axis_sizes) == shape:
        return _mesh(around.shape.items())
    if len(shape) > len(DEFAULT_NAMES):
        raise UsageError(f"a mesh of {len(shape)} axes needs names", hint='give {"name": size, ...}', code=Code.MESH)
    return _mesh(tuple(zip(DEFAULT_NAMES, shape, strict=False)))
