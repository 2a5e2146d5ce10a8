"""One small program for every operation of StableHLO and CHLO, and more where the rule depends on the numbers.

There are none for `uniform_quantize` and `uniform_dequantize`: jaxlib lacks the dialect of their types.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

_SPLIT = re.compile(r",\s*(?![^<{]*[>}])")


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """`types` as `8x16xf32, f32 -> 8x16xf32`; what is no tensor is written in full.

    `independent` says, by hand and not from the rules, along which dimensions the operation computes each part of its
    results from the parts of the operands alone: those of the same letter, as in `bi., b.j -> bij`; `.` is any other.
    A capital letter is independent only in as many parts as the example's groups or pieces, two. Where nothing is said,
    all dimensions are, of tensors that are of one shape but for scalars. `differs` is the reason why its rule is
    another one than Shardy's, if Shardy has one.
    """

    types: str
    attributes: str = ""
    region: str = ""
    independent: str = ""
    differs: str = ""


def operation_of(name: str) -> str:
    """The operation of an example: its name without what tells it from others of that operation."""
    return name.partition(" ")[0]


def types_of(example: Example) -> tuple[list[str], list[str]]:
    """The types of operands and results."""
    operands, results = (_types(part) for part in example.types.split("->"))
    return operands, results


def _types(text: str) -> list[str]:
    found = [part.strip() for part in _SPLIT.split(text.strip()) if part.strip()]
    return [part if part.startswith(("!", "tuple<")) else f"tensor<{part}>" for part in found]


def function(name: str, annotate: Callable[[str], str] = lambda type_: "") -> str:
    """@main of this one operation; `annotate` gives what to write behind an argument of a type."""
    example = EXAMPLES[name]
    operands, results = types_of(example)
    arguments = ", ".join(f"%x{i}: {type_}{annotate(type_)}" for i, type_ in enumerate(operands))
    uses = ", ".join(f"%x{i}" for i in range(len(operands)))
    made = f"%r:{len(results)} = " if results else ""
    returned = ", ".join(f"%r#{i}" for i in range(len(results)))
    region = f" ({example.region})" if example.region else ""
    attributes = f" {{{example.attributes}}}" if example.attributes else ""
    listed = ", ".join(results)
    return f"""
func.func public @main({arguments}) -> ({listed}) {{
  {made}"{operation_of(name)}"({uses}){region}{attributes} : ({", ".join(operands)}) -> ({listed})
  return {returned + " : " + listed if results else ""}
}}
{_CALLEE if "@callee" in example.attributes else ""}"""


_CALLEE = """
func.func private @callee(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.add %x, %x : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""


def _body(name: str, element: str = "f32") -> str:
    return f"""{{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %c = "{name}"(%a, %b) : (tensor<{element}>, tensor<{element}>) -> tensor<{element}>
    "stablehlo.return"(%c) : (tensor<{element}>) -> ()
  }}"""


_ADD = _body("stablehlo.add")
_ARGMAX = """{
  ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
    %c = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %d = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
    %k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %d, %k : tensor<f32>, tensor<i32>
  }"""
_COMPARE = """{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }"""
_GREATER = _COMPARE.replace("LT", "GE")
_WHILE = """{
  ^bb0(%a: tensor<8x16xf32>):
    %c = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<8x16xf32>):
    stablehlo.return %a : tensor<8x16xf32>
  }"""
_BRANCHES = """{
    %a = stablehlo.constant dense<1.0> : tensor<8x16xf32>
    stablehlo.return %a : tensor<8x16xf32>
  }, {
    %a = stablehlo.constant dense<2.0> : tensor<8x16xf32>
    stablehlo.return %a : tensor<8x16xf32>
  }"""
_SCAN = """{
  ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
    %c = stablehlo.add %a, %b : tensor<16xf32>
    stablehlo.return %c, %c : tensor<16xf32>, tensor<16xf32>
  }"""
_SCAN_OF_ROWS = """{
  ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
    %c = stablehlo.reverse %a, dims = [0] : tensor<16xf32>
    %d = stablehlo.add %c, %b : tensor<16xf32>
    stablehlo.return %d, %d : tensor<16xf32>, tensor<16xf32>
  }"""

_F, _C, _I, _B = "8x16xf32", "8x16xcomplex<f32>", "8x16xi32", "8x16xi1"


def _same(names: str, dialect: str, operands: int, types: str) -> dict[str, Example]:
    return {f"{dialect}.{name}": Example(f"{', '.join([types] * operands)} -> {types}") for name in names.split()}


_UNARY = (
    """abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate
    round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh"""
)  # fmt: skip
_ELEMENTWISE: dict[str, Example] = {
    **_same(_UNARY, "stablehlo", 1, _F),
    **_same("add atan2 divide maximum minimum multiply power remainder subtract", "stablehlo", 2, _F),
    **_same("and or shift_left shift_right_arithmetic shift_right_logical xor", "stablehlo", 2, _I),
    **_same("count_leading_zeros not popcnt", "stablehlo", 1, _I),
    "stablehlo.clamp": Example(f"f32, {_F}, f32 -> {_F}"),
    "stablehlo.compare": Example(f"{_F}, {_F} -> {_B}", "comparison_direction = #stablehlo<comparison_direction LT>"),
    "stablehlo.complex": Example(f"{_F}, {_F} -> {_C}"),
    "stablehlo.convert": Example(f"{_F} -> {_I}"),
    "stablehlo.imag": Example(f"{_C} -> {_F}"),
    "stablehlo.is_finite": Example(f"{_F} -> {_B}"),
    "stablehlo.map": Example(
        f"{_F}, {_F} -> {_F}",
        "dimensions = array<i64: 0, 1>",
        _ADD,
        differs="Shardy has no rule; the body sees one element, not where it is",
    ),
    "stablehlo.real": Example(f"{_C} -> {_F}"),
    "stablehlo.reduce_precision": Example(f"{_F} -> {_F}", "exponent_bits = 5 : i32, mantissa_bits = 10 : i32"),
    "stablehlo.select": Example(f"{_B}, {_F}, {_F} -> {_F}"),
    "stablehlo.select (one predicate)": Example(f"i1, {_F}, {_F} -> {_F}"),
    "stablehlo.bitcast_convert": Example(f"{_F} -> {_I}"),
    "stablehlo.bitcast_convert (narrower)": Example("8x16xf32 -> 8x16x2xi16", independent="ij -> ij."),
    "stablehlo.bitcast_convert (wider)": Example("8x16x2xi16 -> 8x16xf32", independent="ij. -> ij"),
}
_CHLO_UNARY = (
    """acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh square tan
    _asin_acos_kernel"""
)  # fmt: skip
_BROADCAST = "add atan2 divide maximum minimum multiply next_after polygamma power remainder subtract zeta"
_CHLO: dict[str, Example] = {
    **_same(_CHLO_UNARY.replace("_asin_acos_kernel", ""), "chlo", 1, _F),
    "chlo._asin_acos_kernel": Example(f"{_C} -> {_C}"),
    **_same("next_after polygamma zeta", "chlo", 2, _F),
    **_same("mulhi", "chlo", 2, _I),
    **{f"chlo.{name}": Example(f"{_F} -> {_B}") for name in ("is_inf", "is_neg_inf", "is_pos_inf")},
    "chlo.conj": Example(f"{_C} -> {_C}"),
    "chlo.constant_like": Example(f"{_F} -> {_F}", "value = 1.0 : f32"),
    "chlo.constant": Example(f"-> {_F}", "value = dense<1.0> : tensor<8x16xf32>"),
    **_same(" ".join(f"broadcast_{name}" for name in _BROADCAST.split()), "chlo", 2, _F),
    **_same(
        "broadcast_and broadcast_or broadcast_shift_left broadcast_shift_right_arithmetic "
        "broadcast_shift_right_logical broadcast_xor",
        "chlo",
        2,
        _I,
    ),
    "chlo.broadcast_add (a vector to rows)": Example(
        f"{_F}, 16xf32 -> {_F}", "broadcast_dimensions = array<i64: 1>", independent="ij, j -> ij"
    ),
    "chlo.broadcast_add (a column)": Example(f"{_F}, 8x1xf32 -> {_F}", independent="ij, i. -> ij"),
    "chlo.broadcast_compare": Example(f"{_F}, {_F} -> {_B}", "comparison_direction = #chlo<comparison_direction LT>"),
    "chlo.broadcast_complex": Example(f"{_F}, {_F} -> {_C}"),
    "chlo.broadcast_select": Example(f"{_B}, {_F}, {_F} -> {_F}"),
    "chlo.top_k": Example("8x16xf32 -> 8x4xf32, 8x4xi32", "k = 4 : i64", independent="i. -> i., i."),
    "chlo.scan": Example(
        "8x16xf32, 16xf32 -> 8x16xf32, 16xf32",
        ("dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>"),
        _SCAN,
        independent=".j, j -> .j, j",
    ),
    "chlo.scan (of rows)": Example(
        "8x16xf32, 16xf32 -> 8x16xf32, 16xf32",
        ("dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>"),
        _SCAN_OF_ROWS,
        independent=".., . -> .., .",
    ),
    "chlo.ragged_dot (rows in groups)": Example(
        "4x8x16xf32, 3x4x16x32xf32, 3xi64 -> 4x8x32xf32",
        (
            "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], "
            "rhs_batching_dimensions = [1],"
            " lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1],"
            " rhs_group_dimensions = [0]>"
        ),
        independent="b.., .b.j, . -> b.j",
    ),
    "chlo.ragged_dot (contracted in groups)": Example(
        "4x8x16xf32, 4x16x32xf32, 3xi64 -> 3x4x8x32xf32",
        (
            "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], "
            "rhs_batching_dimensions = [0],"
            " lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [2],"
            " rhs_group_dimensions = []>"
        ),
        independent="bi., b.j, . -> .bij",
    ),
    "chlo.ragged_dot (batch in groups)": Example(
        "4x8x16xf32, 4x16x32xf32, 3xi64 -> 4x8x32xf32",
        (
            "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], "
            "rhs_batching_dimensions = [0],"
            " lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],"
            " rhs_group_dimensions = []>"
        ),
        independent=".i., ..j, . -> .ij",
    ),
}


def _slice(start: int, limit: int, stride: int = 1) -> str:
    return (
        f"start_indices = array<i64: 0, {start}>, limit_indices = array<i64: 8, {limit}>, "
        f"strides = array<i64: 1, {stride}>"
    )


def _pad(low: int, high: int, interior: int) -> str:
    return (
        f"edge_padding_low = array<i64: 0, {low}>, edge_padding_high = array<i64: 0, {high}>, "
        f"interior_padding = array<i64: 0, {interior}>"
    )


_DOT = (
    "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
    "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>"
)


def _convolution(feature_groups: int, batch_groups: int = 1) -> str:
    return (
        "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
        "padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>, "
        f"feature_group_count = {feature_groups} : i64, batch_group_count = {batch_groups} : i64"
    )


_FINDS_PART = "ours lets every device find the part that it holds, which is summed; Shardy shifts or gathers"
_REACHES = "a window of most of a dimension reaches into neighbours only in ours; Shardy gathers it"
_STATISTICS = "Shardy has no rule; features are independent of each other, and statistics of the rest are summed"
_TRANSFORMS = "a transformed dimension changes places with another one in ours; Shardy has it whole"
_KERNEL = (
    "in ours a dimension that windows of one element move over passes through, and taps of a kernel are contracted"
)
_SOURCES = "ours splits the source with the operand; Shardy has that of the source whole"
_MOVEMENT: dict[str, Example] = {
    "stablehlo.constant": Example(
        "-> 8x16xf32",
        "value = dense<1.0> : tensor<8x16xf32>",
        differs="Shardy has no rule but clones constants for every use; ours makes a part on every device",
    ),
    "stablehlo.after_all": Example("!stablehlo.token, !stablehlo.token -> !stablehlo.token"),
    "stablehlo.iota": Example(
        "-> 8x16xi32",
        "iota_dimension = 0 : i64",
        differs="Shardy has no rule but clones constants for every use; ours makes a part on every device",
    ),
    "stablehlo.broadcast_in_dim": Example(
        "16xf32 -> 8x16xf32", "broadcast_dimensions = array<i64: 1>", independent="j -> ij"
    ),
    "stablehlo.broadcast_in_dim (expanded)": Example(
        "8x1xf32 -> 8x16xf32", "broadcast_dimensions = array<i64: 0, 1>", independent="i. -> ij"
    ),
    "stablehlo.transpose": Example(
        "8x16x32xf32 -> 32x8x16xf32", "permutation = array<i64: 2, 0, 1>", independent="ijk -> kij"
    ),
    "stablehlo.reshape (split)": Example("8x16xf32 -> 8x4x4xf32", independent="iJ -> iJ."),
    "stablehlo.reshape (merged)": Example("8x4x4xf32 -> 8x16xf32", independent="iJ. -> iJ"),
    "stablehlo.reshape (regrouped)": Example("8x12xf32 -> 8x3x4xf32", independent="i. -> i.."),
    "stablehlo.reshape (no common pieces)": Example(
        "4x3xf32 -> 3x4xf32",
        independent=".. -> ..",
        differs="no piece of one side is a piece of the other; Shardy lists the dimensions as factors that occur once",
    ),
    "stablehlo.slice (most kept)": Example("8x16xf32 -> 8x15xf32", _slice(1, 16), independent="i. -> i."),
    "stablehlo.slice (strided)": Example("8x16xf32 -> 8x8xf32", _slice(0, 16, 2), independent="i. -> i."),
    "stablehlo.slice (little kept)": Example(
        "8x16xf32 -> 8x2xf32", _slice(4, 6), independent="i. -> i.", differs=_FINDS_PART
    ),
    "stablehlo.slice (half kept)": Example("8x16xf32 -> 8x8xf32", _slice(0, 8), independent="i. -> i."),
    "stablehlo.pad (little)": Example("8x16xf32, f32 -> 8x18xf32", _pad(1, 1, 0), independent="i., -> i."),
    "stablehlo.pad (between)": Example("8x16xf32, f32 -> 8x31xf32", _pad(0, 0, 1), independent="i., -> i."),
    "stablehlo.pad (much)": Example("8x16xf32, f32 -> 8x32xf32", _pad(8, 8, 0), independent="i., -> i."),
    "stablehlo.concatenate (equal parts)": Example(
        "8x16xf32, 8x16xf32 -> 8x32xf32",
        "dimension = 1 : i64",
        independent="i., i. -> i.",
        differs="ours keeps the parts split and sends each element where it belongs; Shardy has all parts whole",
    ),
    "stablehlo.concatenate (a large part)": Example(
        "8x16xf32, 8x2xf32 -> 8x18xf32",
        "dimension = 1 : i64",
        independent="i., i. -> i.",
        differs="ours keeps the large part split and has the small one whole; Shardy has all parts whole",
    ),
    "stablehlo.reverse": Example("8x16xf32 -> 8x16xf32", "dimensions = array<i64: 1>", independent="i. -> i."),
    "stablehlo.dynamic_slice": Example(
        "8x16xf32, i32, i32 -> 8x4xf32",
        "slice_sizes = array<i64: 8, 4>",
        independent="i., , -> i.",
        differs=_FINDS_PART,
    ),
    "stablehlo.dynamic_update_slice": Example("8x16xf32, 8x4xf32, i32, i32 -> 8x16xf32", independent="i., i., , -> i."),
    "stablehlo.dynamic_slice (most kept)": Example(
        "8x16xf32, i32, i32 -> 8x14xf32", "slice_sizes = array<i64: 8, 14>", independent="i., , -> i.", differs=_REACHES
    ),
    "stablehlo.dynamic_update_slice (most written)": Example(
        "8x16xf32, 8x14xf32, i32, i32 -> 8x16xf32", independent="i., i., , -> i.", differs=_REACHES
    ),
    "stablehlo.gather": Example(
        "32x16xf32, 8x4x1xi32 -> 8x4x16xf32",
        (
            "dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], "
            "start_index_map = [0], "
            "index_vector_dim = 2>, slice_sizes = array<i64: 1, 16>, indices_are_sorted = false"
        ),
        independent=".k, ij. -> ijk",
    ),
    "stablehlo.gather (batching)": Example(
        "8x32x16xf32, 8x4x1xi32 -> 8x4x16xf32",
        (
            "dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], "
            "operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], "
            "index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 16>, indices_are_sorted = false"
        ),
        independent="b.k, bj. -> bjk",
    ),
    "stablehlo.gather (windows)": Example(
        "32x16xf32, 8x1xi32 -> 8x4x16xf32",
        (
            "dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>, "
            "slice_sizes = array<i64: 4, 16>, indices_are_sorted = false"
        ),
        independent=".k, i. -> i.k",
        differs=_FINDS_PART,
    ),
    "stablehlo.scatter": Example(
        "32x16xf32, 8x1xi32, 8x16xf32 -> 32x16xf32",
        (
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false, "
            "indices_are_sorted = false"
        ),
        _ADD,
        independent=".k, .., .k -> .k",
    ),
    "stablehlo.scatter (replacing)": Example(
        "32x16xf32, 8x1xi32, 8x16xf32 -> 32x16xf32",
        (
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false, "
            "indices_are_sorted = false"
        ),
        """{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }""",
        independent=".k, .., .k -> .k",
    ),
    "stablehlo.scatter (batching)": Example(
        "8x32x16xf32, 8x4x1xi32, 8x4x16xf32 -> 8x32x16xf32",
        (
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], "
            "input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
            "index_vector_dim = 2>, unique_indices = false, indices_are_sorted = false"
        ),
        _ADD,
        independent="b.k, b.., b.k -> b.k",
    ),
    "stablehlo.scatter (windows)": Example(
        "32x16xf32, 8x1xi32, 8x4x16xf32 -> 32x16xf32",
        (
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false, "
            "indices_are_sorted = false"
        ),
        _ADD,
        independent=".k, .., ..k -> .k",
        differs="ours writes to every shard what falls into it; Shardy gathers what windows cover",
    ),
    "stablehlo.scatter (of two operands)": Example(
        "32x16xf32, 32x16xf32, 8x1xi32, 8x16xf32, 8x16xf32 -> 32x16xf32, 32x16xf32",
        (
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false, "
            "indices_are_sorted = false"
        ),
        """{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    %r = stablehlo.add %a, %c : tensor<f32>
    %s = stablehlo.maximum %b, %d : tensor<f32>
    stablehlo.return %r, %s : tensor<f32>, tensor<f32>
  }""",
        independent=".k, .k, .., .k, .k -> .k, .k",
        differs="ours combines the partial results of each operand by its own reducer; Shardy gathers the updates",
    ),
    "stablehlo.sort": Example(
        "8x16xf32 -> 8x16xf32",
        "dimension = 1 : i64, is_stable = true",
        _COMPARE,
        independent="i. -> i.",
        differs="ours sorts a split dimension by exchanging parts of columns; Shardy has it whole",
    ),
}

_WINDOW = "window_dimensions = array<i64: 1, {0}>, window_strides = array<i64: 1, {1}>"
_NORMALIZE = "epsilon = 0.01 : f32, feature_index = 1 : i64"
_ARITHMETIC: dict[str, Example] = {
    "stablehlo.dot_general": Example("4x8x16xf32, 4x16x32xf32 -> 4x8x32xf32", _DOT, independent="bi., b.j -> bij"),
    "stablehlo.reduce": Example("8x16xf32, f32 -> 8xf32", "dimensions = array<i64: 1>", _ADD, independent="i., -> i"),
    "stablehlo.reduce (by maximum)": Example(
        "8x16xf32, f32 -> 8xf32",
        "dimensions = array<i64: 1>",
        _body("stablehlo.maximum"),
        independent="i., -> i",
    ),
    "stablehlo.reduce (of two operands)": Example(
        "8x16xf32, 8x16xi32, f32, i32 -> 8xf32, 8xi32",
        "dimensions = array<i64: 1>",
        _ARGMAX,
        independent="i., i., , -> i, i",
        differs="partial results of several values are no sum or maximum of each: ours gathers and reduces "
        "them once more",
    ),
    "stablehlo.reduce_window (small)": Example(
        "8x16xf32, f32 -> 8x14xf32", _WINDOW.format(3, 1), _ADD, independent="i., -> i."
    ),
    "stablehlo.reduce_window (side by side)": Example(
        "8x16xf32, f32 -> 8x8xf32", _WINDOW.format(2, 2), _ADD, independent="i., -> i."
    ),
    "stablehlo.reduce_window (large)": Example(
        "8x16xf32, f32 -> 8x5xf32", _WINDOW.format(12, 1), _ADD, independent="i., -> i."
    ),
    "stablehlo.reduce_window (running)": Example(
        "8x16xf32, f32 -> 8x16xf32",
        _WINDOW.format(16, 1) + ", padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>",
        _ADD,
        independent="i., -> i.",
    ),
    "stablehlo.reduce_window (of a dimension)": Example(
        "8x16xf32, f32 -> 8x1xf32",
        _WINDOW.format(16, 1),
        _ADD,
        independent="i., -> i.",
        differs="ours leaves partial results, as a reduction does",
    ),
    "stablehlo.select_and_scatter": Example(
        "8x16xf32, 8x8xf32, f32 -> 8x16xf32",
        _WINDOW.format(2, 2),
        f"{_GREATER}, {_ADD}",
        independent="iJ, iJ, -> iJ",
        differs=_SOURCES,
    ),
    "stablehlo.select_and_scatter (overlapping)": Example(
        "8x16xf32, 8x14xf32, f32 -> 8x16xf32",
        _WINDOW.format(3, 1),
        f"{_GREATER}, {_ADD}",
        independent="i., i., -> i.",
        differs=_SOURCES,
    ),
    "stablehlo.convolution": Example(
        "8x32x16x4xf32, 3x1x4x12xf32 -> 8x32x16x12xf32",
        _convolution(1),
        independent="b.w., ...o -> b.wo",
        differs=_KERNEL,
    ),
    "stablehlo.convolution (gradient of a kernel)": Example(
        "4x32x16x8xf32, 32x16x8x12xf32 -> 4x3x1x12xf32",
        _convolution(1),
        independent="b..., ...o -> b..o",
        differs="the result may be split as well in ours, by fetching what its windows span",
    ),
    "stablehlo.convolution (feature groups)": Example(
        "8x32x16x4xf32, 3x1x2x12xf32 -> 8x32x16x12xf32",
        _convolution(2),
        independent="b.wG, ...G -> b.wG",
        differs=_KERNEL,
    ),
    "stablehlo.convolution (batch groups)": Example(
        "8x32x16x4xf32, 3x1x4x12xf32 -> 4x32x16x12xf32",
        _convolution(1, 2),
        independent="G.w., ...G -> ..wG",
        differs=_KERNEL,
    ),
    "stablehlo.cholesky": Example("8x4x4xf32 -> 8x4x4xf32", "lower = true", independent="b.. -> b.."),
    "stablehlo.triangular_solve": Example(
        "8x4x4xf32, 8x4x16xf32 -> 8x4x16xf32",
        "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>",
        independent="b.., b.j -> b.j",
        differs="ours passes through right-hand sides, each of which is solved alone",
    ),
    "stablehlo.fft": Example(
        "4x8x16xcomplex<f32> -> 4x8x16xcomplex<f32>",
        "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 16>",
        independent="ij. -> ij.",
        differs=_TRANSFORMS,
    ),
    "stablehlo.fft (of real numbers)": Example(
        "4x8x16xf32 -> 4x8x9xcomplex<f32>",
        "fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 16>",
        independent="ij. -> ij.",
        differs=_TRANSFORMS,
    ),
    "stablehlo.fft (of two dimensions)": Example(
        "4x8x16xcomplex<f32> -> 4x8x16xcomplex<f32>",
        "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 8, 16>",
        independent="i.. -> i..",
        differs=_TRANSFORMS,
    ),
    "stablehlo.batch_norm_inference": Example(
        "8x4x6xf32, 4xf32, 4xf32, 4xf32, 4xf32 -> 8x4x6xf32", _NORMALIZE, independent="ijk, j, j, j, j -> ijk"
    ),
    "stablehlo.batch_norm_training": Example(
        "8x4x6xf32, 4xf32, 4xf32 -> 8x4x6xf32, 4xf32, 4xf32",
        _NORMALIZE,
        independent=".j., j, j -> .j., j, j",
        differs=_STATISTICS,
    ),
    "stablehlo.batch_norm_grad": Example(
        "8x4x6xf32, 4xf32, 4xf32, 4xf32, 8x4x6xf32 -> 8x4x6xf32, 4xf32, 4xf32",
        _NORMALIZE,
        independent=".j., j, j, j, .j. -> .j., j, j",
        differs=_STATISTICS,
    ),
    "stablehlo.rng": Example(
        "f32, f32, 2xi64 -> 8x16xf32",
        "rng_distribution = #stablehlo<rng_distribution UNIFORM>",
        independent=", , . -> ..",  # one seed is made for all devices
        differs="Shardy has no rule; ours makes the numbers of a part of one seed for all devices",
    ),
    "stablehlo.rng_bit_generator": Example(
        "2xui64 -> 2xui64, 8x16xui32",
        "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>",
        independent=". -> ., ij",  # every device has the state
    ),
    "stablehlo.rng_bit_generator (as the platform does)": Example(
        "2xui64 -> 2xui64, 8x16xui32",
        "rng_algorithm = #stablehlo<rng_algorithm DEFAULT>",
        independent=". -> ., ij",  # every device has the state
        differs="which bits an element gets is up to the platform, so that ours makes them all on every "
        "device; Shardy splits them",
    ),
    "stablehlo.custom_call (mhlo.erf)": Example("8x16xf32 -> 8x16xf32", 'call_target_name = "mhlo.erf"'),
    "stablehlo.custom_call (with a rule of its own)": Example(
        "8x4x4xf32 -> 8x4x4xf32, 8x4xf32",
        'call_target_name = "lapack_sgeqrf_ffi", sdy.sharding_rule = '
        "#sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n]) {i=8, j=4, k=4, l=4, m=4, n=4}, custom>",
        independent="B.. -> B.., B.",  # padding is not given to such a call
        differs="a factor that occurs once is one that the call needs whole in ours; JAX writes such rules for batches",
    ),
    "stablehlo.custom_call (of an unknown target)": Example("8x16xf32 -> 8x16xf32", 'call_target_name = "unknown"'),
}

_GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_GATHER_NUMBERS = (
    "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
    "index_vector_dim = 1>, indices_are_sorted = false"
)
_TOKEN = "!stablehlo.token"
_CALL = "has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}"
_TRANSFER = "channel_handle = #stablehlo.channel_handle<handle = 1, type = {}>, is_host_transfer = true"

_CALLBACKS: dict[str, Example] = {
    "stablehlo.custom_call (Python callback)": Example(
        f"{_TOKEN}, 8x16xf32 -> {_TOKEN}, 8xf32",
        f'call_target_name = "xla_ffi_python_cpu_callback", {_CALL}',
        independent=", .. -> , .",
    ),
    "stablehlo.custom_call (Python callback of every device)": Example(
        "8x16xf32, 8xf32 ->",
        f'call_target_name = "xla_ffi_partitioned_python_cpu_callback", {_CALL}',
        independent="IJ, K ->",  # nor to such a call
        differs="Shardy has no rule; every device calls with the part that it has, whatever that is",
    ),
    "stablehlo.send": Example(f"8x16xf32, {_TOKEN} -> {_TOKEN}", _TRANSFER.format(2), independent=".., -> "),
    "stablehlo.recv": Example(f"{_TOKEN} -> 8x16xf32, {_TOKEN}", _TRANSFER.format(3), independent="-> .., "),
}

_STRUCTURE: dict[str, Example] = {
    "stablehlo.while": Example(f"{_F} -> {_F}", "", _WHILE),
    "stablehlo.case": Example(f"i32 -> {_F}", "", _BRANCHES),
    "stablehlo.if": Example(f"i1 -> {_F}", "", _BRANCHES),
    "stablehlo.optimization_barrier": Example(f"{_F} -> {_F}"),
    "stablehlo.tuple": Example(f"{_F} -> tuple<tensor<{_F}>>"),
    "stablehlo.get_tuple_element": Example(f"tuple<tensor<{_F}>> -> {_F}", "index = 0 : i32"),
    "stablehlo.composite": Example(f"{_F} -> {_F}", 'name = "my.twice", decomposition = @callee'),
    "stablehlo.broadcast": Example("16xf32 -> 8x16xf32", "broadcast_sizes = array<i64: 8>", independent="j -> ij"),
    "stablehlo.create_token": Example("-> !stablehlo.token"),
    "stablehlo.cross-replica-sum": Example(f"{_F} -> {_F}", _GROUPS),
    "stablehlo.dot": Example("8x16xf32, 16x32xf32 -> 8x32xf32", independent="i., .j -> ij"),
    "stablehlo.einsum": Example(
        "8x16xf32, 16x32xf32 -> 8x32xf32", 'einsum_config = "ij,jk->ik"', independent="i., .j -> ij"
    ),
    "stablehlo.unary_einsum": Example("8x16xf32 -> 8xf32", 'einsum_config = "ij->i"'),
    "stablehlo.torch_index_select": Example(
        "32x16xf32, 8xi32 -> 8x16xf32", "dim = 0 : i64, batch_dims = 0 : i64", independent=".j, i -> ij"
    ),
}
_REFUSED: dict[str, Example] = {
    "stablehlo.partition_id": Example("-> ui32"),
    "stablehlo.replica_id": Example("-> ui32"),
    "stablehlo.all_gather": Example("8x16xf32 -> 16x16xf32", f"all_gather_dim = 0 : i64, {_GROUPS}"),
    "stablehlo.all_reduce": Example(f"{_F} -> {_F}", _GROUPS, _ADD),
    "stablehlo.all_to_all": Example(
        "8x16xf32 -> 16x8xf32",
        f"split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {_GROUPS}",
    ),
    "stablehlo.async_start": Example(
        f"{_F} -> !stablehlo.future<tensor<{_F}>>",
        "",
        f"""{{
  ^bb0(%a: tensor<{_F}>):
    %b = "stablehlo.collective_permute"(%a) {{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}}
      : (tensor<{_F}>) -> tensor<{_F}>
    stablehlo.return %b : tensor<{_F}>
  }}""",
    ),
    "stablehlo.async_done": Example(f"!stablehlo.future<tensor<{_F}>> -> {_F}"),
    "stablehlo.collective_broadcast": Example(f"{_F} -> {_F}", _GROUPS),
    "stablehlo.collective_permute": Example(f"{_F} -> {_F}", "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"),
    "stablehlo.reduce_scatter": Example("8x16xf32 -> 4x16xf32", f"scatter_dimension = 0 : i64, {_GROUPS}", _ADD),
    "stablehlo.dynamic_broadcast_in_dim": Example("16xf32, 2xi64 -> 8x16xf32", "broadcast_dimensions = array<i64: 1>"),
    "stablehlo.dynamic_conv": Example(
        "8x32x16x4xf32, 3x1x4x12xf32, 2x2xi64 -> 8x32x16x12xf32",
        "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
        "feature_group_count = 1 : i64, batch_group_count = 1 : i64",
    ),
    "stablehlo.dynamic_gather": Example("32x16xf32, 8x1xi32, 2xi32 -> 8x16xf32", _GATHER_NUMBERS),
    "stablehlo.dynamic_iota": Example("2xi64 -> 8x16xi32", "iota_dimension = 0 : i64"),
    "stablehlo.dynamic_pad": Example("8x16xf32, f32, 2xi64, 2xi64, 2xi64 -> 8x18xf32"),
    "stablehlo.dynamic_reshape": Example("8x16xf32, 1xi64 -> 128xf32"),
    "stablehlo.real_dynamic_slice": Example("8x16xf32, 2xi64, 2xi64, 2xi64 -> 8x4xf32"),
    "stablehlo.set_dimension_size": Example("8x16xf32, i32 -> 8x?xf32", "dimension = 1 : i64"),
    "stablehlo.get_dimension_size": Example("8x16xf32 -> i32", "dimension = 1 : i64"),
    "stablehlo.infeed": Example(f"{_TOKEN} -> {_F}, {_TOKEN}", 'infeed_config = ""'),
    "stablehlo.outfeed": Example(f"{_F}, {_TOKEN} -> {_TOKEN}", 'outfeed_config = ""'),
}

EXAMPLES = _ELEMENTWISE | _CHLO | _MOVEMENT | _ARITHMETIC | _CALLBACKS | _STRUCTURE | _REFUSED
