"""Operations of dialects that are not ours, defined from outside."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gspmd
from gspmd.dialect.rule import PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, take_windows
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops import define, forget, traits_of
from gspmd.transforms.ops.elementwise import elementwise_rule
from gspmd.transforms.ops.op_definition import OpDef
from gspmd.transforms.ops.traits import Traits

TEXT = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = "acme.op"(%a) {by = 0.5 : f32} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""


def rolled_rule(info: OpInfo) -> OpShardingRule:
    (rows, columns) = info.results[0].shape
    builder = RuleBuilder([(rows, columns)], [(rows, columns)])
    builder.factor([0], [0], rows, PERMUTATION)
    builder.factor([1], [1], columns)
    return builder.build()


def localize_rolled(op: LocalOp) -> None:
    """Every row becomes the one behind it, the last one zero, in StableHLO."""
    axes, size = op.operand_axes(0, 0), op.info.results[0].shape[0]
    local = op.local_result(0).shape[0]
    windows = Windows(size, 1, local, local)
    cause = op.cause("'acme.op' rolls a split dimension")
    op.replace([take_windows(op.emit, op.operands[0], 0, axes, windows, "zero", cause)])


@pytest.fixture
def elementwise() -> Iterator[None]:
    define(OpDef("acme.op", elementwise_rule, traits=Traits(elementwise=True)))
    yield
    forget("acme.op")


@pytest.mark.usefixtures("elementwise")
def test_an_operation_of_another_dialect_is_partitioned_by_its_rule() -> None:
    partitioned = gspmd.partition(TEXT)
    assert (
        '"acme.op"(%arg0) {by = 5.000000e-01 : f32} : (tensor<2x4xf32>) -> tensor<2x4xf32>' in partitioned.module_text
    )
    assert not partitioned.collectives
    assert traits_of("acme.op").elementwise


@pytest.mark.usefixtures("elementwise")
def test_what_is_known_is_not_defined_again() -> None:
    for name in ("acme.op", "stablehlo.add", "stablehlo.while"):
        with pytest.raises(gspmd.UsageError, match=f"operation '{name}' is defined already"):
            define(OpDef(name, elementwise_rule))
    with pytest.raises(gspmd.UsageError, match="names no dialect"):
        define(OpDef("blend", elementwise_rule))
    with pytest.raises(gspmd.UsageError, match="was not added"):
        forget("stablehlo.add")


def test_nothing_is_left_of_what_is_forgotten() -> None:
    with pytest.raises(gspmd.ParseError, match="unregistered dialect"):
        gspmd.partition(TEXT)


def test_a_local_form_of_stablehlo_runs() -> None:
    define(OpDef("acme.op", rolled_rule, localize_rolled))
    try:
        partitioned = gspmd.partition(TEXT)
    finally:
        forget("acme.op")
    assert [(c.kind, c.bytes) for c in partitioned.collectives] == [("collective_permute", 16)]
    given = np.arange(32, dtype=np.float32).reshape(8, 4)
    (found,) = gspmd.compile(partitioned)(given)
    wanted = np.vstack([given[1:], np.zeros((1, 4), np.float32)])
    np.testing.assert_array_equal(found, wanted)
