"""bitcast_convert, batch_norm, rng_bit_generator, custom_call, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.single_op import MESHES, check, read, rule_of

from gspmd.dialect.errors import Unsupported
from gspmd.dialect.rule import print_rule
from gspmd.pass_manager import PassManager
from gspmd.transforms.ops import OPS
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.propagate import Propagate


def bitcast(operand: str, result: str) -> str:
    return f"""
func.func public @main(%x: tensor<{operand}>) -> tensor<{result}> {{
  %0 = stablehlo.bitcast_convert %x : (tensor<{operand}>) -> tensor<{result}>
  return %0 : tensor<{result}>
}}
"""


@pytest.mark.parametrize(
    ("operand", "result"), [("5x6xf32", "5x6xi32"), ("5x6xf32", "5x6x2xi16"), ("5x6x2xf32", "5x6xf64")]
)
def test_bitcast_convert(operand: str, result: str) -> None:
    shape = (5, 6, 2) if operand == "5x6x2xf32" else (5, 6)
    check(bitcast(operand, result), [np.arange(np.prod(shape)).reshape(shape).astype(np.float32)], MESHES["4x2"])


NORMALIZE = {
    "inference": """
func.func public @main(%x: tensor<5x4x6xf32>, %scale: tensor<4xf32>, %offset: tensor<4xf32>,
                       %mean: tensor<4xf32>, %variance: tensor<4xf32>) -> tensor<5x4x6xf32> {
  %0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) <{
    epsilon = 0.01 : f32, feature_index = 1 : i64
  }> : (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<5x4x6xf32>
  return %0 : tensor<5x4x6xf32>
}
""",
    "training": """
func.func public @main(%x: tensor<5x4x6xf32>, %scale: tensor<4xf32>, %offset: tensor<4xf32>)
    -> (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %scale, %offset) <{epsilon = 0.01 : f32, feature_index = 1 : i64}>
    : (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1, %0#2 : tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>
}
""",
    "grad": """
func.func public @main(%x: tensor<5x4x6xf32>, %scale: tensor<4xf32>, %mean: tensor<4xf32>, %variance: tensor<4xf32>,
                       %g: tensor<5x4x6xf32>) -> (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %scale, %mean, %variance, %g) <{epsilon = 0.01 : f32, feature_index = 1 : i64}>
    : (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<5x4x6xf32>)
    -> (tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1, %0#2 : tensor<5x4x6xf32>, tensor<4xf32>, tensor<4xf32>
}
""",
}


@pytest.mark.parametrize("mesh", ["4x2", "2x2x2", "3x2"])
@pytest.mark.parametrize("kind", NORMALIZE)
def test_batch_norm(kind: str, mesh: str) -> None:
    """Split over features, over what statistics are taken of, and over both."""
    rng = np.random.default_rng(0)
    vectors = [rng.random(4).astype(np.float32) for _ in range({"inference": 4, "training": 2, "grad": 3}[kind])]
    inputs = [rng.random((5, 4, 6)).astype(np.float32), *vectors]
    if kind == "grad":
        inputs.append(rng.random((5, 4, 6)).astype(np.float32))
    check(NORMALIZE[kind], inputs, MESHES[mesh], tolerance=1e-5, count=4)


def test_batch_norm_of_vectors_and_of_short_floats() -> None:
    vector = NORMALIZE["grad"].replace("5x4x6x", "4x").replace("feature_index = 1", "feature_index = 0")
    check(vector, [np.arange(1, 5, dtype=np.float32) + i for i in range(5)], MESHES["4x2"], tolerance=1e-5)
    half = NORMALIZE["training"].replace("f32>", "f16>")
    rng = np.random.default_rng(0)
    inputs = [rng.random(shape).astype(np.float16) for shape in ((5, 4, 6), (4,), (4,))]
    check(half, inputs, MESHES["4x2"], tolerance=5e-3)


def test_rules_of_batch_norm() -> None:
    assert print_rule(rule_of(NORMALIZE["inference"])) == (
        "([i, j, k], [j], [j], [j], [j])->([i, j, k]) {i=5, j=4, k=6}"
    )
    assert print_rule(rule_of(NORMALIZE["training"])) == (
        "([i, j, k], [j], [j])->([i, j, k], [j], [j]) {i=5, j=4, k=6} permutation={i, k}"
    )


def custom_call(target: str) -> str:
    return f"""
func.func public @main(%x: tensor<5x6xf32>) -> tensor<5x6xf32> {{
  %0 = stablehlo.custom_call @{target}(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}}
"""


def test_custom_call_of_a_known_target() -> None:
    assert print_rule(rule_of(custom_call("mhlo.erf"))) == "([i, j])->([i, j]) {i=5, j=6}"


def test_custom_call_of_an_unknown_target_is_refused() -> None:
    with pytest.raises(Unsupported, match="calls 'lapack_sgetrf', which has no sharding rule; give it one with"):
        rule_of(custom_call("lapack_sgetrf"))


REFUSED = {
    "stablehlo.real_dynamic_slice": """%0 = stablehlo.real_dynamic_slice %x, %s, %s, %s
        : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<4xf32>""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_partitioned_is_refused_and_never_computed_whole(name: str) -> None:
    program = read(f"""
func.func public @main(%x: tensor<4xf32>, %y: tensor<f32>, %s: tensor<1xi64>) {{
  {REFUSED[name]}
  return
}}
""")
    (op,) = program.body.ops
    assert op.info.name == name
    for replicate in (False, True):
        with pytest.raises(Unsupported, match="; "):
            RuleBook(OPS, replicate).of_op(op.info, op.ir)


DEVICES = {
    "partition_id": '%0 = "stablehlo.partition_id"() : () -> tensor<ui32>',
    "collective_permute": """%0 = "stablehlo.collective_permute"(%x) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>""",
}


@pytest.mark.parametrize("replicate", [False, True])
@pytest.mark.parametrize("name", DEVICES)
def test_what_speaks_of_devices_is_refused_outside_of_manual_computations(name: str, replicate: bool) -> None:
    text = f"""
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%x: tensor<4xf32>) {{
  {DEVICES[name]}
  return
}}
"""
    with pytest.raises(Unsupported, match=r"depends on the device it runs on|communicates between devices") as caught:
        PassManager([Propagate(replicate_unsupported=replicate)]).run(parse_module(text, new_context()))
    assert caught.value.op == f"stablehlo.{name}"
    assert caught.value.location is not None
