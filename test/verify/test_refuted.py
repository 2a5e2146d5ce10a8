"""What is refuted, and what only looks the same and is not proved."""

from __future__ import annotations

import pytest

import gspmd
from gspmd import Verdict


def _program(arguments: str, result: str, *lines: str, size: int = 4) -> str:
    return "\n".join((f'sdy.mesh @mesh = <["x"={size}]>', f"func.func @main({arguments}) -> {result} {{", *lines, "}"))


def _split(type_: str) -> str:
    return f'{type_} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}'


SORT = _program(
    f"%a: {_split('tensor<10xf32>')}",
    "tensor<10xf32>",
    '%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({',
    "^bb0(%p: tensor<f32>, %q: tensor<f32>):",
    "%c = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>",
    "stablehlo.return %c : tensor<i1>",
    "}) : (tensor<10xf32>) -> tensor<10xf32>",
    "return %0 : tensor<10xf32>",
)
SUM = _program(
    f"%a: {_split('tensor<10xf32>')}",
    "tensor<f32>",
    "%c = stablehlo.constant dense<0.0> : tensor<f32>",
    "%0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]",
    ": (tensor<10xf32>, tensor<f32>) -> tensor<f32>",
    "return %0 : tensor<f32>",
)
COMPLEX = _program(
    f"%a: {_split('tensor<8xcomplex<f32>>')}",
    f"({_split('tensor<8xcomplex<f32>>')})",
    "%0 = stablehlo.multiply %a, %a : tensor<8xcomplex<f32>>",
    "return %0 : tensor<8xcomplex<f32>>",
)


def _state_after(count: int) -> str:
    """The state of a generator of random bits after so many numbers."""
    return _program(
        "%a: tensor<2xui64>",
        "tensor<2xui64>",
        '%0:2 = "stablehlo.rng_bit_generator"(%a) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}',
        f": (tensor<2xui64>) -> (tensor<2xui64>, tensor<{count}xui32>)",
        "return %0#0 : tensor<2xui64>",
    )


def _third_at(index: str) -> tuple[str, str]:
    """A program that takes the third element, and one that takes it at an index computed of `%id` and `%two`."""
    given = _program(
        "%a: tensor<4xf32>",
        "tensor<1xf32>",
        "%0 = stablehlo.slice %a [2:3] : (tensor<4xf32>) -> tensor<1xf32>",
        "return %0 : tensor<1xf32>",
        size=2,
    )
    text = gspmd.partition(given).module_text
    begin = text.index("%0 = stablehlo.slice")
    end = text.index("\n", begin)
    computed = "\n".join(
        (
            "%p = stablehlo.partition_id : tensor<ui32>",
            "%id = stablehlo.convert %p : (tensor<ui32>) -> tensor<i32>",
            "%two = stablehlo.constant dense<2> : tensor<i32>",
            f"%i = {index} : tensor<i32>",
            "%0 = stablehlo.dynamic_slice %arg0, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>",
        )
    )
    return given, text[:begin] + computed + text[end:]


def test_a_quotient_by_zero_is_no_number_that_one_may_choose() -> None:
    assert gspmd.verify(*_third_at("stablehlo.maximum %two, %id")).proved
    assert not gspmd.verify(*_third_at("stablehlo.divide %two, %id")).proved  # of device 0 by zero


def test_how_much_a_generator_draws_counts_for_its_state() -> None:
    assert gspmd.verify(_state_after(6)).proved
    assert gspmd.verify(_state_after(6), gspmd.partition(_state_after(8))).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("program", "right", "wrong"),
    [
        (SORT, "stablehlo.compare LT", "stablehlo.compare GT"),
        (SUM, "stablehlo.compare LT", "stablehlo.compare LE"),
        (COMPLEX, "stablehlo.multiply", "stablehlo.subtract"),
    ],
    ids=["of whole operands", "of padding", "of complex numbers"],
)
def test_a_difference_is_found_in_numbers(program: str, right: str, wrong: str) -> None:
    text = gspmd.partition(program).module_text
    assert right in text
    assert gspmd.verify(program, text).proved
    (result,) = gspmd.verify(program, text.replace(right, wrong)).results
    assert result.verdict is Verdict.REFUTED
    assert result.element is not None
