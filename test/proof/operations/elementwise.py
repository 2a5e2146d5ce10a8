"""Elementwise operations, all that there are: the examples of the documentation in other shapes."""

from __future__ import annotations

import re

from op_examples import EXAMPLES, operation_of

from gspmd.transforms.ops.elementwise import OPS
from proof.program import INEXACT, Shape
from proof.writer import Writer

NAMES = sorted(name for name in EXAMPLES if operation_of(name) in OPS)
# Exact on small whole numbers, with what that does to the bound.
_EXACT = {"add": 2, "subtract": 2, "maximum": 1, "minimum": 1, "negate": 1, "abs": 1, "select": 1, "clamp": 1}
_KEEPING = (
    "complex",
    "real",
    "imag",
    "compare",
    "convert",
    "sign",
    "floor",
    "ceil",
    "is_finite",
    "not",
    "and",
    "or",
    "xor",
)
# What these make of such numbers is up to the implementation, or grows without bounds.
_TAME = {"stablehlo.convert", "stablehlo.power", "chlo.broadcast_power", "chlo.polygamma", "chlo.broadcast_polygamma",
         "chlo.zeta", "chlo.broadcast_zeta", "stablehlo.map", "stablehlo.atan2", "chlo.broadcast_atan2"}  # fmt: skip


def example(w: Writer) -> None:
    """Any of them."""
    _write(w, w.rng.choice(NAMES), w.shape())


def exact(w: Writer) -> None:
    """One that keeps whole numbers whole, so that sorts and comparisons may follow."""
    short = w.rng.choice([*_EXACT, *_KEEPING])
    _write(w, f"stablehlo.{short}", w.tensor(exact=True).shape, short)


def multiply(w: Writer) -> None:
    a = w.tensor(exact=True)
    b = w.of(a.shape, exact=True)
    w.op("stablehlo.multiply", (a, b), [(a.shape, "f32")], bound=a.bound * b.bound)


def _write(w: Writer, name: str, shape: Shape, short: str = "") -> None:
    example = EXAMPLES[name]
    if len(shape) != 2 and ("(a " in name or "dimensions" in example.attributes):
        shape = (5, 6)  # the attributes are for two dimensions
    operands, results = (part.strip() for part in example.types.split("->"))
    content = "numbers" if name in _TAME or short else "hostile"
    tame = "positive" if "polygamma" in name or "zeta" in name else content
    values = [
        w.of(_reshaped(type_, shape), _element(type_), tame, exact=bool(short) and _element(type_)[0] not in "iu")
        for type_ in re.split(r",\s*", operands)
    ]
    made = [(_reshaped(type_, shape), _element(type_)) for type_ in re.split(r",\s*", results)]
    largest = max(v.bound for v in values)
    bound = largest * _EXACT.get(short, 1) if short else INEXACT
    attributes = example.attributes
    w.op(operation_of(name), values, made, attributes, example.region, bound=bound)


def _element(type_: str) -> str:
    return re.sub(r"^(\d+x)*", "", type_)


def _reshaped(type_: str, shape: Shape) -> Shape:
    """The shape of an example's type with other dimensions in place of 8 x 16."""
    dims = tuple(int(n) for n in re.findall(r"(\d+)x", re.match(r"^((?:\d+x)*)", type_)[1]))  # type: ignore[index]
    if dims[:2] == (8, 16):
        return (*shape, *dims[2:])
    replaced = {8: shape[0], 16: shape[1]} if len(shape) == 2 else {}
    return tuple(replaced.get(n, n) for n in dims)


ELEMENTWISE = (example, example, exact, multiply)
