"""Text in attributes: what strings say, and attributes and types that are written as text in others.

Strings of MLIR are bytes. The bindings fail for those that are no UTF-8, and end the process where they are asked to
parse an empty text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, ParseError
from gspmd.dialect.limits import MAX_ATTRIBUTE_TEXT_BYTES
from gspmd.transforms.parsing.mlir import mlir_errors
from gspmd.transforms.parsing.nesting import check_nesting
from gspmd.transforms.parsing.suspicion import check_numbers

Attributes: TypeAlias = Mapping[str, ir.Attribute] | ir.DictAttr
"""The attributes of an operation, or a dictionary attribute; of the latter, walking gives entries and not names."""


def text_of(attribute: ir.Attribute | None) -> str:
    """The content of a string attribute, bytes that are no UTF-8 as `\\\\xFF`; empty for none and for other kinds."""
    if not isinstance(attribute, ir.StringAttr):
        return ""
    content: bytes = attribute.value_bytes
    return content.decode(errors="backslashreplace")


def as_dictionary(attribute: ir.DictAttr) -> dict[str, ir.Attribute]:
    """A dictionary attribute as a dictionary. Raises ParseError for a value that jaxlib's bindings cannot read.

    They end the process over it, as over constants of complex numbers, where it is reached through its entry.
    """
    found = {}
    for name in [entry.name for entry in attribute]:
        try:
            found[name] = attribute[name]
        except TypeError:
            raise ParseError(
                f"attribute '{name}' of an argument, of a result or in a dictionary is of a kind that jaxlib's "
                "bindings do not know",
                hint="leave it out, or write its content as a string",
            ) from None
    return found


def required_text(attributes: Attributes, name: str) -> str:
    """The content of an attribute that has to be a string. Raises AnnotationError if it is of another kind."""
    if not isinstance(attributes[name], ir.StringAttr):
        raise AnnotationError(f"'{name}' is {attributes[name]}, expected a string", hint="write it in quotes")
    return text_of(attributes[name])


@contextlib.contextmanager
def unheard(context: ir.Context) -> Iterator[None]:
    """Errors inside are for us alone: who listens gets what is raised of them."""
    emit = context.emit_error_diagnostics
    context.emit_error_diagnostics = False
    try:
        yield
    finally:
        context.emit_error_diagnostics = emit


def parse_attribute(text: str, context: ir.Context, name: str) -> ir.Attribute:
    """The attribute that a user wrote as the text of attribute `name`. Raises AnnotationError if it is none."""
    shown = text if len(text) <= 200 else f"{text[:200]}.."
    if not text.strip():
        raise AnnotationError(f"{name} is empty", hint="leave it out, or write what it is to be")
    if len(text) > MAX_ATTRIBUTE_TEXT_BYTES:
        raise AnnotationError(
            f"{name} has {len(text)} characters; at most {MAX_ATTRIBUTE_TEXT_BYTES} are read: '{shown}'",
            code=Code.LIMIT,
        )
    with unheard(context):  # the location of an error in the text would be of no use
        try:
            encoded = text.encode()
            check_nesting(encoded, name)
            check_numbers(encoded, name)
            with mlir_errors(context):
                return ir.Attribute.parse(text, context)
        except ParseError as error:
            raise AnnotationError(f"{name} '{shown}' cannot be read: {error.message}", hint=error.hint) from None
