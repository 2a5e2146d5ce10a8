"""Types of values."""

from __future__ import annotations

import functools
import weakref
from typing import ClassVar

from jaxlib.mlir import ir


class TensorType:
    """The shape and element type (in MLIR syntax) of a tensor; any other type has rank 0 and its text as element type.

    `encoding` is the text of the encoding of a tensor type. Equal types are one object, so they are compared and hashed
    by identity, which stages do several times for every operand and result.
    """

    __slots__ = ("__weakref__", "element", "encoding", "is_tensor", "shape")

    shape: tuple[int, ...]
    element: str
    is_tensor: bool
    encoding: str

    _known: ClassVar[weakref.WeakValueDictionary[tuple[tuple[int, ...], str, bool, str], TensorType]] = (
        weakref.WeakValueDictionary()
    )

    def __new__(cls, shape: tuple[int, ...], element: str, is_tensor: bool = True, encoding: str = "") -> TensorType:
        found = cls._known.get((shape, element, is_tensor, encoding))
        if found is None:
            found = super().__new__(cls)
            found.shape, found.element, found.is_tensor, found.encoding = shape, element, is_tensor, encoding
            cls._known[shape, element, is_tensor, encoding] = found
        return found

    def of_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The type with another shape."""
        return TensorType(shape, self.element, self.is_tensor, self.encoding)

    def of_element(self, element: str) -> TensorType:
        """The type with another element type."""
        return TensorType(self.shape, element, self.is_tensor, self.encoding)

    def __repr__(self) -> str:
        return f"TensorType({self.text})"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def brief(self) -> str:
        """`f32[8,4]`; for other types the name, such as `token`."""
        if not self.is_tensor:
            return self.element.removeprefix("!stablehlo.")
        return f"{self.element}[{','.join(map(str, self.shape))}]"

    @property
    def text(self) -> str:
        """The type in MLIR syntax."""
        if not self.is_tensor:
            return self.element
        shape = "".join(f"{size}x" for size in self.shape)
        return f"tensor<{shape}{self.element}{self.encoding and f', {self.encoding}'}>"


_ELEMENT_BITS = {"i1": 8, "index": 64}


@functools.cache
def element_bytes(element: str) -> float:
    """The bytes of an element in communication; i1 takes one byte."""
    if element in _ELEMENT_BITS:
        return _ELEMENT_BITS[element] / 8
    if element.startswith("complex<"):
        return 2 * element_bytes(element[8:-1])
    if element.startswith("!quant"):
        return 1.0
    digits = "".join(c if c.isdigit() else " " for c in element).split()
    return int(digits[0]) / 8 if digits else 0.0


class Types:
    """The types of a context, each converted once."""

    def __init__(self, context: ir.Context) -> None:
        self._context = context
        self._read: dict[ir.Type, TensorType] = {}
        self._written: dict[TensorType, ir.Type] = {}

    def read(self, type_: ir.Type) -> TensorType:
        found = self._read.get(type_)
        if found is None:
            found = self._read[type_] = read_type(type_)
            self._written.setdefault(found, type_)
        return found

    def write(self, type_: TensorType) -> ir.Type:
        found = self._written.get(type_)
        if found is None:
            found = self._written[type_] = ir.Type.parse(type_.text, self._context)
        return found


def read_type(type_: ir.Type) -> TensorType:
    if isinstance(type_, ir.RankedTensorType) and type_.has_static_shape:
        encoding = type_.encoding
        return TensorType(tuple(type_.shape), str(type_.element_type), True, "" if encoding is None else str(encoding))
    return TensorType((), str(type_), is_tensor=False)
