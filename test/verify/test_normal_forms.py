"""Programs whose normal forms differ until they are computed again, and the same programs with a fault in them."""

from __future__ import annotations

import operator

import pytest

import gspmd

WINDOWS = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %i: tensor<1x5xi32>,
                %u: tensor<3x5xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.subtract %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf32>, tensor<1x5xi32>, tensor<3x5xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
UNSIGNED = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %i: tensor<6x1xui32>)
    -> (tensor<5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %u = stablehlo.constant dense<1.0> : tensor<6xf32>
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<5xf32>, tensor<6x1xui32>, tensor<6xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
"""
ZEROS = """
sdy.mesh @mesh = <["x"=3]>
func.func @main(%a: tensor<5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %i: tensor<1xi64>)
    -> (tensor<5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %u = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.divide %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<5xf32>, tensor<1xi64>, tensor<f32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
"""
WITHIN = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %i: tensor<1xi8>) -> tensor<1xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], start_index_map = [0]>,
    slice_sizes = array<i64: 1>}> : (tensor<5xf32>, tensor<1xi8>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
ROW = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<7x3xf32> SHARDED, %u: tensor<1x3xf32>, %i: tensor<ui32>, %j: tensor<ui32>)
    -> (tensor<7x3xf32> SHARDED) {
  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %j
    : (tensor<7x3xf32>, tensor<1x3xf32>, tensor<ui32>, tensor<ui32>) -> tensor<7x3xf32>
  return %0 : tensor<7x3xf32>
}
""".replace("SHARDED", '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}')
MOVED = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<2xi32>) -> (tensor<9xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.pad %a, %c, low = [0], high = [7], interior = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<9xi32>
  %1 = stablehlo.shift_left %0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<9xi32>
  %2 = stablehlo.pad %1, %c, low = [3], high = [-3], interior = [0] : (tensor<9xi32>, tensor<i32>) -> tensor<9xi32>
  return %2 : tensor<9xi32>
}
"""
UPDATED = """
sdy.mesh @mesh = <["x"=2, "z"=2]>
func.func @main(%a: tensor<9x3x4xi32>, %i: tensor<i32>, %j: tensor<i32>, %k: tensor<i32>) -> tensor<9x3x4xi32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %u = stablehlo.pad %a, %c, low = [0, 0, 0], high = [0, 0, -3], interior = [0, 0, 0]
    {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"x"}]>]>}
    : (tensor<9x3x4xi32>, tensor<i32>) -> tensor<9x3x1xi32>
  %0 = stablehlo.dynamic_update_slice %a, %u, %i, %j, %k
    {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"z"}, {}, {}]>]>}
    : (tensor<9x3x4xi32>, tensor<9x3x1xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<9x3x4xi32>
  return %0 : tensor<9x3x4xi32>
}
"""
SORTED = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<3x5x2xi32>) -> (tensor<4x8x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.pad %a, %c, low = [0, 0, 0], high = [1, 3, 0], interior = [0, 0, 0]
    : (tensor<3x5x2xi32>, tensor<i32>) -> tensor<4x8x2xi32>
  %k = stablehlo.iota dim = 2 : tensor<4x8x2xi32>
  %m = stablehlo.maximum %0, %k : tensor<4x8x2xi32>
  %1 = "stablehlo.sort"(%m) <{dimension = 2 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %l = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) : (tensor<4x8x2xi32>) -> tensor<4x8x2xi32>
  return %1 : tensor<4x8x2xi32>
}
"""
LARGEST = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<6xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f64> {
  %c = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [0]
    : (tensor<6xf64>, tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
"""
EMPTY = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %n: tensor<i32>, %e: tensor<0x2xf32>)
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<0x2xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c, %v = %a, %w = %e) : tensor<i32>, tensor<8xf32>, tensor<0x2xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.sine %v : tensor<8xf32>
    %t = stablehlo.add %w, %w : tensor<0x2xf32>
    stablehlo.return %j, %s, %t : tensor<i32>, tensor<8xf32>, tensor<0x2xf32>
  }
  return %0#1, %0#2 : tensor<8xf32>, tensor<0x2xf32>
}
"""
RAGGED = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<7x4xf32> SHARDED, %b: tensor<3x4x5xf32>, %g: tensor<3xi32>) -> (tensor<7x5xf32> SHARDED) {
  %0 = "chlo.ragged_dot"(%a, %b, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
    rhs_group_dimensions = [0]>}> : (tensor<7x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}
""".replace("SHARDED", '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}')
INDEX = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32>, %i: tensor<1x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> tensor<1xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
    : (tensor<8xf32>, tensor<1x1xi32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
"""
CASES = {
    "index": (INDEX, ("[[0, 2], [1, 3]]", "[[0, 1], [2, 3]]"), ("[0:1,", "[1:2,")),  # padding as an index
    "windows": (
        WINDOWS,
        ("dense<2> : tensor<1x5xi32>", "dense<1> : tensor<1x5xi32>"),
        ("dense<6> : tensor<i32>", "dense<5> : tensor<i32>"),
        ("dense<6> : tensor<1x5xi32>", "dense<5> : tensor<1x5xi32>"),
        ("dense<-1> : tensor<1x5xi32>", "dense<0> : tensor<1x5xi32>"),
        ("low = [2], high = [2]", "low = [1], high = [3]"),
        ("[2:4]", "[1:3]"),
    ),
    "unsigned": (
        UNSIGNED,
        ("dense<5> : tensor<ui32>", "dense<4> : tensor<ui32>"),
        ("dense<0> : tensor<ui32>", "dense<1> : tensor<ui32>"),
        ("dense<3> : tensor<i32>", "dense<2> : tensor<i32>"),
    ),
    "zeros": (
        ZEROS,
        ("dense<5> : tensor<i64>", "dense<4> : tensor<i64>"),
        ("dense<-1> : tensor<i64>", "dense<0> : tensor<i64>"),
        ("dense<2> : tensor<i32>", "dense<1> : tensor<i32>"),
    ),
    "within": (
        WITHIN,
        ("dense<4> : tensor<i8>", "dense<5> : tensor<i8>"),
        ("dense<0> : tensor<1xi32>", "dense<-1> : tensor<1xi32>"),
        ("dense<2> : tensor<1xi32>", "dense<1> : tensor<1xi32>"),
        ("compare GE", "compare GT"),
        ("dense<2> : tensor<i32>", "dense<1> : tensor<i32>"),
    ),
    "row": (
        ROW,
        ("dense<6> : tensor<ui32>", "dense<5> : tensor<ui32>"),
        ("dense<6> : tensor<ui32>", "dense<7> : tensor<ui32>"),
        ("dense<4> : tensor<i32>", "dense<3> : tensor<i32>"),
        ("dense<3> : tensor<i32>", "dense<2> : tensor<i32>"),
        ("compare GE", "compare GT"),
        ("compare LT", "compare LE"),
        ("%14, %arg1, %10", "%14, %10, %arg1"),
    ),
    "moved": (MOVED, ("[2:5]", "[1:4]"), ("dense<3> : tensor<5xi32>", "dense<4> : tensor<5xi32>")),
    "updated": (
        UPDATED,
        ("dense<5> : tensor<i32>", "dense<4> : tensor<i32>"),
        ("[[0, 2], [1, 3]]", "[[2, 0], [3, 1]]"),
        ("high = [0, 0, -3]", "high = [0, 0, -2]"),
    ),
    "sorted": (
        SORTED,
        ("low = [0, 0, 0], high = [1, 3, 0]", "low = [0, 1, 0], high = [1, 2, 0]"),
        ("iota dim = 2", "iota dim = 1"),
    ),
    "largest": (
        LARGEST,
        ("dense<6> : tensor<i32>", "dense<5> : tensor<i32>"),
        ("dense<0xFFF0000000000000> : tensor<2xf64>", "dense<0.0> : tensor<2xf64>"),
        ("dense<63> : tensor<i64>", "dense<62> : tensor<i64>"),
    ),
    "empty": (
        EMPTY,
        ("stablehlo.sine", "stablehlo.cosine"),
        ("dense<1> : tensor<i32>", "dense<2> : tensor<i32>"),
        ("return %1, %2, %3", "return %1, %iterArg_0, %3"),
    ),
    "ragged": (
        RAGGED,
        (", %17)", ", %arg2)"),
        ("LE, %3, %2", "LT, %3, %2"),
        ("dense<7> : tensor<i32>", "dense<6> : tensor<i32>"),
        ("dense<4> : tensor<i32>", "dense<3> : tensor<i32>"),
        ("subtract %7, %arg2", "subtract %7, %7"),
    ),
}
DENSE = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<7x4xf32>, %b: tensor<3x4x5xf32>, %g: tensor<3xi32>) -> tensor<7x5xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %i = stablehlo.iota dim = 0 : tensor<3x3xi32>
  %j = stablehlo.iota dim = 1 : tensor<3x3xi32>
  %up = stablehlo.compare LE, %j, %i : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
  %sizes = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
  %zeros = stablehlo.constant dense<0> : tensor<3x3xi32>
  %upto = stablehlo.select %up, %sizes, %zeros : tensor<3x3xi1>, tensor<3x3xi32>
  %ends = stablehlo.reduce(%upto init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x3xi32>, tensor<i32>) -> tensor<3xi32>
  %row = stablehlo.iota dim = 0 : tensor<7x3xi32>
  %end = stablehlo.broadcast_in_dim %ends, dims = [1] : (tensor<3xi32>) -> tensor<7x3xi32>
  %before = stablehlo.compare LT, %row, %end : (tensor<7x3xi32>, tensor<7x3xi32>) -> tensor<7x3xi1>
  %past = stablehlo.compare GE, %row, %end : (tensor<7x3xi32>, tensor<7x3xi32>) -> tensor<7x3xi1>
  %true = stablehlo.constant dense<true> : tensor<i1>
  %after = stablehlo.pad %past, %true, low = [0, 1], high = [0, -1], interior = [0, 0]
    : (tensor<7x3xi1>, tensor<i1>) -> tensor<7x3xi1>
  %here = stablehlo.and %after, %before : tensor<7x3xi1>
  %wide = stablehlo.broadcast_in_dim %here, dims = [0, 1] : (tensor<7x3xi1>) -> tensor<7x3x4x5xi1>
  %left = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<7x4xf32>) -> tensor<7x3x4x5xf32>
  %right = stablehlo.broadcast_in_dim %b, dims = [1, 2, 3] : (tensor<3x4x5xf32>) -> tensor<7x3x4x5xf32>
  %products = stablehlo.multiply %left, %right : tensor<7x3x4x5xf32>
  %none = stablehlo.constant dense<0.0> : tensor<7x3x4x5xf32>
  %kept = stablehlo.select %wide, %products, %none : tensor<7x3x4x5xi1>, tensor<7x3x4x5xf32>
  %float = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%kept init: %float) applies stablehlo.add across dimensions = [1, 2]
    : (tensor<7x3x4x5xf32>, tensor<f32>) -> tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}
"""


@pytest.mark.parametrize("name", CASES)
def test_only_the_right_program_is_proved(name: str) -> None:
    program, *faults = CASES[name]
    text = gspmd.partition(program).module_text
    assert gspmd.verify(program, text).proved
    for right, wrong in faults:
        assert right in text
        try:
            found = gspmd.verify(program, text.replace(right, wrong, 1))
        except gspmd.Error:  # it is no program
            continue
        assert not found.proved, wrong


def test_a_ragged_product_masks_the_rows_of_other_groups() -> None:
    """As `jax.lax.ragged_dot` does it where XLA has no operation for it."""
    assert gspmd.verify(DENSE, gspmd.partition(RAGGED)).proved


_COMPARE = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
_LOW, _HIGH = 0, 3


@pytest.mark.parametrize("element", ["i32", "ui32"])
@pytest.mark.parametrize("direction", _COMPARE)
def test_limits_are_left_out_of_comparisons_that_they_do_not_decide(direction: str, element: str) -> None:
    for number in range(5):
        plain, limited = (
            f"""
            sdy.mesh @mesh = <["x"=2]>
            func.func @main(%a: tensor<8x{element}>) -> tensor<8xi1> {{
              %low = stablehlo.constant dense<{_LOW}> : tensor<{element}>
              %high = stablehlo.constant dense<{_HIGH}> : tensor<{element}>
              %b = stablehlo.clamp %low, %a, %high
                : (tensor<{element}>, tensor<8x{element}>, tensor<{element}>) -> tensor<8x{element}>
              %n = stablehlo.constant dense<{number}> : tensor<8x{element}>
              %0 = stablehlo.compare {direction}, %{value}, %n
                : (tensor<8x{element}>, tensor<8x{element}>) -> tensor<8xi1>
              return %0 : tensor<8xi1>
            }}"""
            for value in "ab"
        )
        compare = _COMPARE[direction]
        integers = range(0 if element == "ui32" else -9, 9)
        same = all(compare(i, number) == compare(min(max(i, _LOW), _HIGH), number) for i in integers)
        assert gspmd.verify(plain, gspmd.partition(limited)).proved == same, number


@pytest.mark.parametrize("number", ["9223372036854775808", "18446744073709551615"])
def test_the_largest_unsigned_integers_are_not_negative(number: str) -> None:
    """These are stored as negative ones; no comparison with them is decided."""
    compared, never = (
        f"""
        sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: tensor<8xui64>) -> tensor<8xi1> {{
          %n = stablehlo.constant dense<{number}> : tensor<8xui64>
          {line}
          return %0 : tensor<8xi1>
        }}"""
        for line in (
            "%0 = stablehlo.compare EQ, %a, %n : (tensor<8xui64>, tensor<8xui64>) -> tensor<8xi1>",
            "%0 = stablehlo.constant dense<false> : tensor<8xi1>",
        )
    )
    assert gspmd.verify(compared).proved
    assert not gspmd.verify(compared, gspmd.partition(never)).proved
