"""What users say of arguments and results: where each is to be, by pytrees of shardings or by the arrays themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.errors import JaxRuntimeError
from jax.experimental.layout import Format
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, UsageError, shown
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.frontend.annotation import sharding_of_spec
from gspmd.frontend.device_mesh import DeviceMesh, own_order
from gspmd.runtime.sharded_array import ShardedArray


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What is said of one argument or result; what is not said is None, and left to the compiler.

    `memory_kind` is one of JAX's, as `pinned_host`; `layout` is a `jax.experimental.layout.Layout`; `spec` are the
    user's own words for the sharding.
    """

    sharding: TensorSharding | None = None
    memory_kind: str | None = None
    layout: Any = None
    spec: PartitionSpec | NamedSharding | None = None


NOTHING = Wanted()
Given = list[Wanted]  # one a leaf


def given_shardings(mesh: DeviceMesh, prefix: Any, values: Any, what: str) -> Given:
    """One for each leaf of `values`, which `prefix` is a prefix of; `what` is what errors call it.

    Errors: UsageError when the structures differ, AnnotationError for a spec that does not fit its value.
    """
    if prefix is None:
        return [NOTHING] * len(jax.tree.leaves(values))
    if isinstance(prefix, list) and isinstance(values, tuple):
        prefix = tuple(prefix)
    boxed = jax.tree.map(_Boxed, prefix, is_leaf=_is_spec)  # a None that is a leaf, unlike those among the values
    try:
        specs = jax.tree.leaves(jax.tree.broadcast(boxed, values))
    except ValueError as error:
        raise _misfit(what, str(error)) from None
    paths = jax.tree_util.tree_flatten_with_path(values)[0]
    return [
        _wanted(mesh, spec.content, len(value.shape), f"{what}{jax.tree_util.keystr(path)}")
        for spec, (path, value) in zip(specs, paths, strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class _Boxed:
    content: Any


def _misfit(what: str, message: str) -> UsageError:
    """What `jax.tree.broadcast` says in many lines, and where: `.. error: different types at key path\n .. tree[0]`."""
    first, _, rest = message.partition("\n")
    reason = first.partition(": ")[2].removesuffix(" at key path") or first
    path = rest.split("\n")[0].partition("prefix_tree")[2].strip()
    return UsageError(
        f"{what}{path} does not fit the values: {reason}", hint="give a pytree that begins as that of the values"
    )


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, PartitionSpec | jax.sharding.Sharding | Format | TensorSharding)


def specs_in(*prefixes: Any) -> list[Any]:
    """The shardings in pytrees of these."""
    leaves = [leaf for prefix in prefixes for leaf in jax.tree.leaves(prefix, is_leaf=_is_spec)]
    return [leaf.sharding if isinstance(leaf, Format) else leaf for leaf in leaves]


def _wanted(mesh: DeviceMesh, spec: Any, rank: int, what: str) -> Wanted:
    layout = None
    if isinstance(spec, Format):
        layout, spec = spec.layout, spec.sharding
    kind = spec.memory_kind if isinstance(spec, jax.sharding.Sharding) else None
    if kind is not None and kind == usual_memory(spec):
        kind = None
    named = spec if isinstance(spec, PartitionSpec | NamedSharding) else None
    return Wanted(_sharding(mesh, spec, rank, what), kind, layout, named)


def usual_memory(sharding: jax.sharding.Sharding) -> str | None:
    """The memory that devices compute in, which goes without saying."""
    try:
        device: Any = next(iter(sharding.device_set))
        return str(device.default_memory().kind)
    except (ValueError, NotImplementedError, JaxRuntimeError):  # over devices that are not here
        return "device"


def _sharding(mesh: DeviceMesh, spec: Any, rank: int, what: str) -> TensorSharding | None:
    if spec is None:
        return None
    try:
        if isinstance(spec, TensorSharding):
            spec.check_rank(rank)
            return spec
        if isinstance(spec, SingleDeviceSharding):
            return _on_one_device(mesh, spec, rank)
        if isinstance(spec, NamedSharding):
            return sharding_of_spec(_mesh_of(spec, mesh), spec.spec, rank)
        if not isinstance(spec, PartitionSpec):
            raise AnnotationError(f"expected a PartitionSpec, a NamedSharding or None, got {shown(spec)}")
        return sharding_of_spec(mesh.mesh, spec, rank)
    except AnnotationError as error:
        raise AnnotationError(f"{what}: {error.message}", hint=error.hint, code=error.code) from None


def _on_one_device(mesh: DeviceMesh, spec: SingleDeviceSharding, rank: int) -> TensorSharding:
    (device,) = spec.device_set
    if mesh.mesh.size > 1:
        raise AnnotationError(
            f"it is on {device} alone, but the program runs on {mesh.mesh.size} devices",
            hint="use PartitionSpec() for a value that every device has",
            code=Code.DEVICE_COUNT,
        )
    return replicated(mesh.mesh, rank)


def _mesh_of(spec: NamedSharding, program: DeviceMesh) -> Mesh:
    """The mesh of a sharding in terms of the program's partitions. Raises AnnotationError for other devices."""
    given = tuple(spec.mesh.shape.items())
    if given == program.mesh.axes and (own_order(spec.mesh, program) is None):
        return program.mesh
    if spec.mesh.size != program.mesh.size:
        if dict(given).items() <= dict(program.mesh.axes).items():
            return program.mesh
        raise AnnotationError(f"its mesh is {dict(given)}, expected {dict(program.mesh.axes)}")
    if isinstance(spec.mesh, jax.sharding.Mesh) and program.devices is not None:
        devices = tuple(spec.mesh.devices.flat)
        if {*devices} != {*program.devices}:
            raise AnnotationError(
                f"its mesh {dict(given)} has other devices than the program",
                hint="use one set of devices for all arguments and results",
                code=Code.DEVICE_COUNT,
            )
    return own_order(spec.mesh, program) or Mesh(given, name="")


def wanted_by_array(array: Any, mesh: DeviceMesh) -> Wanted:
    """How an array, or what stands for one, is split already, and in which memory; nothing where it does not say."""
    if isinstance(array, ShardedArray):
        own = array.placement.mesh
        ordered = own.axes == mesh.mesh.axes and array.device_assignment == mesh.devices
        return Wanted(array.placement.closed()) if own == mesh.mesh or ordered else NOTHING
    sharding = getattr(array, "sharding", None)
    if isinstance(sharding, Format):
        sharding = sharding.sharding
    if not isinstance(sharding, jax.sharding.Sharding) or not getattr(array, "committed", True):
        return NOTHING
    kind = sharding.memory_kind
    kind = None if kind is None or kind == usual_memory(sharding) else kind
    if not isinstance(sharding, NamedSharding) or mesh.mesh.size != sharding.mesh.size:
        return Wanted(memory_kind=kind)
    try:
        own = own_order(sharding.mesh, mesh) or _same_devices(sharding.mesh, mesh)
        return Wanted(sharding_of_spec(own, sharding.spec, len(array.shape)), kind, spec=sharding)
    except AnnotationError:
        return Wanted(memory_kind=kind)


def wanted_by_ref(ref: jax.Ref, mesh: DeviceMesh) -> Wanted:
    """Where a mutable array is; one that is not on the program's devices yet is going to be whole on each of them."""
    found = wanted_by_array(ref, mesh)
    return found if found.sharding is not None else Wanted(replicated(mesh.mesh, ref.ndim), found.memory_kind)


def _same_devices(given: Any, program: DeviceMesh) -> Mesh:
    """The array's mesh where it is over the program's devices and called otherwise, else the program's."""
    axes = tuple(given.shape.items())
    if axes != program.mesh.axes and isinstance(given, jax.sharding.Mesh):
        devices = program.devices if program.devices is not None else tuple(jax.devices()[: program.mesh.size])
        if tuple(given.devices.flat) == devices:
            return Mesh(axes, name="")
    return program.mesh


def shardings(given: Sequence[Wanted]) -> list[TensorSharding | None]:
    """What is said of where values are split."""
    return [wanted.sharding for wanted in given]


__all__ = [
    "NOTHING",
    "Given",
    "Wanted",
    "given_shardings",
    "shardings",
    "specs_in",
    "usual_memory",
    "wanted_by_array",
    "wanted_by_ref",
]
