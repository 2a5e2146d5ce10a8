"""The shardings that users specify for arguments and results, by pytrees of shardings or by the arrays themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.errors import JaxRuntimeError
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, shown
from gspmd.dialect.hlo_convert import common_mesh, to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.hlo_sharding import Tiled
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.frontend import jax_stages
from gspmd.frontend.annotation import sharding_of_spec
from gspmd.frontend.device_mesh import DeviceMesh, own_order
from gspmd.frontend.jax_stages import is_array, is_unspecified
from gspmd.runtime.array_layout import own_layout
from gspmd.runtime.familiar_errors import WrongSharding, WrongType, WrongValue
from gspmd.runtime.sharded_array import ShardedArray, jax_sharding


@dataclasses.dataclass(frozen=True, slots=True)
class ValueSpec:
    """The user's specification of one argument or result; a field that is None is left to the compiler.

    `memory_kind` is one of JAX's, such as `pinned_host`; `layout` is a `jax.experimental.layout.Layout`; `spec` is the
    sharding as the user wrote it.
    """

    sharding: TensorSharding | None = None
    memory_kind: str | None = None
    layout: Any = None
    spec: PartitionSpec | NamedSharding | None = None

    def beside(self, array: ValueSpec, is_split: bool) -> ValueSpec:
        """This specification, completed by that of the array that is passed; by its sharding only if `is_split`."""
        if self.sharding is None and is_split:
            own = array.memory_kind if self.memory_kind is None else self.memory_kind
            return dataclasses.replace(array, memory_kind=own, layout=self.layout or array.layout)
        return self if self.layout is not None else dataclasses.replace(self, layout=array.layout)


NO_SPEC = ValueSpec()
ValueSpecs = list[ValueSpec]  # one for each leaf


def given_shardings(mesh: DeviceMesh, prefix: Any, values: Any, what: str) -> ValueSpecs:
    """The specification of each leaf of `values`, of which `prefix` is a prefix; errors call it `what`.

    Errors: UsageError if the structures differ, AnnotationError for a spec that does not fit its value.
    """
    if prefix is None:
        return [NO_SPEC] * len(jax.tree.leaves(values))
    paths = jax.tree_util.tree_flatten_with_path(values)[0]
    return [
        _value_spec(mesh, spec, len(value.shape), f"{what}{jax.tree_util.keystr(path)}")
        for spec, (path, value) in zip(_spread(prefix, values, what), paths, strict=True)
    ]


def with_shardings(structs: Any, prefix: Any, mesh: Any, what: str) -> Any:
    """Shapes with the shardings and layouts in `prefix`; a spec is one over the `mesh` of JAX's."""
    leaves, tree = jax.tree.flatten(structs)
    specs = [None] * len(leaves) if prefix is None else _spread(named_shardings(prefix, mesh), structs, what)
    specified = [
        struct.update(sharding=spec) if isinstance(_sharding_of(spec), jax.sharding.Sharding) else struct
        for struct, spec in zip(leaves, specs, strict=True)
    ]
    return jax.tree.unflatten(tree, specified)


def named_shardings(prefix: Any, mesh: Any) -> Any:
    """The pytree with `NamedSharding`s over a mesh of JAX's in place of specs, or None if there is no mesh."""

    def named(spec: Any) -> Any:
        if isinstance(spec, Format):
            return Format(spec.layout, named(spec.sharding))
        if isinstance(spec, PartitionSpec):
            return None if mesh is None else NamedSharding(mesh, spec)
        return spec

    return jax.tree.map(named, prefix, is_leaf=_is_spec)


def without_hlo(prefix: Any, what: str) -> Any:
    """The pytree with `NamedSharding`s in place of `GSPMDSharding`s. Errors: WrongSharding."""

    def named(spec: Any) -> Any:
        if isinstance(spec, Format):
            return Format(spec.layout, named(spec.sharding))
        devices = jax_stages.devices_in_hlo(spec)
        return _over_a_mesh(spec, devices, what) if devices else spec

    return jax.tree.map(named, prefix, is_leaf=_is_spec)


def _over_a_mesh(spec: Any, devices: tuple[Any, ...], what: str) -> NamedSharding:
    """A `GSPMDSharding` as one over a mesh of these devices in their order, with the axes that it needs."""
    parsed = parse_hlo_sharding(jax_stages.hlo_text(spec, 0))
    rank = len(parsed.body.dims) - len(parsed.body.subgroups) if isinstance(parsed.body, Tiled) else 0
    found = to_tensor_sharding(parsed, rank, common_mesh([parsed], len(devices)))
    if found.manual or found.unreduced:
        raise WrongSharding(f"{what}: {spec} does more than divide dimensions", hint="give a NamedSharding")
    return jax_sharding(found.closed(), devices).with_memory_kind(spec.memory_kind)


def left_open(prefix: Any, values: Any, what: str) -> tuple[bool, ...]:
    """For each leaf of `values`, whether `prefix` leaves its sharding open. Errors: as `given_shardings`."""
    return tuple(_sharding_of(spec) is None for spec in _spread(prefix, values, what))


def _spread(prefix: Any, values: Any, what: str) -> list[Any]:
    """The entry of a prefix for each leaf of `values`."""
    if isinstance(prefix, list) and isinstance(values, tuple):
        prefix = tuple(prefix)
    specs: list[Any]
    tree: Any
    specs, tree = jax.tree.flatten(prefix, is_leaf=_is_spec)
    try:
        parts = tree.flatten_up_to(values)
    except ValueError as error:
        boxed = jax.tree.unflatten(tree, map(_Boxed, specs))  # a None that is a leaf, unlike those among the values
        raise _misfit(what, _mismatch(boxed, values) or str(error)) from None
    return [spec for spec, part in zip(specs, parts, strict=True) for _ in jax.tree.leaves(part)]


def _mismatch(prefix: Any, values: Any) -> str:
    """The first place where a pytree is no prefix of another one."""
    try:
        jax.tree.broadcast(prefix, values)
    except ValueError as error:
        return str(error)
    return ""


@dataclasses.dataclass(frozen=True)
class _Boxed:
    content: Any


def _misfit(what: str, message: str) -> WrongValue:
    """The error of `jax.tree.broadcast`, `.. error: different types at key path\n .. tree[0]`, on one line."""
    first, _, rest = message.partition("\n")
    reason = first.partition(": ")[2].removesuffix(" at key path") or first
    path = rest.split("\n")[0].partition("prefix_tree")[2].strip()
    return WrongValue(
        f"{what}{path} does not fit the values: {reason}", hint="give a prefix of the pytree of the values"
    )


def _is_spec(value: Any) -> bool:
    return (
        value is None
        or is_unspecified(value)
        or isinstance(value, PartitionSpec | jax.sharding.Sharding | Format | TensorSharding)
    )


def check_specs(**prefixes: Any) -> None:
    """Raise WrongType for a leaf of `in_shardings` or `out_shardings` that is not a sharding, a spec or None."""
    for what, prefix in prefixes.items():
        for path, leaf in jax.tree_util.tree_flatten_with_path(prefix, is_leaf=_is_spec)[0]:
            if isinstance(leaf, NamedSharding) and leaf.mesh.empty:
                raise WrongValue(f"{what}{jax.tree_util.keystr(path)}: got an empty NamedSharding", code=Code.NO_MESH)
            if isinstance(leaf, Layout) or leaf is Layout.AUTO:
                raise WrongValue(
                    f"{what}{jax.tree_util.keystr(path)}: `jax.jit` does not accept device-local layouts directly",
                    hint="give Format(layout, sharding)",
                )
            if not _is_spec(leaf):
                raise WrongType(
                    f"{what}{jax.tree_util.keystr(path)}: expected a PartitionSpec, a NamedSharding or None, got "
                    f"{shown(leaf)}"
                )


def specs_in(*prefixes: Any) -> list[Any]:
    """The shardings in pytrees."""
    leaves = [leaf for prefix in prefixes for leaf in jax.tree.leaves(prefix, is_leaf=_is_spec)]
    return [_sharding_of(leaf) for leaf in leaves]


def _sharding_of(spec: Any) -> Any:
    spec = spec.sharding if isinstance(spec, Format) else spec
    return None if is_unspecified(spec) else spec


def _value_spec(mesh: DeviceMesh, spec: Any, rank: int, what: str) -> ValueSpec:
    layout = None
    if isinstance(spec, Format):
        layout = spec.layout
    spec = _sharding_of(spec)
    kind = spec.memory_kind if isinstance(spec, jax.sharding.Sharding) else None
    if kind is not None and kind == usual_memory(spec):
        kind = None
    named = spec if isinstance(spec, PartitionSpec | NamedSharding) else None
    return ValueSpec(_sharding(mesh, spec, rank, what), kind, layout, named)


def usual_memory(sharding: jax.sharding.Sharding) -> str | None:
    """The default memory of the devices, which need not be specified."""
    try:
        device: Any = next(iter(sharding.device_set))
        return str(device.default_memory().kind)
    except (ValueError, NotImplementedError, JaxRuntimeError):  # over devices that are absent
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
        return sharding_of_spec(mesh.mesh, spec, rank)
    except AnnotationError as error:
        raise WrongSharding(f"{what}: {error.message}", hint=error.hint, code=error.code) from None


def _on_one_device(mesh: DeviceMesh, spec: SingleDeviceSharding, rank: int) -> TensorSharding:
    (device,) = spec.device_set
    if mesh.mesh.size > 1:
        raise AnnotationError(
            f"it is on {device} alone, but the program runs on {mesh.mesh.size} devices",
            hint="use PartitionSpec() for a replicated value",
            code=Code.DEVICE_COUNT,
        )
    return replicated(mesh.mesh, rank)


def _mesh_of(spec: NamedSharding, program: DeviceMesh) -> Mesh:
    """The mesh of a sharding, over the program's partitions. Raises AnnotationError for other devices."""
    given = tuple(spec.mesh.shape.items())
    if given == program.mesh.axes and (own_order(spec.mesh, program) is None):
        return program.mesh
    if spec.mesh.size != program.mesh.size:
        if dict(given).items() <= dict(program.mesh.axes).items():
            return program.mesh
        raise AnnotationError(
            f"its mesh is {dict(given)}, expected {dict(program.mesh.axes)}: "
            "Received incompatible devices for jitted computation"
        )
    if isinstance(spec.mesh, jax.sharding.Mesh) and program.devices is not None:
        devices = tuple(spec.mesh.devices.flat)
        if {*devices} != {*program.devices}:
            raise AnnotationError(
                f"its mesh {dict(given)} has other devices than the program: "
                "Received incompatible devices for jitted computation",
                hint="use one set of devices for all arguments and results",
                code=Code.DEVICE_COUNT,
            )
    return own_order(spec.mesh, program) or Mesh(given, name="")


def spec_of_array(array: Any, mesh: DeviceMesh) -> ValueSpec:
    """The sharding and memory of an array or of a shape in its place; `NO_SPEC` if it has none."""
    if isinstance(array, ShardedArray):
        own = array.placement.mesh
        ordered = own.axes == mesh.mesh.axes and array.device_assignment == mesh.devices
        return ValueSpec(array.placement.closed()) if own == mesh.mesh or ordered else NO_SPEC
    sharding = getattr(array, "sharding", None)
    if isinstance(sharding, Format):
        sharding = sharding.sharding
    if not isinstance(sharding, jax.sharding.Sharding) or not getattr(array, "committed", True):
        return NO_SPEC
    kind = sharding.memory_kind
    kind = None if kind is None or kind == usual_memory(sharding) else kind
    if not isinstance(sharding, NamedSharding) or mesh.mesh.size != sharding.mesh.size:
        return ValueSpec(memory_kind=kind)
    try:
        own = own_order(sharding.mesh, mesh) or _same_devices(sharding.mesh, mesh)
        placed = sharding_of_spec(own, sharding.spec, len(array.shape))
        return ValueSpec(placed, kind, own_layout(array), sharding)
    except AnnotationError:
        return ValueSpec(memory_kind=kind)


def spec_of_ref(ref: jax.Ref, mesh: DeviceMesh) -> ValueSpec:
    """The sharding of a mutable array; one that is not on the program's devices will be replicated over these."""
    found = spec_of_array(ref, mesh)
    return found if found.sharding is not None else ValueSpec(replicated(mesh.mesh, ref.ndim), found.memory_kind)


def _same_devices(given: Any, program: DeviceMesh) -> Mesh:
    """The array's mesh if it has the program's devices and other axes, else the program's mesh."""
    axes = tuple(given.shape.items())
    if axes != program.mesh.axes and isinstance(given, jax.sharding.Mesh):
        devices = program.devices if program.devices is not None else tuple(jax.devices()[: program.mesh.size])
        if tuple(given.devices.flat) == devices:
            return Mesh(axes, name="")
    return program.mesh


def check_devices(leaf: Any, path: str, program: DeviceMesh, may_be_moved: bool) -> None:
    """Raise WrongSharding for an array that was put on other devices than the program's.

    An array on one device, or on some of the program's, `may_be_moved` if the user gave gspmd the mesh.
    """
    if not is_array(leaf) or not leaf.committed or not program.is_here():
        return
    lies, runs = leaf.sharding.device_set, {*program.here()}
    if not (len(lies) == 1 or lies <= runs if may_be_moved else lies == runs):
        others = sorted(device.id for device in lies)
        own = sorted(device.id for device in runs)
        raise WrongSharding(
            f"argument {path} is on devices {others}, but the function runs on devices {own}: "
            "Received incompatible devices for jitted computation",
            hint="put it on these by jax.device_put"
            + ("; with mesh=, gspmd.jit does so" if lies <= runs else ", or leave the mesh out"),
            code=Code.DEVICE_COUNT,
        )


def shardings(given: Sequence[ValueSpec]) -> list[TensorSharding | None]:
    """The shardings in specifications."""
    return [wanted.sharding for wanted in given]


__all__ = [
    "NO_SPEC",
    "ValueSpec",
    "ValueSpecs",
    "check_devices",
    "check_specs",
    "given_shardings",
    "left_open",
    "named_shardings",
    "shardings",
    "spec_of_array",
    "spec_of_ref",
    "specs_in",
    "usual_memory",
    "with_shardings",
    "without_hlo",
]
