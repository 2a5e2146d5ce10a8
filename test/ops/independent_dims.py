"""Which dimensions of an operation are independent of each other, stated by hand and not read from the rules.

For every example of `docs/op_examples.py` the dimensions of operands and results, as `bi., b.j -> bij`: along
dimensions with the same letter the operation computes each part from the parts of the operands alone; `.` is any other.
A capital letter is independent only in as many parts as the example's groups or pieces, two.
"""

from __future__ import annotations

from op_examples import EXAMPLES, operation_of

INDEPENDENT = {
    # movement
    "stablehlo.constant": "-> ij",
    "stablehlo.iota": "-> ij",
    "stablehlo.broadcast_in_dim": "j -> ij",
    "stablehlo.broadcast_in_dim (expanded)": "i. -> ij",
    "stablehlo.transpose": "ijk -> kij",
    "stablehlo.reshape (split)": "iJ -> iJ.",
    "stablehlo.reshape (merged)": "iJ. -> iJ",
    "stablehlo.reshape (regrouped)": "i. -> i..",
    "stablehlo.reshape (no common pieces)": ".. -> ..",
    **{name: "i. -> i." for name in EXAMPLES if operation_of(name) == "stablehlo.slice"},
    **{name: "i., -> i." for name in EXAMPLES if operation_of(name) == "stablehlo.pad"},
    **{name: "i., i. -> i." for name in EXAMPLES if operation_of(name) == "stablehlo.concatenate"},
    "stablehlo.reverse": "i. -> i.",
    **{name: "i., , -> i." for name in EXAMPLES if operation_of(name) == "stablehlo.dynamic_slice"},
    **{name: "i., i., , -> i." for name in EXAMPLES if operation_of(name) == "stablehlo.dynamic_update_slice"},
    "stablehlo.gather": ".k, ij. -> ijk",
    "stablehlo.gather (batching)": "b.k, bj. -> bjk",
    "stablehlo.gather (windows)": ".k, i. -> i.k",
    "stablehlo.scatter": ".k, .., .k -> .k",
    "stablehlo.scatter (replacing)": ".k, .., .k -> .k",
    "stablehlo.scatter (batching)": "b.k, b.., b.k -> b.k",
    "stablehlo.scatter (windows)": ".k, .., ..k -> .k",
    "stablehlo.scatter (of two operands)": ".k, .k, .., .k, .k -> .k, .k",
    "stablehlo.sort": "i. -> i.",
    "chlo.top_k": "i. -> i., i.",
    # arithmetic
    "stablehlo.dot_general": "bi., b.j -> bij",
    "chlo.ragged_dot (rows in groups)": "b.., .b.j, . -> b.j",
    "chlo.ragged_dot (contracted in groups)": "bi., b.j, . -> .bij",
    "chlo.ragged_dot (batch in groups)": ".i., ..j, . -> .ij",
    **{name: "i., -> i" for name in EXAMPLES if operation_of(name) == "stablehlo.reduce"},
    "stablehlo.reduce (of two operands)": "i., i., , -> i, i",
    **{name: "i., -> i." for name in EXAMPLES if operation_of(name) == "stablehlo.reduce_window"},
    "stablehlo.select_and_scatter": "iJ, iJ, -> iJ",
    "stablehlo.select_and_scatter (overlapping)": "i., i., -> i.",
    "stablehlo.convolution": "b.w., ...o -> b.wo",
    "stablehlo.convolution (feature groups)": "b.wG, ...G -> b.wG",
    "stablehlo.convolution (batch groups)": "G.w., ...G -> ..wG",
    "stablehlo.convolution (gradient of a kernel)": "b..., ...o -> b..o",
    "stablehlo.cholesky": "b.. -> b..",
    "stablehlo.triangular_solve": "b.., b.j -> b.j",
    "stablehlo.fft": "ij. -> ij.",
    "stablehlo.fft (of real numbers)": "ij. -> ij.",
    "stablehlo.fft (of two dimensions)": "i.. -> i..",
    "stablehlo.batch_norm_inference": "ijk, j, j, j, j -> ijk",
    "stablehlo.batch_norm_training": ".j., j, j -> .j., j, j",
    "stablehlo.batch_norm_grad": ".j., j, j, j, .j. -> .j., j, j",
    "stablehlo.rng_bit_generator": ". -> ., ij",  # every device has the state
    "stablehlo.rng_bit_generator (as the platform does)": ". -> ., ij",
    "stablehlo.rng": ", , . -> ..",  # one seed is made for all devices
    "chlo.scan": ".j, j -> .j, j",
    "chlo.scan (of rows)": ".., . -> .., .",
    "stablehlo.custom_call (mhlo.erf)": "ij -> ij",
    "stablehlo.custom_call (with a rule of its own)": "B.. -> B.., B.",  # padding is not given to such a call
    "stablehlo.custom_call (Python callback)": ", .. -> , .",
    "stablehlo.custom_call (Python callback of every device)": "IJ, K ->",  # nor to such a call
    "stablehlo.send": ".., -> ",
    "stablehlo.recv": "-> .., ",
    # structure
    "chlo.constant": "-> ij",
    "stablehlo.while": "ij -> ij",
    "stablehlo.case": " -> ij",
    "stablehlo.if": " -> ij",
    "stablehlo.optimization_barrier": "ij -> ij",
    "stablehlo.composite": "ij -> ij",
    "stablehlo.broadcast": "j -> ij",
    "stablehlo.dot": "i., .j -> ij",
    "stablehlo.einsum": "i., .j -> ij",
    "stablehlo.torch_index_select": ".j, i -> ij",
    # elementwise, where not all operands have the shape of the result
    "stablehlo.clamp": ", ij, -> ij",
    "stablehlo.select (one predicate)": ", ij, ij -> ij",
    "stablehlo.bitcast_convert (narrower)": "ij -> ij.",
    "stablehlo.bitcast_convert (wider)": "ij. -> ij",
    "chlo.broadcast_add (a vector to rows)": "ij, j -> ij",
    "chlo.broadcast_add (a column)": "ij, i. -> ij",
}
_OF_TWO = """add and atan2 compare complex divide maximum map minimum multiply or power remainder shift_left
    shift_right_arithmetic shift_right_logical subtract xor mulhi next_after polygamma zeta"""  # fmt: skip
_OF_ONE = """abs acos acosh asin asinh atan atanh _asin_acos_kernel bessel_i1e bitcast_convert cbrt ceil conj
    constant_like convert cosh cosine count_leading_zeros digamma erf erf_inv erfc exponential exponential_minus_one
    floor imag is_finite is_inf is_neg_inf is_pos_inf lgamma log log_plus_one logistic negate not popcnt real
    reduce_precision round_nearest_afz round_nearest_even rsqrt sign sine sinh sqrt square tan tanh"""  # fmt: skip
for _dialect in ("stablehlo.", "chlo.", "chlo.broadcast_"):
    for _names, _count in ((_OF_ONE, 1), (_OF_TWO, 2), ("select", 3)):
        for _name in _names.split():
            if _dialect + _name in EXAMPLES:
                INDEPENDENT.setdefault(_dialect + _name, f"{', '.join(['ij'] * _count)} -> ij")


def letters_of(name: str) -> list[str]:
    """The letters of the independent dimensions of an example."""
    return sorted(set(INDEPENDENT[name]) - set(" .,->"))


def dimensions_of(name: str) -> tuple[list[str], list[str]]:
    """A letter a dimension, for each operand and each result."""
    operands, results = INDEPENDENT[name].split("->")
    return _listed(operands), _listed(results)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []
