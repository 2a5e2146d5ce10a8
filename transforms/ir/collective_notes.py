"""What a collective says of itself: the axes that it runs over, and why it is there."""

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
"""How the cause of what is done for a result of `@main` begins; the number of the result follows."""


def notes(axes: Axes, mesh: Mesh, cause: str, context: ir.Context) -> dict[str, ir.Attribute]:
    """The attributes that say so."""
    return {
        AXES: ir.StringAttr.get(print_axes(axes, mesh), context),
        CAUSE: ir.StringAttr.get(cause, context),
    }


def axes_of(attributes: Mapping[str, Attribute], mesh: Mesh) -> Axes | None:
    """The axes that a collective with these attributes runs over, None if it does not say.

    Errors: AnnotationError and ParseError for an attribute that is no list of axes of the mesh.
    """
    return parse_bare_axes(required_text(attributes, AXES), mesh) if AXES in attributes else None
