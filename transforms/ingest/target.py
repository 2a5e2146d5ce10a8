"""The mesh of an ingested module, and annotations expressed on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.common_mesh import order_of, translated, unify_meshes
from gspmd.dialect.device_order import DeviceOrder
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, OrdersDiffer, Unsupported
from gspmd.dialect.hlo_convert import common_mesh, to_hlo_sharding, to_tensor_sharding
from gspmd.dialect.hlo_sharding import HloSharding, Maximal, Role, Whole
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.orders import Orders, has_whole_axes
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import DimSharding, TensorSharding, replicated, unknown
from gspmd.transforms.ingest.annotations import Annotations, HloAnnotation, OpAnnotation
from gspmd.transforms.ingest.orders import order_written, several_orders
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

_MAXIMAL_HINT = "let every device hold a copy ('replicated') instead"


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """The number of devices by `mhlo.num_partitions` of the module and by the option of the pass.

    Frameworks also write 1 where the number is unknown, so a 1 of the module contradicts neither an option nor a mesh.
    """

    module: int | None
    option: int | None

    @property
    def said(self) -> int | None:
        """The number of devices of every mesh and sharding, or None if unknown."""
        return self.module if self.module not in (None, 1) else self.option

    @property
    def wanted(self) -> int:
        """The number of devices for a program without a mesh.

        Raises AnnotationError if the module and the option disagree.
        """
        if self.option and self.module and self.module not in (1, self.option):
            raise AnnotationError(
                f"option num-partitions is {self.option} but 'mhlo.num_partitions' is {self.module}",
                hint="make them agree",
                code=Code.DEVICE_COUNT,
            )
        return self.option or self.module or 1

    def check(self, mesh: Mesh) -> None:
        """Raise AnnotationError if the mesh has another number of devices."""
        module = None if self.module == 1 else self.module
        for name, count in (("'mhlo.num_partitions'", module), ("option num-partitions", self.option)):
            if count is not None and count != mesh.size:
                raise AnnotationError(
                    f'mesh "@{mesh.name}" has {mesh.size} devices but {name} is {count}',
                    hint="make them agree",
                    code=Code.DEVICE_COUNT,
                )


class TargetMesh:
    """Expresses annotations on the mesh of the ingested module.

    `mesh` has no axes of size 1. `has_manual` says that the module has manual computations, inside which HLO shardings
    repeat the manual axes. `orders` is set if annotations use device orders that do not factor over one mesh, or that
    cut axes of `manual_meshes`.
    """

    def __init__(
        self,
        annotations: Annotations,
        devices: Devices,
        main: Operation,
        has_manual: bool,
        manual_meshes: Collection[Mesh],
    ) -> None:
        self.annotations = annotations
        self.has_manual = has_manual
        self.orders: Orders | None = None
        try:
            self.mesh, self._translate = _choose(annotations, devices)
            differ = not all(has_whole_axes(self.mesh, mesh, order_of(self.mesh)) for mesh in manual_meshes)
        except OrdersDiffer:
            differ = True
        if differ:
            self.orders = several_orders(annotations, main, manual_meshes)
            self.mesh, self._translate = self.orders.mesh, self._renamed
            devices.check(self.mesh)
        self.mesh.check_devices()
        self._codec = SdyCodec(annotations.context, {self.mesh.name: self.mesh})
        self._translated: dict[TensorSharding, TensorSharding] = {}
        self._attributes: dict[tuple[ir.Attribute, TensorType], ir.Attribute | None] = {}
        self._resolved: dict[tuple[OpAnnotation, int, int, int], TensorSharding | None] = {}

    def sharding(self, sharding: TensorSharding) -> TensorSharding:
        """A sharding on any mesh of the module, expressed on this one."""
        found = self._translated.get(sharding)
        if found is None:
            if sharding.mesh.is_maximal:
                raise Unsupported(
                    "a maximal sharding (all on one device) of a manual computation",
                    hint=_MAXIMAL_HINT,
                )
            found = self._translated[sharding] = self._translate(sharding)
        return found

    def _renamed(self, sharding: TensorSharding) -> TensorSharding:
        """A sharding over another device order, expressed on this mesh."""
        assert self.orders is not None
        if sharding.mesh.size > 1:
            sharding = dataclasses.replace(sharding, mesh=self.orders.renamed_mesh(sharding.mesh))
        return translated(sharding, self.mesh)

    def order(self, said: OpAnnotation | None) -> DeviceOrder | None:
        """The device order of a boundary value; None if it has none, or the default."""
        return None if self.orders is None or said is None else order_written(self.orders, said)

    def axes(self, sharding_mesh: Mesh, names: Sequence[str]) -> tuple[str, ...]:
        """The whole axes of this mesh that named axes of another stand for. Raises Unsupported for parts of axes."""
        source = tuple(sharding_mesh.axis(name) for name in names)
        carrier = TensorSharding(sharding_mesh, (DimSharding(source),))
        return self.names(self.sharding(carrier).dims[0].axes)

    def names(self, axes: Axes) -> tuple[str, ...]:
        """The names of whole axes. Raises Unsupported for parts of axes."""
        for axis in axes:
            if not self.mesh.is_full(axis):
                raise Unsupported(
                    f'manual computation over a part of axis "{axis.name}" of size {self.mesh.axis_size(axis.name)}',
                    hint="use one mesh for the whole program",
                    code=Code.MANUAL,
                )
        return tuple(axis.name for axis in axes)

    def resolve(self, said: OpAnnotation, index: int, types: Sequence[TensorType]) -> TensorSharding | None:
        """The annotated sharding of value `index` of those with these types, or None.

        Values annotated as unreduced are summed before users that need the sum, as are all partial values.

        Errors: AnnotationError for ranks that do not fit and for two annotations that contradict each other;
        Unsupported for manual shardings outside manual computations.
        """
        type_ = types[index]
        rank = type_.rank
        key = (said, index, len(types), rank)
        if key not in self._resolved:
            self._resolved[key] = self._resolve(said, index, len(types), rank)
        found = self._resolved[key]
        return dataclasses.replace(found, unreduced=()) if found is not None and found.unreduced else found

    def unreduced(self, said: OpAnnotation, type_: TensorType) -> Axes:
        """The axes over which a value is annotated as partial."""
        self.resolve(said, 0, [type_])
        rank = type_.rank
        found = self._resolved[said, 0, 1, rank]
        return () if found is None else found.unreduced

    def _resolve(self, said: OpAnnotation, index: int, count: int, rank: int) -> TensorSharding | None:
        written = None
        if said.sdy is not None:
            if len(said.sdy) != count:
                raise AnnotationError(
                    f"{len(said.sdy)} shardings for {count} values; give one for each", code=Code.RANK
                )
            given = said.sdy[index]
            device = given.mesh.device_ids[0] if given.mesh.is_maximal else None
            written = self.sharding(given) if device is None else self._copied(Maximal(device), rank)
            written.check_rank(rank)
        from_hlo = self.hlo(said.hlo, index, count, rank) if said.hlo is not None else None
        if written is not None and from_hlo is not None and not self._agree(said, index, written, from_hlo):
            raise AnnotationError(
                f"two annotations that contradict each other: {print_dims(written)} by 'sdy' but "
                f"{print_dims(from_hlo)} by 'mhlo.sharding'",
                hint="keep one",
                code=Code.CONTRADICTION,
            )
        return self._local(written if written is not None else from_hlo)

    def _agree(self, said: OpAnnotation, index: int, written: TensorSharding, from_hlo: TensorSharding) -> bool:
        """Whether two annotations split the value in the same way, whichever dimensions are open."""
        if self.orders is None or from_hlo.manual:
            return written.dim_axes() == from_hlo.dim_axes() and written.unreduced == from_hlo.unreduced
        assert said.sdy is not None
        assert said.hlo is not None
        given = said.sdy[index]
        if given.mesh.size == 1:
            return from_hlo.is_replicated()
        return to_hlo_sharding(given) == said.hlo.sharding.leaves(len(said.sdy))[index]

    def _local(self, sharding: TensorSharding | None) -> TensorSharding | None:
        """The sharding without manual axes; None if nothing is left."""
        if sharding is None:
            return None
        if sharding.manual:
            if not self.has_manual:
                raise Unsupported(
                    "a manual sharding outside manual computations: the program is already partitioned",
                    code=Code.MANUAL,
                )
            if sharding.manual == self.mesh.all_axes():
                return None
            sharding = dataclasses.replace(sharding, manual=())
        says_nothing = all(dim.is_open and not dim.axes for dim in sharding.dims)
        return None if says_nothing and not sharding.replicated and not sharding.unreduced else sharding

    def hlo(self, annotation: HloAnnotation, index: int, count: int, rank: int) -> TensorSharding | None:
        """The part of an `mhlo.sharding` for one of several values, manual axes included."""
        leaf = annotation.sharding.leaves(count)[index]
        if isinstance(leaf.body, Maximal):
            return self._copied(leaf.body, rank)
        if leaf.body == Whole(Role.UNKNOWN):
            return None
        leaf.check(rank, self.mesh.size)
        if self.orders is not None:
            leaf = self.orders.renamed(leaf)
        return to_tensor_sharding(leaf, rank, self.mesh, annotation.open_dims)

    def _copied(self, maximal: Maximal, rank: int) -> TensorSharding:
        """The sharding for a value on one device: a copy on every device. Checks that the device exists."""
        HloSharding(maximal).check(rank, self.mesh.size)
        return replicated(self.mesh, rank)

    def device(self, said: OpAnnotation) -> int | None:
        """The device to which an operation is assigned, or None.

        Errors: AnnotationError for an unknown device, and for several.
        """
        devices = said.devices()
        for device in devices:
            HloSharding(Maximal(device)).check(0, self.mesh.size)
        if len(devices) > 1:
            raise AnnotationError(
                f"is said to run on devices {' and '.join(map(str, devices))}",
                hint="give all its values the same one",
                code=Code.HOST,
            )
        return devices[0] if devices else None

    def attribute(self, attribute: ir.Attribute, type_: TensorType) -> ir.Attribute | None:
        """A `#sdy.sharding` of the module, expressed on this mesh; None if it has no effect."""
        key = (attribute, type_)
        if key not in self._attributes:
            said = OpAnnotation(self.annotations.attribute(attribute), None)
            self._attributes[key] = self.attributes_of(said, [type_])[0]
        return self._attributes[key]

    def attributes_of(self, said: OpAnnotation, types: Sequence[TensorType]) -> list[ir.Attribute | None]:
        """The `#sdy.sharding` of every annotated value."""
        resolved = [self.resolve(said, index, types) for index in range(len(types))]
        return [None if sharding is None else self._codec.write(sharding) for sharding in resolved]

    def list_of(self, said: OpAnnotation, types: Sequence[TensorType]) -> ir.Attribute | None:
        """The `#sdy.sharding_per_value` of the results of an operation; None without annotations."""
        resolved = [self.resolve(said, index, types) for index in range(len(types))]
        if all(sharding is None for sharding in resolved):
            return None
        ranks = [type_.rank for type_ in types]
        return self.write_list(
            unknown(self.mesh, rank) if sharding is None else sharding
            for sharding, rank in zip(resolved, ranks, strict=True)
        )

    def write(self, sharding: TensorSharding) -> ir.Attribute:
        attribute: ir.Attribute = self._codec.write(sharding)
        return attribute

    def read_list(self, attribute: ir.Attribute) -> tuple[TensorSharding, ...]:
        return self._codec.read_list(attribute)

    def write_list(self, shardings: Iterable[TensorSharding]) -> ir.Attribute:
        attribute: ir.Attribute = self._codec.write_list(tuple(shardings))
        return attribute


def _choose(annotations: Annotations, devices: Devices) -> tuple[Mesh, Callable[[TensorSharding], TensorSharding]]:
    """The mesh for all annotations, with the means to express shardings on it.

    Errors: AnnotationError if meshes, shardings and `devices` disagree on the number of devices; Unsupported if there
    is no common mesh.
    """
    used = {sharding.mesh for sharding in annotations.shardings if sharding.mesh.axes}
    named = [mesh for mesh in annotations.meshes if mesh.axes]
    candidates = [mesh for mesh in named if mesh in used] or named
    candidates += sorted(used.difference(candidates), key=repr)
    hlo = list(dict.fromkeys(annotations.hlo_shardings()))
    if any(sharding.num_devices() is not None for sharding in hlo):
        count = annotations.num_devices or 1
        if candidates and candidates[0].size != count:
            assert annotations.hlo_reader is not None, "it names devices"
            with located(annotations.hlo_reader):
                raise AnnotationError(
                    f"'mhlo.sharding' is of {count} devices in a program of {candidates[0].size}",
                    hint="use all devices",
                    code=Code.DEVICE_COUNT,
                )
        candidates.append(common_mesh(hlo, count))
    if not candidates:
        wanted = devices.wanted
        made = Mesh((("devices", wanted),) if wanted > 1 else ())
        return made, lambda sharding: dataclasses.replace(sharding, mesh=made)
    for mesh in candidates:
        with located(annotations.mesh_ops[mesh.name]) if mesh.name in annotations.mesh_ops else nullcontext():
            devices.check(mesh)
    mesh, translate = unify_meshes(candidates)
    name = next((candidate.name for candidate in candidates if candidate.name), "mesh")
    target = dataclasses.replace(mesh, name=name)
    if mesh.name == name:
        return target, translate
    return target, lambda sharding: dataclasses.replace(translate(sharding), mesh=target)
