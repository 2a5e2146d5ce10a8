"""Attributes and meshes of the `sdy` dialect, each converted once."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.axes import Axes
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ParseError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import (
    AxisMove,
    parse_axes,
    parse_axis_lists,
    parse_axis_moves,
    parse_mesh,
    parse_names,
    parse_sharding,
    print_axes,
    print_axis_lists,
    print_axis_moves,
    print_mesh,
    print_names,
    print_sharding,
)
from gspmd.dialect.rule import OpShardingRule, print_rule
from gspmd.dialect.sharding import TensorSharding

MESH: str = sdy.MeshOp.OPERATION_NAME
_AXES, _AXIS_LISTS, _AXIS_MOVES = "axis_ref_list", "list_of_axis_ref_lists", "all_to_all_param_list"
_MANUAL_AXES = "manual_axes"


class SdyCodec:
    """Reads and writes the sharding attributes of a module with known meshes."""

    def __init__(self, context: ir.Context, meshes: dict[str, Mesh]) -> None:
        self.context = context
        self.meshes = meshes
        self._read: dict[ir.Attribute, TensorSharding] = {}
        self._read_lists: dict[ir.Attribute, tuple[TensorSharding, ...]] = {}
        self._written: dict[TensorSharding, ir.Attribute] = {}
        self._written_lists: dict[tuple[TensorSharding, ...], ir.Attribute] = {}

    def read(self, attribute: ir.Attribute) -> TensorSharding:
        """A `#sdy.sharding`. Raises ParseError or AnnotationError."""
        found = self._read.get(attribute)
        if found is None:
            found = self._read[attribute] = parse_sharding(str(attribute), self.meshes)
        return found

    def read_list(self, attribute: ir.Attribute) -> tuple[TensorSharding, ...]:
        """A `#sdy.sharding_per_value`, one entry per result."""
        found = self._read_lists.get(attribute)
        if found is None:
            parts = sdy.TensorShardingPerValueAttr(attribute).shardings
            found = self._read_lists[attribute] = tuple(self.read(part) for part in parts)
        return found

    def write(self, sharding: TensorSharding) -> ir.Attribute:
        """The attribute of a value."""
        found = self._written.get(sharding)
        if found is None:
            found = self._written[sharding] = write_sharding(sharding, self.context)
        return found

    def write_list(self, shardings: tuple[TensorSharding, ...]) -> ir.Attribute:
        """The attribute for the results of an operation."""
        found = self._written_lists.get(shardings)
        if found is None:
            text = f"#sdy.sharding_per_value<[{', '.join(map(print_sharding, shardings))}]>"
            found = self._written_lists[shardings] = ir.Attribute.parse(text, self.context)
        return found


# ---- shardings and rules --------------------------------------------------------------------------


def write_sharding(sharding: TensorSharding, context: ir.Context) -> ir.Attribute:
    """`#sdy.sharding<@mesh, [{"x"}, {}]>`."""
    return ir.Attribute.parse(f"#sdy.sharding{print_sharding(sharding)}", context)


def write_rule(rule: OpShardingRule, context: ir.Context) -> ir.Attribute:
    """The rule of a custom call, which `parse_rule` reads: `#sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>`.

    Shardy refuses factors of size 1 in compound dimensions, so they are left out.
    """
    return ir.Attribute.parse(f"#sdy.op_sharding_rule<{print_rule(rule.without_units(), custom=True)}>", context)


# ---- meshes ---------------------------------------------------------------------------------------


def write_mesh(mesh: Mesh, context: ir.Context) -> ir.Attribute:
    """`#sdy.mesh<["x"=2, "y"=4]>`."""
    return ir.Attribute.parse(f"#sdy.mesh{print_mesh(mesh)}", context)


def read_mesh(attribute: ir.Attribute, name: str) -> Mesh:
    """The mesh, with its name in the module. Raises ParseError or AnnotationError."""
    return _parsed_mesh(str(attribute), name)


@functools.lru_cache(maxsize=256)
def _parsed_mesh(text: str, name: str) -> Mesh:
    return parse_mesh(text, name)


# ---- axes -----------------------------------------------------------------------------------------


def write_axes(axes: Axes, mesh: Mesh, context: ir.Context) -> ir.Attribute:
    """`#sdy<axis_ref_list{"x", "y":(1)2}>`."""
    return ir.Attribute.parse(f"#sdy<{_AXES}{{{print_axes(axes, mesh)}}}>", context)


def read_axes(attribute: ir.Attribute, mesh: Mesh) -> Axes:
    return parse_axes(_inside(attribute, _AXES), mesh)


def write_axis_lists(lists: Iterable[Axes], mesh: Mesh, context: ir.Context) -> ir.Attribute:
    """`#sdy<list_of_axis_ref_lists[{"x"}, {}]>`, one list per dimension."""
    return ir.Attribute.parse(f"#sdy<{_AXIS_LISTS}{print_axis_lists(lists, mesh)}>", context)


def read_axis_lists(attribute: ir.Attribute, mesh: Mesh) -> tuple[Axes, ...]:
    return parse_axis_lists(_inside(attribute, _AXIS_LISTS), mesh)


def write_axis_moves(moves: Iterable[AxisMove], mesh: Mesh, context: ir.Context) -> ir.Attribute:
    """`#sdy<all_to_all_param_list[{"x"}: 0->1]>`."""
    return ir.Attribute.parse(f"#sdy<{_AXIS_MOVES}{print_axis_moves(moves, mesh)}>", context)


def read_axis_moves(attribute: ir.Attribute, mesh: Mesh) -> tuple[AxisMove, ...]:
    return parse_axis_moves(_inside(attribute, _AXIS_MOVES), mesh)


def write_manual_axes(names: Iterable[str], context: ir.Context) -> ir.Attribute:
    """`#sdy<manual_axes{"x", "y"}>`, of axes by name."""
    return ir.Attribute.parse(f"#sdy<{_MANUAL_AXES}{print_names(names)}>", context)


def read_manual_axes(attribute: ir.Attribute) -> tuple[str, ...]:
    return parse_names(_inside(attribute, _MANUAL_AXES))


def _inside(attribute: ir.Attribute, word: str) -> str:
    """The text after the word in `#sdy<word..>`. Raises ParseError for another attribute."""
    text, begin = str(attribute), f"#sdy<{word}"
    if not text.startswith(begin):
        raise ParseError(f"expected '{begin}..>', found '{text[:200]}'", code=Code.SHARDING_TEXT)
    return text[len(begin) : -1]
