"""reduce: any reducer over split dimensions, of any number of operands, whatever its initial values are."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from support.single_op import MESHES, Array, check, partition, rule_of

from gspmd.dialect.rule import print_rule

SHAPE = (5, 7, 6)
DTYPES = {
    "i2": ml_dtypes.int2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f32": np.float32,
    "i32": np.int32,
    "ui8": np.uint8,
    "i1": np.bool_,
    "complex<f32>": np.complex64,
}
RNG = np.random.default_rng(0)


def reduce(dims: tuple[int, ...], elements: tuple[str, ...], body: str, returned: str) -> str:
    """Of a tensor of each element type, then initial values; the body has arguments a0, a1 .., b0, b1 .."""
    numbers = range(len(elements))
    kept = "".join(f"{n}x" for d, n in enumerate(SHAPE) if d not in dims)
    wholes = [f"tensor<{'x'.join(map(str, SHAPE))}x{element}>" for element in elements]
    scalars = [f"tensor<{element}>" for element in elements]
    results = ", ".join(f"tensor<{kept}{element}>" for element in elements)
    given = ", ".join([f"%x{i}: {wholes[i]}" for i in numbers] + [f"%i{i}: {scalars[i]}" for i in numbers])
    inner = ", ".join([f"%a{i}: {scalars[i]}" for i in numbers] + [f"%b{i}: {scalars[i]}" for i in numbers])
    used = ", ".join([f"%x{i}" for i in numbers] + [f"%i{i}" for i in numbers])
    return f"""
func.func public @main({given}) -> ({results}) {{
  %0:{len(elements)} = "stablehlo.reduce"({used}) ({{
  ^bb0({inner}):
    {body}
    stablehlo.return {returned} : {", ".join(scalars)}
  }}) {{dimensions = array<i64: {", ".join(map(str, dims))}>}} : ({", ".join([*wholes, *scalars])}) -> ({results})
  return {", ".join(f"%0#{i}" for i in numbers)} : {results}
}}
"""


def apply(name: str, element: str, index: int = 0) -> str:
    return f"%c{index} = stablehlo.{name} %a{index}, %b{index} : tensor<{element}>\n"


def table(element: str) -> Array:
    if element == "i1":
        return RNG.integers(0, 2, SHAPE).astype(bool)
    values = RNG.integers(0 if element == "ui8" else -3, 4, SHAPE) // (2 if element == "i2" else 1)
    if element.startswith("complex"):
        values = values + 1j * RNG.integers(-3, 4, SHAPE)
    return values.astype(DTYPES[element])


PLAIN = [
    *(("f32", name) for name in ("add", "maximum", "minimum")),
    *(("i32", name) for name in ("add", "multiply", "minimum", "and", "or", "xor")),
    *(("ui8", name) for name in ("add", "maximum", "xor")),
    *(("i1", name) for name in ("and", "or", "xor")),
    ("complex<f32>", "add"),
    # Types without infinities, and without collectives of their own.
    *((element, name) for element in ("f8E4M3FN", "i2") for name in ("maximum", "minimum")),
]


@pytest.mark.parametrize("dims", [(1,), (0, 2)])
@pytest.mark.parametrize(("element", "name"), PLAIN)
def test_an_initial_value_counts_once(element: str, name: str, dims: tuple[int, ...]) -> None:
    inputs = [table(element), np.array(1).astype(DTYPES[element])]
    check(reduce(dims, (element,), apply(name, element), "%c0"), inputs, MESHES["3x2"], count=1)


# Combined is (a, x) with (b, y) to (a b, x b + y): the order counts, and nothing is said of what changes nothing.
_AFFINE = """%c0 = stablehlo.multiply %a0, %b0 : tensor<i32>
    %d = stablehlo.multiply %a1, %b0 : tensor<i32>
    %c1 = stablehlo.add %d, %b1 : tensor<i32>"""
_ARGMAX = """%g = stablehlo.compare GT, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %n = stablehlo.compare NE, %a0, %a0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %gn = stablehlo.or %g, %n : tensor<i1>
    %e = stablehlo.compare EQ, %a0, %b0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %l = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %el = stablehlo.and %e, %l : tensor<i1>
    %k = stablehlo.or %gn, %el : tensor<i1>
    %c0 = stablehlo.select %gn, %a0, %b0 : tensor<i1>, tensor<f32>
    %c1 = stablehlo.select %k, %a1, %b1 : tensor<i1>, tensor<i32>"""
SEVERAL = {
    "argmax": (("f32", "i32"), _ARGMAX, (-math.inf, 0)),
    "two sums": (("f32", "i32"), apply("add", "f32") + apply("add", "i32", 1), (5, 7)),
    "a maximum and a sum": (("f32", "i32"), apply("maximum", "f32") + apply("add", "i32", 1), (1, 7)),
    "affine maps": (("i32", "i32"), _AFFINE, (3, 5)),
}


@pytest.mark.parametrize("mesh", ["8", "3x2"])
@pytest.mark.parametrize("dims", [(1,), (2,)])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_operands(name: str, dims: tuple[int, ...], mesh: str) -> None:
    elements, body, inits = SEVERAL[name]
    places = np.arange(math.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    first = table(elements[0])
    if name == "argmax":
        first[0, 0, 0], first[3, 5, 2] = np.nan, np.inf
    starts = [np.array(value).astype(DTYPES[element]) for value, element in zip(inits, elements, strict=True)]
    check(reduce(dims, elements, body, "%c0, %c1"), [first, places, *starts], MESHES[mesh], count=1)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_of_one_device_is_the_result_of_all(name: str) -> None:
    values = table("f32")
    values[0, 0, 0], values[4, 6, 5], values[2, 3, 3], values[2, 2, 2] = np.nan, -np.float32(np.nan), np.inf, -np.inf
    start = np.float32(-np.inf if name == "maximum" else np.inf)
    for mesh in ("4x2", "3x2"):
        check(reduce((0, 1), ("f32",), apply(name, "f32"), "%c0"), [values, start], MESHES[mesh])


def test_rules() -> None:
    sums = reduce((1,), ("f32", "f32"), apply("add", "f32") + apply("add", "f32", 1), "%c0, %c1")
    assert print_rule(rule_of(sums)).endswith("reduction={j}")
    swapped = reduce((1,), ("f32", "f32"), apply("add", "f32") + apply("add", "f32", 1), "%c1, %c0")
    assert print_rule(rule_of(swapped)).endswith("permutation={j}")


def test_argmax_gathers_one_result_of_every_shard() -> None:
    text = partition(reduce((1,), ("f32", "i32"), _ARGMAX, "%c0, %c1"), MESHES["8"], {1: MESHES["8"].all_axes()})
    assert text.count('"stablehlo.all_gather"') == 2
    assert "tensor<8x5x6xf32>" in text
