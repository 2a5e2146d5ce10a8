from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec
from jaxlib.mlir import ir
from support.handwritten import GROUP_OF_4, partitioned

from gspmd.checks.checking import check
from gspmd.checks.comparison import compare, default_rtol
from gspmd.dialect.errors import ExecutionError, UsageError
from gspmd.runtime.executable import ShardedArray

MESH = '<["x"=4]>'


def program(arguments: str, results: str, body: str) -> str:
    return f"module {{ func.func public @main({arguments}) -> ({results}) {{\n{body}\n}} }}"


def all_reduce(value: str, type_: str, element: str = "f32") -> str:
    return f""""stablehlo.all_reduce"({value}) ({{ ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
      %s = stablehlo.add %a, %b : tensor<{element}>
      stablehlo.return %s : tensor<{element}> }}) {{{GROUP_OF_4}}} : ({type_}) -> {type_}"""


def total(size: int, masked: bool) -> tuple[str, str]:
    """The sum of a vector, and the same on 4 devices, with or without a mask over the padding."""
    zero = "%z = stablehlo.constant dense<0.0> : tensor<f32>"
    sum_of = "%r = stablehlo.reduce({} init: %z) applies stablehlo.add across dimensions = [0]"
    plain = program(
        f"%0: tensor<{size}xf32>",
        "tensor<f32>",
        f"{zero}\n{sum_of.format('%0')} : (tensor<{size}xf32>, tensor<f32>) -> tensor<f32>\nreturn %r : tensor<f32>",
    )
    local = -(-size // 4)
    vector = f"tensor<{local}xi32>"
    mask = f"""%p = stablehlo.partition_id : tensor<ui32>
      %q = stablehlo.convert %p : (tensor<ui32>) -> tensor<i32>
      %w = stablehlo.constant dense<{local}> : tensor<i32>
      %o = stablehlo.multiply %q, %w : tensor<i32>
      %bo = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<i32>) -> {vector}
      %i = stablehlo.iota dim = 0 : {vector}
      %x = stablehlo.add %i, %bo : {vector}
      %n = stablehlo.constant dense<{size}> : {vector}
      %k = stablehlo.compare LT, %x, %n : ({vector}, {vector}) -> tensor<{local}xi1>
      %y = stablehlo.constant dense<0.0> : tensor<{local}xf32>
      %m = stablehlo.select %k, %0, %y : tensor<{local}xi1>, tensor<{local}xf32>"""
    body = f"""{zero}\n{mask}
      {sum_of.format("%m" if masked else "%0")} : (tensor<{local}xf32>, tensor<f32>) -> tensor<f32>
      %g = {all_reduce("%r", "tensor<f32>")}
      return %g : tensor<f32>"""
    return plain, partitioned(MESH, [f'f32[{size}] [{{"x"}}]'], ["total: f32[] []"], body)


def elementwise(op: str, type_: str = "f32", wrong: str | None = None) -> tuple[str, str]:
    """A unary op on 7 rows, and the same (or `wrong`) on 4 devices."""
    plain = program(
        f"%0: tensor<7x3x{type_}>",
        f"tensor<7x3x{type_}>",
        f"%r = stablehlo.{op} %0 : tensor<7x3x{type_}>\nreturn %r : tensor<7x3x{type_}>",
    )
    body = f"%r = stablehlo.{wrong or op} %0 : tensor<2x3x{type_}>\nreturn %r : tensor<2x3x{type_}>"
    value = f'{type_}[7,3] [{{"x"}}, {{}}]'
    return plain, partitioned(MESH, [value], [value], body)


# ---- verdicts -------------------------------------------------------------------------------------


def test_a_right_program_passes() -> None:
    report = check(*total(6, masked=True))
    assert report.passed
    assert report
    assert (report.mesh, report.num_partitions, report.reference) == (MESH, 4, "one device")
    (result,) = report.results
    assert (result.name, result.shape, result.dtype, result.sharding) == ("total", (), "float32", "[]")
    assert 0 <= result.max_abs_error <= result.tolerance < 1e-3


def test_padding_that_leaks_is_found() -> None:
    report = check(*total(6, masked=False))
    assert not report.passed
    assert report.results[0].reason == "NaN in 1 wrong places, missing in 0"


@pytest.mark.parametrize("type_", ["i32", "i8", "ui32"])
def test_leaking_padding_of_integers_is_found(type_: str) -> None:
    local, whole = f"tensor<2x{type_}>", f"tensor<6x{type_}>"
    reduce = "%r = stablehlo.reduce(%0 init: %z) applies stablehlo.maximum across dimensions = [0]"
    low = f"%z = stablehlo.constant dense<0> : tensor<{type_}>"
    scalar = f"tensor<{type_}>"
    plain = program(f"%0: {whole}", scalar, f"{low}\n{reduce} : ({whole}, {scalar}) -> {scalar}\nreturn %r : {scalar}")
    body = f"""{low}\n{reduce} : ({local}, {scalar}) -> {scalar}
      %v = stablehlo.reshape %r : ({scalar}) -> tensor<1x{type_}>
      %g = "stablehlo.all_gather"(%v) {{all_gather_dim = 0 : i64, {GROUP_OF_4}}}
        : (tensor<1x{type_}>) -> tensor<4x{type_}>
      %m = stablehlo.reduce(%g init: %z) applies stablehlo.maximum across dimensions = [0]
        : (tensor<4x{type_}>, {scalar}) -> {scalar}
      return %m : {scalar}"""
    report = check(plain, partitioned(MESH, [f'{type_}[6] [{{"x"}}]'], [f"{type_}[] []"], body))
    assert not report.passed
    assert report.results[0].reason == "1 of 1 elements differ"
    assert report.results[0].max_abs_error > 100


def test_every_copy_is_compared() -> None:
    plain = program("%0: tensor<3xf32>", "tensor<3xf32>", "return %0 : tensor<3xf32>")
    body = """%p = stablehlo.partition_id : tensor<ui32>
      %l = stablehlo.constant dense<3> : tensor<ui32>
      %c = stablehlo.compare EQ, %p, %l : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %n = stablehlo.negate %0 : tensor<3xf32>
      %r = stablehlo.select %c, %n, %0 : tensor<i1>, tensor<3xf32>
      return %r : tensor<3xf32>"""
    report = check(plain, partitioned(MESH, ["f32[3] [{}]"], ["f32[3] [{}]"], body))
    assert not report.passed
    assert report.results[0].max_rel_error == 2
    assert report.results[0].reason.startswith("error ")


def test_the_copy_that_differs_is_named() -> None:
    plain = program("%0: tensor<3xi32>", "tensor<3xi32>", "return %0 : tensor<3xi32>")
    body = """%p = stablehlo.partition_id : tensor<ui32>
      %l = stablehlo.constant dense<2> : tensor<ui32>
      %c = stablehlo.compare EQ, %p, %l : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %n = stablehlo.not %0 : tensor<3xi32>
      %r = stablehlo.select %c, %n, %0 : tensor<i1>, tensor<3xi32>
      return %r : tensor<3xi32>"""
    report = check(plain, partitioned(MESH, ["i32[3] [{}]"], ["i32[3] [{}]"], body))
    assert report.results[0].reason == "copy on partition 2: 3 of 3 elements differ"


@pytest.mark.parametrize("type_", ["f32", "f64", "bf16", "f16", "complex<f32>"])
def test_a_wrong_operation_is_found(type_: str) -> None:
    assert check(*elementwise("sine", type_)).passed
    report = check(*elementwise("sine", type_, wrong="tanh"))
    assert not report.passed
    assert report.results[0].reason.startswith("error ")


@pytest.mark.parametrize(("type_", "op", "wrong"), [("i32", "negate", "abs"), ("ui64", "not", "popcnt")])
def test_wrong_integers_are_found_whatever_the_tolerance(type_: str, op: str, wrong: str) -> None:
    assert check(*elementwise(op, type_)).passed
    report = check(*elementwise(op, type_, wrong), rtol=10.0, atol=1e30)
    assert not report.passed
    assert "elements differ" in report.results[0].reason


def test_wrong_bools_are_found() -> None:
    plain, right = elementwise("not", "i1")
    assert check(plain, right).passed
    value = 'i1[7,3] [{"x"}, {}]'
    report = check(plain, partitioned(MESH, [value], [value], "return %0 : tensor<2x3xi1>"))
    assert report.results[0].reason == "21 of 21 elements differ"


def test_tolerances_are_relative_to_the_largest_element() -> None:
    plain = program("%0: tensor<4xf32>", "tensor<4xf32>", "return %0 : tensor<4xf32>")
    body = """%c = stablehlo.constant dense<0.5> : tensor<1xf32>
      %r = stablehlo.add %0, %c : tensor<1xf32>
      return %r : tensor<1xf32>"""
    module = partitioned(MESH, ['f32[4] [{"x"}]'], ['f32[4] [{"x"}]'], body)
    array = np.array([1, 2, 3, 50], np.float32)
    assert check(plain, module, inputs=[array], rtol=0.0101).passed
    assert not check(plain, module, inputs=[array], rtol=0.0099).passed
    assert check(plain, module, inputs=[array], atol=0.51).passed
    assert not check(plain, module, inputs=[array], atol=0.49).passed
    assert check(plain, module, inputs=[array], atol=0.25, rtol=0.0051).passed


def test_nan_and_infinity_must_be_in_place() -> None:
    expected = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert not compare(expected, expected.copy()).mismatch
    for actual, message in (
        ([1, np.inf, -np.inf, 1], "NaN in 0 wrong places, missing in 1"),
        ([np.nan, -np.inf, -np.inf, 1], "inf in 0 wrong places, missing in 1"),
        ([np.nan, np.inf, 3e38, 1], "-inf in 0 wrong places, missing in 1"),
        ([np.nan, np.inf, -np.inf, np.inf], "inf in 1 wrong places, missing in 0"),
        ([np.nan, np.inf, -np.inf, np.nan], "NaN in 1 wrong places, missing in 0"),
    ):
        assert compare(expected, np.array(actual, np.float32)).mismatch == message


def test_results_of_size_zero_and_zero_results_agree() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert compare(empty, empty).max_rel_error == 0
    zero = compare(np.zeros(2, np.float32), np.array([0, 1e-30], np.float32))
    assert zero.max_rel_error == np.inf


# ---- inputs ---------------------------------------------------------------------------------------


def test_nan_of_signed_inputs_is_tried_again_without_sign() -> None:
    report = check(*elementwise("sqrt"))
    assert report.passed
    assert [run.inputs for run in report.runs] == ["random inputs of seed 0", "non-negative random inputs of seed 0"]
    assert report.notes == ("the reference has NaN in results 0: run again with non-negative inputs",)
    assert report.runs[0].results[0].nonfinite > 0
    assert report.runs[1].results[0].nonfinite == 0
    assert not check(*elementwise("sqrt", wrong="abs")).passed


def _steep(factor: float) -> tuple[str, str]:
    """exp(80 + 1000 |x|), which is infinite for most of the first inputs; with another `factor`, a wrong program."""

    def body(shape: str, factor: float) -> str:
        return f"""%c = stablehlo.constant dense<{factor}> : tensor<{shape}>
          %d = stablehlo.constant dense<8.0e1> : tensor<{shape}>
          %a = stablehlo.abs %0 : tensor<{shape}>
          %b = stablehlo.multiply %a, %c : tensor<{shape}>
          %s = stablehlo.add %b, %d : tensor<{shape}>
          %r = stablehlo.exponential %s : tensor<{shape}>
          return %r : tensor<{shape}>"""

    plain = program("%0: tensor<64xf32>", "tensor<64xf32>", body("64xf32", 1e3))
    return plain, partitioned(MESH, ['f32[64] [{"x"}]'], ['f32[64] [{"x"}]'], body("16xf32", factor))


def test_what_overflows_is_tried_again_with_smaller_inputs() -> None:
    report = check(*_steep(1e3))
    assert report.passed
    assert [run.inputs for run in report.runs] == [
        "random inputs of seed 0",
        "random inputs of seed 0, at most 0.125",
        "random inputs of seed 0, at most 0.015625",
    ]
    first, *_, last = (run.results[0].nonfinite for run in report.runs)
    assert first > 60 > 40 > last
    assert not check(*_steep(2e3)).runs[-1].passed


def test_elements_that_overflow_by_rounding_pass_with_a_note() -> None:
    edge = np.full(64, 0.008722835, np.float32)  # the next larger number overflows
    report = check(*_steep(1000.0001), inputs=[edge])
    (result,) = report.results
    assert (result.nonfinite, result.passed) == (0, True)
    assert result.reason == "ill-conditioned: rounding the inputs makes other elements overflow"
    assert not check(*_steep(1000.1), inputs=[edge * np.float32(0.9999)]).passed


def test_the_seed_and_given_inputs_are_used(tmp_path: Path) -> None:
    modules = elementwise("sine")
    errors = {seed: check(*modules, seed=seed).results[0].tolerance for seed in (0, 1)}
    assert errors[0] != errors[1]
    array = np.full((7, 3), 0.5, np.float32)
    np.savez(tmp_path / "in.npz", **{"0": array})
    for inputs in ([array], [jnp.asarray(array)], tmp_path / "in.npz", str(tmp_path / "in.npz")):
        report = check(*modules, inputs=inputs)
        assert report.passed
        assert report.results[0].tolerance == pytest.approx(np.sin(0.5) * default_rtol(np.dtype("float32")))
    with pytest.raises(ExecutionError, match=r"argument 0 has shape \(3, 7\), expected the global shape \(7, 3\)"):
        check(*modules, inputs=[array.T])
    with pytest.raises(ExecutionError, match="got 0 arguments, expected 1"):
        check(*modules, inputs=[])


def test_donated_inputs_of_the_user_live_on() -> None:
    plain, module = elementwise("sine")
    donating = module.replace("%arg0: tensor<2x3xf32> {", "%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32, ")
    assert donating != module
    array = jnp.full((7, 3), 0.5)
    assert check(plain, donating, inputs=[array]).passed
    assert not array.is_deleted()


# ---- ill-conditioned programs ---------------------------------------------------------------------


def _cancelling(wrong: bool) -> tuple[str, str]:
    """1e6 * (0.1 + x - x): nothing but rounding errors, in an order that partitioning changes."""

    def body(shape: str, first: str) -> str:
        return f"""%c = stablehlo.constant dense<1.0e3> : tensor<{shape}>
          %a = stablehlo.multiply %0, %c : tensor<{shape}>
          {first}
          %d = stablehlo.subtract %b, %a : tensor<{shape}>
          %r = stablehlo.subtract %d, %0 : tensor<{shape}>
          return %r : tensor<{shape}>"""

    plain = program(
        "%0: tensor<64xf32>", "tensor<64xf32>", body("64xf32", "%b = stablehlo.add %a, %0 : tensor<64xf32>")
    )
    other = """%k = stablehlo.constant dense<{}> : tensor<16xf32>
      %e = stablehlo.multiply %0, %k : tensor<16xf32>""".format("1001.5" if wrong else "1001.0")
    local = body("16xf32", f"{other}\n%b = stablehlo.add %e, %z : tensor<16xf32>").replace(
        "%c = ", "%z = stablehlo.constant dense<0.0> : tensor<16xf32>\n%c = ", 1
    )
    return plain, partitioned(MESH, ['f32[64] [{"x"}]'], ['f32[64] [{"x"}]'], local)


def test_errors_that_rounding_explains_pass_with_a_note() -> None:
    report = check(*_cancelling(wrong=False))
    (result,) = report.results
    assert result.max_rel_error > result.tolerance
    assert result.passed
    assert result.noise is not None
    assert result.reason.startswith("ill-conditioned: rounding the inputs moves the reference by ")


def test_errors_that_rounding_does_not_explain_fail() -> None:
    report = check(*_cancelling(wrong=True))
    assert not report.passed
    assert report.results[0].noise is not None
    assert report.results[0].reason.startswith("error ")


def test_explicit_tolerances_are_final() -> None:
    report = check(*_cancelling(wrong=False), rtol=2e-5)
    assert not report.passed
    assert report.results[0].noise is None


def _mixed(factor: float) -> tuple[str, str]:
    """A float32 result that is rounded to bfloat16 on its way, which the partitioned program leaves out."""
    types = "tensor<64xf32>, tensor<64xf32>"
    plain = program(
        "%0: tensor<64xf32>",
        types,
        """%a = stablehlo.convert %0 : (tensor<64xf32>) -> tensor<64xbf16>
          %b = stablehlo.convert %a : (tensor<64xbf16>) -> tensor<64xf32>
          %c = stablehlo.negate %0 : tensor<64xf32>
          return %b, %c : tensor<64xf32>, tensor<64xf32>""",
    )
    local = f"""%k = stablehlo.constant dense<{factor}> : tensor<16xf32>
          %c = stablehlo.negate %0 : tensor<16xf32>
          %d = stablehlo.multiply %0, %k : tensor<16xf32>
          return %d, %c : tensor<16xf32>, tensor<16xf32>"""
    return plain, partitioned(MESH, ['f32[64] [{"x"}]'], ['f32[64] [{"x"}]'] * 2, local)


def test_what_is_made_of_a_narrower_type_is_as_exact_as_that() -> None:
    report = check(*_mixed(1.0))
    first, second = report.results
    assert first.max_rel_error > first.tolerance
    assert report.passed
    assert first.reason.startswith("computed in bfloat16: the relative error ")
    assert not second.reason


def test_what_a_narrower_type_does_not_explain_fails() -> None:
    report = check(*_mixed(1.1))
    assert not report.passed
    assert report.results[0].reason.startswith("error ")


# ---- what is compared with what -------------------------------------------------------------------


def test_the_partitioner_may_be_a_function() -> None:
    plain, module = elementwise("sine")
    seen: list[Any] = []

    def partitioner(original: ir.Module) -> str:
        seen.append(original)
        return module

    assert check(plain, partitioner).passed
    assert isinstance(seen[0], ir.Module)
    assert check(plain.encode(), module).passed


def test_the_number_of_devices_must_be_that_of_the_module() -> None:
    modules = elementwise("sine")
    assert check(*modules, num_devices=4).passed
    with pytest.raises(UsageError, match="the partitioned module is for 4 devices, expected 8"):
        check(*modules, num_devices=8)


def test_modules_that_do_not_belong_together() -> None:
    with pytest.raises(UsageError) as caught:
        check(elementwise("sine")[0], total(6, masked=True)[1])
    assert str(caught.value) == (
        "gspmd: error: the partitioned module has the arguments (tensor<6xf32>), expected (tensor<7x3xf32>); "
        "compare it with the module that it was made from"
    )


@pytest.mark.parametrize("tolerances", [{"rtol": -1.0}, {"atol": -1e-3}, {"rtol": float("nan")}])
def test_tolerances_must_be_numbers_of_at_least_zero(tolerances: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected a number of at least 0"):
        check(*elementwise("sine"), **tolerances)


def test_manual_regions_are_compared_with_xla() -> None:
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    mapped = jax.shard_map(
        lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec()
    )
    text = jax.jit(lambda x: mapped(x) * 2).lower(jnp.zeros(8)).as_text()

    def by_hand(factor: float) -> str:
        body = f"""%g = {all_reduce("%0", "tensor<2xf32>")}
          %c = stablehlo.constant dense<{factor}> : tensor<2xf32>
          %r = stablehlo.multiply %g, %c : tensor<2xf32>
          return %r : tensor<2xf32>"""
        return partitioned(MESH, ['f32[8] [{"x"}]'], ["f32[2] [{}]"], body)

    report = check(text, by_hand(2.0))
    assert report.passed
    assert report.reference == "XLA's partitioner on 4 devices, for the manual regions"
    assert not check(text, by_hand(3.0)).passed


def test_slow_steps_are_announced() -> None:
    names: list[str] = []

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        names.append(name)
        yield

    check(*elementwise("sine"), stage=stage)
    assert names == [
        "partitioning",
        "compiling the partitioned program",
        "compiling the original program",
        "running the original program",
        "running the partitioned program",
    ]


def test_the_report_is_json() -> None:
    plain = program(
        "%0: tensor<4xf32>",
        "tensor<4xf32>",
        "%r = stablehlo.constant dense<0.0> : tensor<4xf32>\nreturn %r : tensor<4xf32>",
    )
    module = partitioned(MESH, ['f32[4] [{"x"}]'], ['f32[4] [{"x"}]'], "return %0 : tensor<1xf32>")
    report = check(plain, module)
    text = json.dumps(report.to_dict(), allow_nan=False)
    (result,) = json.loads(text)["runs"][0]["results"]
    assert result["passed"] is False
    assert result["max_rel_error"] is None
    assert result["shape"] == [4]


@pytest.mark.parametrize(
    ("name", "rtol"),
    [("float32", 2e-5), ("float64", 3.7e-14), ("float16", 3.9e-3), ("bfloat16", 3.1e-2), ("complex64", 2e-5)],
)
def test_default_tolerances(name: str, rtol: float) -> None:
    dtype = np.dtype(getattr(__import__("ml_dtypes"), name, name))
    assert default_rtol(dtype) == pytest.approx(rtol, rel=0.02)


@pytest.mark.parametrize("name", ["int32", "bool", "uint8"])
def test_exact_types_have_no_tolerance(name: str) -> None:
    assert default_rtol(np.dtype(name)) == 0


def test_sharded_arrays_can_be_given() -> None:
    from gspmd.runtime import executable as runtime

    plain, module = elementwise("sine")
    (array,) = runtime.compile(module).place(np.full((7, 3), 0.5, np.float32))
    assert isinstance(array, ShardedArray)
    assert check(plain, module, inputs=[array]).passed
