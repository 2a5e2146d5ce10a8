"""Reading annotations: every way of writing how a value is split becomes a value of ours.

The ways are `sdy.sharding` attributes, the same as text in `xla.sdy.*` frontend attributes, and
`mhlo.sharding` strings, on the operation or in its nested `mhlo.attributes`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.hlo_sharding import HloSharding
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, parse_sharding
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ingest.survey import ANNOTATIONS
from gspmd.transforms.support.mlir import located

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
_UNSPECIFIED = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")


@dataclasses.dataclass(frozen=True, slots=True)
class HloAnnotation:
    """An `mhlo.sharding`, and the dimensions that propagation may still split."""

    sharding: HloSharding
    open_dims: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What is written about the values of one operation, or about one argument or result.

    `sdy` has one sharding a value; `hlo` one for all or a tuple of them. At least one is given.
    """

    sdy: tuple[TensorSharding, ...] | None
    hlo: HloAnnotation | None


class Annotations:
    """Reads the annotations of one module, each distinct one once.

    `meshes` are the module's by symbol; `is_round_trip` tells that the module went through HLO with its
    `sdy` annotations as frontend attributes, so that its `mhlo.sharding` are only their shadows.
    """

    def __init__(self, module: ir.Module) -> None:
        self.meshes: dict[str, Mesh] = {}
        for view in module.body:
            op = view.operation
            if op.name == "sdy.mesh":
                name = ir.StringAttr(op.attributes["sym_name"]).value
                with located(op):
                    self.meshes[name] = parse_mesh(str(op.attributes["mesh"]), name)
        carried = frontend(module.operation.attributes).get(f"{PREFIX}meshes")
        self.is_round_trip = carried is not None
        self._carried = dict(self.meshes)
        if carried is not None:
            entries = entries_of(ir.DictAttr(parse_carried(carried, module.context)))
            self._carried.update({name: parse_mesh(str(mesh), name) for name, mesh in entries.items()})
        self._tensors: dict[ir.Attribute, TensorSharding] = {}
        self._texts: dict[str, tuple[TensorSharding, ...]] = {}
        self._hlo: dict[tuple[str, str], HloAnnotation] = {}

    def declared(self) -> list[Mesh]:
        """Every mesh the module gives a name."""
        return list({mesh.name: mesh for mesh in (*self.meshes.values(), *self._carried.values())}.values())

    def shardings(self) -> Iterator[TensorSharding]:
        """All that was read so far and names a mesh."""
        yield from self._tensors.values()
        for shardings in self._texts.values():
            yield from shardings

    def hlo_shardings(self) -> Iterator[HloSharding]:
        """All that was read so far from `mhlo.sharding`, tuples as their leaves."""
        for annotation in self._hlo.values():
            body = annotation.sharding
            yield from body.body.leaves if body.is_tuple else [body]  # type: ignore[union-attr]

    def of(self, attributes: Any) -> Said | None:
        """What the attributes of an operation, argument or result say, if anything."""
        written = self.attribute(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else None
        carried = self.carried(attributes, "sharding")
        if written is not None and carried is not None and written != carried:
            raise AnnotationError("'sdy.sharding' and 'xla.sdy.sharding' contradict each other; keep one")
        hlo = self._hlo_annotation(attributes)
        sdy_said = written if written is not None else carried
        return None if sdy_said is None and hlo is None else Said(sdy_said, hlo)

    def attribute(self, attribute: ir.Attribute) -> tuple[TensorSharding, ...]:
        """A `#sdy.sharding`, or every one in a `#sdy.sharding_per_value`."""
        if isinstance(attribute, sdy.TensorShardingPerValueAttr):
            return tuple(self._tensor(each) for each in attribute.shardings)
        return (self._tensor(attribute),)

    def carried(self, attributes: Any, key: str) -> tuple[TensorSharding, ...] | None:
        """The shardings in the frontend attribute `xla.sdy.<key>`."""
        if FRONTEND not in attributes:
            return None
        text = frontend(attributes).get(f"{PREFIX}{key}")
        if text is None:
            return None
        if text not in self._texts:
            attribute = parse_carried(text, attributes[FRONTEND].context)
            each = attribute.shardings if isinstance(attribute, sdy.TensorShardingPerValueAttr) else [attribute]
            self._texts[text] = tuple(parse_sharding(str(one), self._carried) for one in each)
        return self._texts[text]

    def _tensor(self, attribute: ir.Attribute) -> TensorSharding:
        if attribute not in self._tensors:
            self._tensors[attribute] = parse_sharding(str(attribute), self.meshes)
        return self._tensors[attribute]

    def _hlo_annotation(self, attributes: Any) -> HloAnnotation | None:
        holder = attributes
        if "mhlo.sharding" not in holder:
            if NESTED not in attributes or "mhlo.sharding" not in attributes[NESTED]:
                return None
            holder = attributes[NESTED]
        key = (text_of(holder["mhlo.sharding"]), text_of(attributes.get("backend_config")))
        if key not in self._hlo:
            match = _UNSPECIFIED.search(key[1])
            dims = tuple(int(dim) for dim in match[1].split(",") if dim.strip()) if match else ()
            self._hlo[key] = HloAnnotation(parse_hlo_sharding(key[0]), dims)
        return self._hlo[key]


def text_of(attribute: ir.Attribute | None) -> str:
    """The content of a string attribute; empty for none and for other kinds."""
    return str(attribute.value) if isinstance(attribute, ir.StringAttr) else ""


def entries_of(attributes: Any) -> dict[str, ir.Attribute]:
    """The attributes of an operation, or of a dictionary attribute, by name."""
    if isinstance(attributes, ir.DictAttr):
        return {entry.name: entry.attr for entry in attributes}
    return dict(attributes.items())


def frontend(attributes: Any) -> dict[str, str]:
    """XLA's frontend attributes: names and texts. Raises Unsupported for an `xla.sdy.` one that is unknown."""
    if FRONTEND not in attributes:
        return {}
    entries = {name: text_of(value) for name, value in entries_of(attributes[FRONTEND]).items()}
    for name in entries:
        if name.startswith(PREFIX) and name not in _KNOWN_FRONTEND:
            raise Unsupported(f"unknown frontend attribute '{name}'", hint="export the program as StableHLO with 'sdy'")
    return entries


def parse_carried(text: str, context: ir.Context) -> ir.Attribute:
    """An attribute that was carried as text. Raises AnnotationError when it is none."""
    try:
        return ir.Attribute.parse(text, context)
    except ir.MLIRError as error:
        reason = error.error_diagnostics[0].message if error.error_diagnostics else "malformed"
        raise AnnotationError(f"frontend attribute '{text}' cannot be read: {reason}") from None


def stripped(attributes: Any) -> dict[str, ir.Attribute]:
    """The attributes of a dictionary without annotations in any form."""
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


def strip(op: Any) -> None:
    """Remove annotations in any form from an operation."""
    attributes = op.attributes
    written = {name: attributes[name] for name in ANNOTATIONS if name in attributes}
    kept = stripped(ir.DictAttr.get(written))
    for name, value in written.items():
        if name not in kept:
            del attributes[name]
        elif kept[name] != value:
            attributes[name] = kept[name]
