"""Text in attributes: the contents of strings, and attributes and types written as text in others.

MLIR's strings are bytes. The bindings fail for strings that are not UTF-8, and crash when they parse an empty text.
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
"""The attributes of an operation, or a dictionary attribute, whose iterator yields entries instead of names."""


def text_of(attribute: ir.Attribute | None) -> str:
    """The content of a string attribute, with invalid UTF-8 as `\\\\xFF`; empty for None and other attributes."""
    if not isinstance(attribute, ir.StringAttr):
        return ""
    content: bytes = attribute.value_bytes
    return content.decode(errors="backslashreplace")


def as_dictionary(attribute: ir.DictAttr) -> dict[str, ir.Attribute]:
    """A dictionary attribute as a dictionary. Raises ParseError for a value that jaxlib's bindings cannot read.

    They crash on it, for example on complex constants, when it is read through its entry.
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
    """The content of an attribute that must be a string. Raises AnnotationError for other kinds."""
    if not isinstance(attributes[name], ir.StringAttr):
        raise AnnotationError(f"'{name}' is {attributes[name]}, expected a string", hint="write it in quotes")
    return text_of(attributes[name])


@contextlib.contextmanager
def unheard(context: ir.Context) -> Iterator[None]:
    """In this context, MLIR's errors are not reported to listeners, which get the exception instead."""
    emit = context.emit_error_diagnostics
    context.emit_error_diagnostics = False
    try:
        yield
    finally:
        context.emit_error_diagnostics = emit


def parse_attribute(text: str, context: ir.Context, name: str) -> ir.Attribute:
    """The attribute that a user wrote as the text of attribute `name`. Raises AnnotationError if it is invalid."""
    shown = text if len(text) <= 200 else f"{text[:200]}.."
    if not text.strip():
        raise AnnotationError(f"{name} is empty", hint="leave it out, or write what it is to be")
    if len(text) > MAX_ATTRIBUTE_TEXT_BYTES:
        raise AnnotationError(
            f"{name} has {len(text)} characters; at most {MAX_ATTRIBUTE_TEXT_BYTES} are read: '{shown}'",
            code=Code.LIMIT,
        )
    with unheard(context):  # the location of an error in this text is useless
        try:
            encoded = text.encode()
            check_nesting(encoded, name)
            check_numbers(encoded, name)
            with mlir_errors(context):
                return ir.Attribute.parse(text, context)
        except ParseError as error:
            raise AnnotationError(f"{name} '{shown}' cannot be read: {error.message}", hint=error.hint) from None
