"""Regions of operations: reducers, updates, comparators."""

from __future__ import annotations

IDENTITIES = {
    "add": ("0.0", "0", "false"),
    "multiply": ("1.0", "1", "true"),
    "maximum": ("0xFF800000", "", "false"),
    "minimum": ("0x7F800000", "", "true"),
    "or": ("", "0", "false"),
    "and": ("", "-1", "true"),
    "xor": ("", "0", "false"),
}
_MIN = {"i8": -128, "i32": -(2**31), "i64": -(2**63)}
_MAX = {"i8": 127, "i32": 2**31 - 1, "i64": 2**63 - 1, "ui8": 255, "ui32": 2**32 - 1}
_INFINITY = {"f32": "7F800000", "f64": "7FF0000000000000", "bf16": "7F80", "f16": "7C00"}
_MINUS_INFINITY = {"f32": "FF800000", "f64": "FFF0000000000000", "bf16": "FF80", "f16": "FC00"}


def identity(name: str, element: str) -> str:
    """The constant that a reducer leaves everything as it is with, as text."""
    if element == "i1":
        return IDENTITIES[name][2]
    if element[0] in "iu":
        if name in ("maximum", "minimum"):
            return str(_MIN.get(element, 0) if name == "maximum" else _MAX[element])
        if name == "and" and element[0] == "u":
            return str(_MAX[element])
        return IDENTITIES[name][1]
    if name in ("maximum", "minimum"):
        return f"0x{(_MINUS_INFINITY if name == 'maximum' else _INFINITY)[element]}"
    number = IDENTITIES[name][0]
    return f"({number}, 0.0)" if element.startswith("complex") else number


def updating(element: str) -> list[str]:
    """Operations that may be applied in any order and be exact."""
    if element == "i1":
        return ["or", "and", "xor", "add"]
    if element[0] in "iu":
        return ["add", "multiply", "maximum", "minimum", "or", "and", "xor"]
    return ["add"] if element.startswith("complex") else ["add", "add", "maximum", "minimum"]


def body(name: str, element: str) -> str:
    """Of two scalars; `set` is the second of them."""
    t = f"tensor<{element}>"
    if name == "set":
        return f"{{\n^bb0(%p: {t}, %q: {t}):\n  stablehlo.return %q : {t}\n}}"
    return f"{{\n^bb0(%p: {t}, %q: {t}):\n  %c = stablehlo.{name} %p, %q : {t}\n  stablehlo.return %c : {t}\n}}"


def comparing(direction: str, element: str, more: int = 0, kind: str = "") -> str:
    """A comparator of the first of several operands; the others, of which there are `more`, are i32."""
    t = f"tensor<{element}>"
    others = "".join(f", %i{n}: tensor<i32>, %j{n}: tensor<i32>" for n in range(more))
    given = f", {kind}" if kind else ""
    return (
        f"{{\n^bb0(%p: {t}, %q: {t}{others}):\n"
        f"  %c = stablehlo.compare {direction}, %p, %q{given} : ({t}, {t}) -> tensor<i1>\n"
        f"  stablehlo.return %c : tensor<i1>\n}}"
    )


def argument_of_extreme(direction: str, element: str) -> str:
    """The larger or smaller of two values with its position; of equals, the first position."""
    t, i = f"tensor<{element}>", "tensor<i32>"
    return f"""{{
^bb0(%p: {t}, %i: {i}, %q: {t}, %j: {i}):
  %better = stablehlo.compare {direction}, %p, %q : ({t}, {t}) -> tensor<i1>
  %equal = stablehlo.compare EQ, %p, %q : ({t}, {t}) -> tensor<i1>
  %before = stablehlo.compare LT, %i, %j : ({i}, {i}) -> tensor<i1>
  %first = stablehlo.and %equal, %before : tensor<i1>
  %c = stablehlo.or %better, %first : tensor<i1>
  %x = stablehlo.select %c, %p, %q : tensor<i1>, {t}
  %k = stablehlo.select %c, %i, %j : tensor<i1>, {i}
  stablehlo.return %x, %k : {t}, {i}
}}"""
