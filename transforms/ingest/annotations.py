"""Reading annotations: the notations of all frameworks become `TensorSharding` and `HloAnnotation`.

The notations are `sdy.sharding` attributes, the same text in `xla.sdy.*` frontend attributes, and `mhlo.sharding`
strings, on the operation or in its nested `mhlo.attributes`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.common_mesh import repeated
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.hlo_notation import parse_hlo_sharding, parse_open_dims
from gspmd.dialect.hlo_sharding import HloSharding, Maximal, TupleOf
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec, read_mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ingest.survey import CARRIERS, Survey
from gspmd.transforms.ir.callbacks import is_callback
from gspmd.transforms.ir.modules import codec_of, context_of, mesh_operations, symbol
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.parsing.attribute_text import Attributes, as_dictionary, parse_attribute, text_of
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.parsing.mlir import located

FRONTEND = "mhlo.frontend_attributes"
NESTED = "mhlo.attributes"
PREFIX = "xla.sdy."
_KNOWN_FRONTEND = {
    f"{PREFIX}{name}"
    for name in (
        "sharding",
        "meshes",
        "in_shardings",
        "out_shardings",
        "manual_axes",
        "sharding_rule",
        "sharding_group_id",
        "allowed_direction",
        "has_unreduced_axes",
    )
}
_SAYING = (*CARRIERS, "backend_config")


@dataclasses.dataclass(frozen=True, slots=True)
class HloAnnotation:
    """An `mhlo.sharding`, and the dimensions that it leaves open."""

    sharding: HloSharding
    open_dims: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OpAnnotation:
    """What is written about the values of one operation, or about one argument or result.

    `sdy` has one sharding a value; `hlo` one for all or a tuple of them. At least one is given. `Annotations`
    makes one object of what is written alike, so that objects are compared and not their content.
    """

    sdy: tuple[TensorSharding, ...] | None
    hlo: HloAnnotation | None

    def devices(self) -> tuple[int, ...]:
        """The devices to which annotations assign values that are on one device only."""
        body = None if self.hlo is None else self.hlo.sharding.body
        leaves = [leaf.body for leaf in body.leaves] if isinstance(body, TupleOf) else [body]
        by_sdy = [sharding.mesh.device_ids[0] for sharding in self.sdy or () if sharding.mesh.is_maximal]
        return tuple(dict.fromkeys([*by_sdy, *(leaf.device for leaf in leaves if isinstance(leaf, Maximal))]))


class Annotations:
    """Parses the annotations of a module; equal ones are parsed once.

    `is_round_trip` says that the module went through HLO with its `sdy` annotations as frontend attributes,
    so that its `mhlo.sharding` only repeat them.
    """

    def __init__(self, module: Operation, num_devices: int | None = None, base: Mesh | None = None) -> None:
        """`num_devices` is the number of devices of every `mhlo.sharding`; None takes that of the first one.

        `base` is a mesh of all devices of the program; with it, smaller meshes are read as repeated over it.
        """
        self.context = context_of(module)
        self.num_devices = num_devices
        self._base = base
        self._repeated: dict[Mesh, Mesh] = {}
        self._written_as: dict[Mesh, Mesh] = {}
        self.reader: Operation | None = None  # the operation being read
        self.hlo_reader: Operation | None = None  # the first operation with an `mhlo.sharding` that lists devices
        self.mesh_ops = {symbol(op): op for op in mesh_operations(module)}
        for name, op in self.mesh_ops.items():
            with located(op):
                read_mesh(op.attributes["mesh"], name).check_devices()
        self._written = codec_of(module)
        carried = frontend(module.attributes).get(f"{PREFIX}meshes")
        self.is_round_trip = carried is not None
        meshes = dict(self._written.meshes)
        if carried is not None:
            meshes.update(_carried_meshes(carried, self.context))
        self._carried = SdyCodec(self.context, meshes)
        self._texts: dict[str, tuple[TensorSharding, ...]] = {}
        self._hlo: dict[tuple[str, str], HloAnnotation] = {}
        self._said: dict[tuple[ir.Attribute | None, ...], OpAnnotation | None] = {}
        self.shardings: set[TensorSharding] = set()

    @property
    def meshes(self) -> list[Mesh]:
        """The named meshes of the module."""
        return [self._repeated.get(mesh, mesh) for mesh in self._carried.meshes.values()]

    def written_as(self, mesh: Mesh) -> Mesh | None:
        """The smaller mesh in the source that was read as `mesh`; None if it has all devices."""
        return self._written_as.get(mesh)

    def hlo_shardings(self) -> Iterator[HloSharding]:
        """Every `mhlo.sharding` read so far, tuples as their leaves."""
        for annotation in self._hlo.values():
            body = annotation.sharding.body
            yield from body.leaves if isinstance(body, TupleOf) else [annotation.sharding]

    @property
    def has_fewer(self) -> bool:
        """Whether the source has a mesh of fewer devices than the program."""
        return bool(self._written_as)

    def of(self, attributes: Attributes) -> OpAnnotation | None:
        """The annotation in the attributes of an operation, argument or result, if there is one."""
        key = tuple(given(attributes, name) for name in _SAYING)
        if key not in self._said:
            self._said[key] = self._of(attributes)
        return self._said[key]

    def _of(self, attributes: Attributes) -> OpAnnotation | None:
        written = self.attribute(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else None
        carried = self.carried(attributes, "sharding")
        if written is not None and carried is not None and written != carried:
            raise AnnotationError(
                "'sdy.sharding' and 'xla.sdy.sharding' contradict each other", hint="keep one", code=Code.CONTRADICTION
            )
        hlo = self._hlo_annotation(attributes)
        shardings = carried if written is None else written
        return None if shardings is None and hlo is None else OpAnnotation(shardings, hlo)

    def attribute(self, attribute: ir.Attribute) -> tuple[TensorSharding, ...]:
        """The shardings of a `#sdy.sharding` or `#sdy.sharding_per_value`."""
        return self._read(attribute, self._written)

    def carried(self, attributes: Attributes, key: str) -> tuple[TensorSharding, ...] | None:
        """The shardings in the frontend attribute `xla.sdy.<key>`."""
        text = frontend(attributes).get(f"{PREFIX}{key}")
        if text is None:
            return None
        if text not in self._texts:
            self._texts[text] = self._read(parse_carried(text, self.context), self._carried)
        return self._texts[text]

    def _read(self, attribute: ir.Attribute, codec: SdyCodec) -> tuple[TensorSharding, ...]:
        is_list = sdy.TensorShardingPerValueAttr.isinstance(attribute)
        shardings = codec.read_list(attribute) if is_list else (codec.read(attribute),)
        if self._base is not None:
            shardings = tuple(self._over_all(sharding, self._base) for sharding in shardings)
        self.shardings.update(shardings)
        return shardings

    def _over_all(self, sharding: TensorSharding, base: Mesh) -> TensorSharding:
        """The sharding on the mesh of all devices; shardings on smaller meshes are repeated."""
        mesh = sharding.mesh
        if mesh.size in (1, base.size):
            return sharding
        if mesh not in self._repeated:
            found = self._repeated[mesh] = repeated(mesh, base)
            self._written_as[found] = mesh
            if self.reader is not None:
                remark(
                    self.reader,
                    f"uses a mesh of {mesh.size} devices in a program of {base.size}; "
                    f"each {mesh.size} of them do the same",
                )
        return dataclasses.replace(sharding, mesh=self._repeated[mesh])

    def _hlo_annotation(self, attributes: Attributes) -> HloAnnotation | None:
        holder = attributes
        if "mhlo.sharding" not in holder:
            if NESTED not in attributes or not isinstance(attributes[NESTED], ir.DictAttr):
                return None
            if "mhlo.sharding" not in attributes[NESTED]:
                return None
            holder = attributes[NESTED]
        if not isinstance(holder["mhlo.sharding"], ir.StringAttr):
            raise AnnotationError(
                f"'mhlo.sharding' is {holder['mhlo.sharding']}, expected a string", hint='write it as "{replicated}"'
            )
        key = (
            text_of(holder["mhlo.sharding"]),
            text_of(given(attributes, "backend_config")),
        )
        if key not in self._hlo:
            dims = parse_open_dims(key[1])
            sharding = parse_hlo_sharding(key[0])
            self._check_devices(sharding)
            self._hlo[key] = HloAnnotation(sharding, dims)
        return self._hlo[key]

    def _check_devices(self, sharding: HloSharding) -> None:
        for leaf in sharding.body.leaves if isinstance(sharding.body, TupleOf) else [sharding]:
            count = leaf.num_devices()
            if count is not None and self.num_devices is not None and count != self.num_devices:
                raise AnnotationError(
                    f"'mhlo.sharding' is of {count} devices but the program is for {self.num_devices}",
                    hint="make it agree with 'mhlo.num_partitions' and the other annotations",
                    code=Code.DEVICE_COUNT,
                )
            if count is not None and self.hlo_reader is None:
                self.hlo_reader = self.reader
            self.num_devices = self.num_devices or count


def read_annotations(module: Operation, found: Survey, num_devices: int | None) -> Annotations:
    """Read all annotations of the program; the choice of the mesh needs them all.

    Meshes of fewer devices than the program has are read as repeated over all. `num_devices` is the known number of
    devices. Errors are located.
    """
    annotations = Annotations(module, num_devices)
    _collect(annotations, found)
    used = [sharding.mesh for sharding in annotations.shardings if sharding.mesh.size > 1]
    count = max([annotations.num_devices or 1, *(mesh.size for mesh in used)])
    if all(mesh.size == count for mesh in used):
        return annotations
    named = [mesh for mesh in annotations.meshes if mesh in used and mesh.size == count]
    base = next(iter([*named, *sorted((m for m in used if m.size == count), key=repr)]), Mesh((("devices", count),)))
    annotations = Annotations(module, annotations.num_devices, base)
    _collect(annotations, found)
    return annotations


def _collect(annotations: Annotations, found: Survey) -> None:
    for function in found.functions:
        annotations.reader = function
        with located(function):
            for name, kind in (("arg_attrs", "argument"), ("res_attrs", "result")):
                for index, attributes in enumerate(given(function.attributes, name) or ()):
                    _remark_on(function, f"{kind} {index}", annotations.of(attributes))
    for op in found.every():
        annotations.reader = op
        with located(op):
            attributes = op.attributes
            said = [annotations.of(attributes)]
            for key in ("in_shardings", "out_shardings"):
                annotations.carried(attributes, key)
            if op.name.startswith("sdy."):
                keys = [key for key in ("sharding", "in_shardings", "out_shardings") if key in attributes]
                said += [OpAnnotation(annotations.attribute(attributes[key]), None) for key in keys]
            if not is_callback(op):
                for one in said:
                    _remark_on(op, "a value", one)


def _remark_on(op: Operation, what: str, said: OpAnnotation | None) -> None:
    """Emit the remark that a value annotated on one device gets a copy on every device."""
    for device in () if said is None else said.devices()[:1]:
        remark(op, f"asks for {what} on device {device} alone; every device holds a copy of it")


def called_by(op: Operation) -> list[str]:
    """The functions to which a custom call refers."""
    attributes = op.attributes
    return (
        [str(name.value) for name in attributes["called_computations"]] if "called_computations" in attributes else []
    )


def given(attributes: Attributes, name: str) -> ir.Attribute | None:
    """The attribute of that name, or None; the `get` of a dictionary attribute differs."""
    return attributes[name] if name in attributes else None  # noqa: SIM401


def entries_of(attributes: Attributes) -> dict[str, ir.Attribute]:
    """The attributes of an operation, or of a dictionary attribute, by name."""
    if isinstance(attributes, ir.DictAttr):
        return as_dictionary(attributes)
    return dict(attributes.items())


def frontend(attributes: Attributes) -> dict[str, str]:
    """XLA's frontend attributes, as text by name. Raises Unsupported for an unknown one with the prefix `xla.sdy.`."""
    if FRONTEND not in attributes:
        return {}
    if not isinstance(attributes[FRONTEND], ir.DictAttr):
        raise AnnotationError(f"'{FRONTEND}' is {attributes[FRONTEND]}, expected a dictionary")
    entries = {name: text_of(value) for name, value in entries_of(attributes[FRONTEND]).items()}
    for name in entries:
        if name.startswith(PREFIX) and name not in _KNOWN_FRONTEND:
            raise Unsupported(
                f"unknown frontend attribute '{name}'",
                hint="export the program as StableHLO with 'sdy'",
                code=Code.MARKER,
            )
    return entries


def _carried_meshes(text: str, context: ir.Context) -> dict[str, Mesh]:
    entries = parse_carried(text, context)
    if not isinstance(entries, ir.DictAttr):
        raise AnnotationError(f"frontend attribute '{PREFIX}meshes' is '{text}'; expected a dictionary of meshes")
    return {name: read_mesh(mesh, name) for name, mesh in entries_of(entries).items()}


def parse_carried(text: str, context: ir.Context) -> ir.Attribute:
    """Parse an attribute from text. Raises AnnotationError for invalid text."""
    return parse_attribute(text, context, "frontend attribute")


def stripped(attributes: Attributes) -> dict[str, ir.Attribute]:
    """The attributes of a dictionary without the annotations."""
    kept = entries_of(attributes)
    for name in ("sdy.sharding", "mhlo.sharding"):
        kept.pop(name, None)
    for name in (FRONTEND, NESTED):
        if name in kept:
            entries = entries_of(kept[name])
            rest = {key: value for key, value in entries.items() if key != "mhlo.sharding" and PREFIX not in key}
            if not rest:
                del kept[name]
            elif len(rest) < len(entries):
                kept[name] = ir.DictAttr.get(rest)
    return kept


def strip(op: Operation) -> None:
    """Remove all annotations from an operation."""
    attributes = op.attributes
    written = {name: attributes[name] for name in CARRIERS if name in attributes}
    if not written:
        return
    kept = stripped(ir.DictAttr.get(written))
    for name, value in written.items():
        if name not in kept:
            del attributes[name]
        elif kept[name] != value:
            attributes[name] = kept[name]
