"""The attributes of a collective: its axes and its cause."""

from __future__ import annotations

from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_bare_axes, print_axes
from gspmd.dialect.own_attributes import AXES, CAUSE
from gspmd.transforms.ir.operations import Attribute
from gspmd.transforms.parsing.attribute_text import required_text

RETURNED = "the program returns result "
"""The prefix of the cause of communication for a result of `@main`, before the result number."""


def notes(axes: Axes, mesh: Mesh, cause: str, context: ir.Context) -> dict[str, ir.Attribute]:
    """The attributes for axes and cause."""
    return {
        AXES: ir.StringAttr.get(print_axes(axes, mesh), context),
        CAUSE: ir.StringAttr.get(cause, context),
    }


def axes_of(attributes: Mapping[str, Attribute], mesh: Mesh) -> Axes | None:
    """The axes of a collective with these attributes, or None.

    Errors: AnnotationError and ParseError for an attribute that is not a list of axes of the mesh.
    """
    return parse_bare_axes(required_text(attributes, AXES), mesh) if AXES in attributes else None
