"""What is refuted, and what only looks the same and is not proved."""

from __future__ import annotations

import pytest

import gspmd
from gspmd import Verdict

_HALF, _OUTER, _QUARTERS = '"x":(1)2', '"x":(1)3', '"x":(1)4'
_INNER, _SWAPPED, _TURNED = '"x":(3)2', '"x":(3)2, "x":(1)3', '"x":(4)2, "x":(1)4'


def _program(arguments: str, result: str, *lines: str, size: int = 4) -> str:
    return "\n".join((f'sdy.mesh @mesh = <["x"={size}]>', f"func.func @main({arguments}) -> {result} {{", *lines, "}"))


def _split(type_: str, axes: str = '"x"') -> str:
    return f"{type_} {{sdy.sharding = #sdy.sharding<@mesh, [{{{axes}}}]>}}"


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
PAIRS = "(tensor<10xi32>, tensor<10xi32>)"
UNORDERED = _program(
    "%a: tensor<10xi32>, %b: tensor<10xi32>",
    PAIRS,
    '%0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = false}> ({',
    "^bb0(%p: tensor<i32>, %q: tensor<i32>, %u: tensor<i32>, %v: tensor<i32>):",
    "%c = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "stablehlo.return %c : tensor<i1>",
    f"}}) : {PAIRS} -> {PAIRS}",
    "return %0#0, %0#1 : tensor<10xi32>, tensor<10xi32>",
)
ROUNDED = _program(
    "%a: tensor<8xf32>",
    "tensor<8xi32>",
    "%t = stablehlo.tanh %a : tensor<8xf32>",
    "%0 = stablehlo.bitcast_convert %t : (tensor<8xf32>) -> tensor<8xi32>",
    "return %0 : tensor<8xi32>",
)
RESHARDED = _program(
    f"%a: {_split('tensor<2xf32>', _OUTER)}, %b: {_split('tensor<2xf32>', _SWAPPED)}",
    f"({_split('tensor<2xf32>', _INNER)})",
    "%0 = stablehlo.multiply %a, %b : tensor<2xf32>",
    "return %0 : tensor<2xf32>",
    size=6,
)
BOOLEANS = _program(
    f"%a: {_split('tensor<3xi1>', _HALF)}",
    f"({_split('tensor<3xi1>')})",
    "return %a : tensor<3xi1>",
    size=6,
)
LEAST = _program(
    f"%a: {_split('tensor<3xi32>')}",
    "(tensor<i32>, tensor<i32>)",
    "%n = stablehlo.iota dim = 0 : tensor<3xi32>",
    "%m = stablehlo.constant dense<2147483647> : tensor<i32>",
    '%0:2 = "stablehlo.reduce"(%a, %n, %m, %m) <{dimensions = array<i64: 0>}> ({',
    "^bb0(%p: tensor<i32>, %i: tensor<i32>, %q: tensor<i32>, %j: tensor<i32>):",
    "%less = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "%equal = stablehlo.compare EQ, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "%before = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "%first = stablehlo.and %equal, %before : tensor<i1>",
    "%c = stablehlo.or %less, %first : tensor<i1>",
    "%x = stablehlo.select %c, %p, %q : tensor<i1>, tensor<i32>",
    "%k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>",
    "stablehlo.return %x, %k : tensor<i32>, tensor<i32>",
    "}) : (tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)",
    "return %0#0, %0#1 : tensor<i32>, tensor<i32>",
)
JOINT = _program(
    f"%a: {_split('tensor<9xf32>')}, %b: {_split('tensor<9xi32>')}, %i: tensor<8x1xi32>, "
    f"%u: {_split('tensor<8xf32>')}, %v: {_split('tensor<8xi32>')}",
    "(tensor<9xf32>, tensor<9xi32>)",
    '%0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<',
    "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({",
    "^bb0(%p: tensor<f32>, %q: tensor<i32>, %r: tensor<f32>, %s: tensor<i32>):",
    "%c = stablehlo.add %p, %r : tensor<f32>",
    "%d = stablehlo.maximum %q, %s : tensor<i32>",
    "stablehlo.return %c, %d : tensor<f32>, tensor<i32>",
    "}) : (tensor<9xf32>, tensor<9xi32>, tensor<8x1xi32>, tensor<8xf32>, tensor<8xi32>)",
    "-> (tensor<9xf32>, tensor<9xi32>)",
    "return %0#0, %0#1 : tensor<9xf32>, tensor<9xi32>",
)
UPDATED = _program(
    f"%a: {_split('tensor<3xi64>', _TURNED)}, %b: {_split('tensor<1xi64>', _QUARTERS)}, %i: tensor<i32>",
    f"({_split('tensor<3xi64>', _QUARTERS)})",
    "%0 = stablehlo.dynamic_update_slice %a, %b, %i : (tensor<3xi64>, tensor<1xi64>, tensor<i32>) -> tensor<3xi64>",
    "return %0 : tensor<3xi64>",
    size=8,
)
DRAWN = _program(
    f"%a: {_split('tensor<3xui64>')}",
    f"(tensor<3xui64>, {_split('tensor<8xui32>')})",
    '%0:2 = "stablehlo.rng_bit_generator"(%a) {rng_algorithm = #stablehlo<rng_algorithm PHILOX>}',
    ": (tensor<3xui64>) -> (tensor<3xui64>, tensor<8xui32>)",
    "return %0#0, %0#1 : tensor<3xui64>, tensor<8xui32>",
)
LOOP = _program(
    f"%a: {_split('tensor<8xf32>')}, %n: tensor<i32>",
    f"({_split('tensor<8xf32>')})",
    "%zero = stablehlo.constant dense<0> : tensor<i32>",
    "%one = stablehlo.constant dense<1> : tensor<i32>",
    "%0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<8xf32>",
    "cond {",
    "%c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>",
    "stablehlo.return %c : tensor<i1>",
    "} do {",
    "%j = stablehlo.add %i, %one : tensor<i32>",
    "%y = stablehlo.sine %x : tensor<8xf32>",
    "stablehlo.return %j, %y : tensor<i32>, tensor<8xf32>",
    "}",
    "return %0#1 : tensor<8xf32>",
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


_FAULTS = {
    "of whole operands": (SORT, "stablehlo.compare LT", "stablehlo.compare GT"),
    "of padding": (SUM, "stablehlo.compare LT", "stablehlo.compare LE"),
    "of complex numbers": (COMPLEX, "stablehlo.multiply", "stablehlo.subtract"),
    "of a quotient by zero": (RESHARDED, "stablehlo.divide %1, %c", "stablehlo.divide %c, %1"),
    "of padding that is chosen": (BOOLEANS, "%12, %9, %7", "%12, %7, %9"),
    "of padding that is reduced": (LEAST, "[[0, 1, 2, 3]]", "[[0, 3, 1, 2]]"),
    "of a joint reduction": (LEAST, "stablehlo.compare LT, %arg1", "stablehlo.compare NE, %arg1"),
    "of a joint scatter": (JOINT, "stablehlo.subtract %4", "stablehlo.add %4"),
    "of a slice that is updated": (UPDATED, "dense<4>", "dense<5>"),
    "of random bits": (DRAWN, "%4, %19, %20", "%4, %20, %19"),
    "of a loop that ends at a number": (LOOP, "stablehlo.sine", "stablehlo.cosine"),
}


@pytest.mark.parametrize(("program", "right", "wrong"), _FAULTS.values(), ids=_FAULTS)
def test_a_difference_is_found_in_numbers(program: str, right: str, wrong: str) -> None:
    text = gspmd.partition(program).module_text
    assert right in text
    assert gspmd.verify(program, text).verdict is not Verdict.REFUTED
    found = gspmd.verify(program, text.replace(right, wrong))
    assert found.verdict is Verdict.REFUTED
    refuted = [result for result in found.results if result.verdict is Verdict.REFUTED]
    assert all(result.element is not None for result in refuted)


def _instead(program: str, *lines: str) -> str:
    """A program whose partitioned form computes its result in these lines."""
    text = gspmd.partition(program).module_text
    begin, end = text.index("    %0"), text.index("    return")
    return "\n".join((text[:begin], *lines, text[end:]))


def test_an_order_that_is_open_refutes_nothing() -> None:
    """Equal elements are in another order after a sort of the reversed operands."""
    sort = UNORDERED[UNORDERED.index("%0:2 =") : UNORDERED.index("return %0#0")]
    names = (("%a", "%arg0"), ("%b", "%arg1"))
    reversed_ = [f"{to} = stablehlo.reverse {of}, dims = [0] : tensor<10xi32>" for to, of in names]
    assert gspmd.verify(UNORDERED, _instead(UNORDERED, *reversed_, sort)).verdict is Verdict.NOT_KNOWN
    other = sort.replace("compare LT", "compare GT")
    assert gspmd.verify(UNORDERED, _instead(UNORDERED, *reversed_, other)).verdict is Verdict.REFUTED


def test_bits_that_depend_on_rounding_refute_nothing() -> None:
    """The numbers are the same, but for the last bit."""
    computed = (
        "%one = stablehlo.constant dense<1.0> : tensor<8xf32>",
        "%two = stablehlo.constant dense<2.0> : tensor<8xf32>",
        "%t = stablehlo.multiply %two, %arg0 : tensor<8xf32>",
        "%e = stablehlo.exponential %t : tensor<8xf32>",
        "%n = stablehlo.subtract %e, %one : tensor<8xf32>",
        "%d = stablehlo.add %e, %one : tensor<8xf32>",
        "%0 = stablehlo.divide %n, %d : tensor<8xf32>",
        "%1 = stablehlo.bitcast_convert %0 : (tensor<8xf32>) -> tensor<8xi32>",
    )
    assert gspmd.verify(ROUNDED, _instead(ROUNDED, *computed)).verdict is Verdict.NOT_KNOWN
