"""Programs with values that have no elements, checked on devices: every place where a dimension may be 0."""

from __future__ import annotations

import itertools

import pytest

from gspmd.checks.checking import check

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=3]>'
SPLITS = ("[{}, {}]", '[{"y"}, {}]', '[{"x"}, {"y"}]')


def program(arguments: list[tuple[str, str]], result: tuple[str, str], lines: str) -> str:
    """A function of arguments, each a type and how it is split, and one result, `%r`."""
    place = "{{sdy.sharding = #sdy.sharding<@mesh, {}>}}"
    given = ", ".join(f"%{i}: tensor<{type_}> {place.format(split)}" for i, (type_, split) in enumerate(arguments))
    type_, split = result
    return f"""{MESH}
func.func @main({given}) -> (tensor<{type_}> {place.format(split)}) {{
{lines}
  return %r : tensor<{type_}>
}}"""


def assert_right(text: str) -> None:
    report = check(text)
    assert report.passed, str(report)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("rows", "inner", "columns"), list(itertools.product((0, 6), (0, 4), (0, 8))))
def test_products(rows: int, inner: int, columns: int, split: str) -> None:
    left, right, result = f"{rows}x{inner}xf32", f"{inner}x{columns}xf32", f"{rows}x{columns}xf32"
    line = (
        "%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] "
        f": (tensor<{left}>, tensor<{right}>) -> tensor<{result}>"
    )
    for given in SPLITS:
        assert_right(program([(left, given), (right, "[{}, {}]")], (result, split), line))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("rows", "columns"), [(0, 6), (6, 0), (0, 0)])
def test_single_operations(rows: int, columns: int, split: str) -> None:
    type_, swapped = f"{rows}x{columns}xf32", f"{columns}x{rows}xf32"
    argument = (type_, split)
    pads = f" : (tensor<{type_}>, tensor<f32>) -> tensor<{rows + 6}x{columns + 6}xf32>"
    zero = "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    for result, line in (
        (type_, f"%r = stablehlo.add %0, %0 : tensor<{type_}>"),
        (swapped, f"%r = stablehlo.transpose %0, dims = [1, 0] : (tensor<{type_}>) -> tensor<{swapped}>"),
        (
            (twice := f"{2 * rows}x{columns}xf32"),
            f"%r = stablehlo.concatenate %0, %0, dim = 0 : (tensor<{type_}>, tensor<{type_}>) -> tensor<{twice}>",
        ),
        (type_, f"%r = stablehlo.reverse %0, dims = [0] : tensor<{type_}>"),
        (
            f"{rows + 6}x{columns + 6}xf32",
            f"{zero}%r = stablehlo.pad %0, %z, low = [2, 3], high = [4, 3], interior = [0, 0]{pads}",
        ),
        (
            f"{rows * columns}x1xf32",
            f"%r = stablehlo.reshape %0 : (tensor<{type_}>) -> tensor<{rows * columns}x1xf32>",
        ),
    ):
        for wanted in SPLITS:
            assert_right(program([argument], (result, wanted), line))


@pytest.mark.parametrize("size", [0, 6])
def test_reductions(size: int) -> None:
    line = (
        "%z = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "%r = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] "
        f": (tensor<{size}x0xf32>, tensor<f32>) -> tensor<{size}xf32>"
    )
    for given, wanted in itertools.product(SPLITS, ("[{}]", '[{"y"}]')):
        assert_right(program([(f"{size}x0xf32", given)], (f"{size}xf32", wanted), line))
