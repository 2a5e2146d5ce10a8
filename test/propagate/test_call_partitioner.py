"""Functions that split custom calls, given to `gspmd.partition` as a custom rule."""

from __future__ import annotations

import re

import pytest

import gspmd
from gspmd.dialect.axes import Axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.custom_rules import CallPartitioner, SplitCall

PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                       %b: tensor<16x6xf32>) -> (tensor<8x6xf32>, tensor<16x6xf32>) {
  %0 = stablehlo.custom_call @kernel(%a) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.custom_call @kernel(%b) : (tensor<16x6xf32>) -> tensor<16x6xf32>
  return %0, %1 : tensor<8x6xf32>, tensor<16x6xf32>
}
"""


class Rows(CallPartitioner):
    """Splits rows, whose function doubles them first."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.asked: list[tuple[str, ...]] = []

    def rule(self, info: OpInfo) -> OpShardingRule:
        shape = info.operands[0].shape
        builder = RuleBuilder([shape], [shape])
        builder.factor([0], [0], shape[0], even=True)
        return builder.build()

    def split(
        self, info: OpInfo, operands: tuple[TensorSharding, ...], results: tuple[TensorSharding, ...], held: Axes
    ) -> SplitCall:
        assert len(held) in (0, 2)
        self.asked.append((print_dims(operands[0]), print_dims(results[0])))
        kept = operands[0].with_axes((operands[0].dim_axes()[0], ()))
        part = info.operands[0].of_shape(kept.local_shape(info.operands[0].shape)).text
        program = f"""
          func.func public @main(%a: {part}) -> {part} {{
            %0 = func.call @body(%a) : ({part}) -> {part}
            return %0 : {part}
          }}
          func.func private @body(%a: {part}) -> {part} {{
            %0 = stablehlo.add %a, %a : {part}
            %1 = stablehlo.sine %0 : {part}
            return %1 : {part}
          }}
        """
        return SplitCall(program, (kept,), (kept,))


def test_calls_become_what_the_functions_make_of_them() -> None:
    rows = Rows(Mesh((("x", 4), ("y", 2))))
    partitioned = gspmd.partition(PROGRAM, custom_rules={"kernel": rows})
    assert rows.asked == [('[{"x"}, {"y"}]', '[{"x"}, {}]'), ("[{}, {}]", "[{}, {}]")]
    assert re.findall(r"stablehlo.sine .* : tensor<(\w+)>", partitioned.module_text) == ["2x6xf32", "16x6xf32"]
    assert [c.kind for c in partitioned.collectives] == ["all_gather"]


def test_a_mesh_that_is_called_otherwise_has_the_same_devices() -> None:
    rows = Rows(Mesh((("major", 4), ("minor", 2))))
    partitioned = gspmd.partition(PROGRAM, custom_rules={"kernel": rows})
    assert rows.asked[0] == ('[{"major"}, {"minor"}]', '[{"major"}, {}]')
    assert partitioned.out_shardings[0].sdy == '<@mesh, [{"x"}, {}]>'


def test_a_mesh_with_larger_axes_sees_what_it_has_words_for() -> None:
    rows = Rows(Mesh((("all", 8),)))
    gspmd.partition(PROGRAM, custom_rules={"kernel": rows})
    assert rows.asked[0] == ('[{"all":(1)4}, {"all":(4)2}]', '[{"all":(1)4}, {}]')


def test_within_a_whole_manual_computation_it_is_part_of_that() -> None:
    program = """
      sdy.mesh @mesh = <["x"=4, "y"=2]>
      func.func public @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
            manual_axes={"x", "y"} (%b: tensor<2x3xf32>) {
          %1 = stablehlo.custom_call @kernel(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
          sdy.return %1 : tensor<2x3xf32>
        } : (tensor<8x6xf32>) -> tensor<8x6xf32>
        return %0 : tensor<8x6xf32>
      }
    """
    rows = Rows(Mesh((("x", 4), ("y", 2))))
    partitioned = gspmd.partition(program, custom_rules={"kernel": rows})
    assert rows.asked == [("[{}, {}]", "[{}, {}]")]
    assert re.findall(r"stablehlo.sine .* : tensor<(\w+)>", partitioned.module_text) == ["2x3xf32"]
    assert not partitioned.collectives


def test_other_calls_are_refused_as_before() -> None:
    rows = Rows(Mesh((("x", 4), ("y", 2))))
    with pytest.raises(gspmd.Error, match="calls 'kernel', which has no sharding rule"):
        gspmd.partition(PROGRAM, custom_rules={"another": rows})


def test_explained_as_manual_computations() -> None:
    rows = Rows(Mesh((("x", 4), ("y", 2))))
    values = {value.name: value for value in gspmd.explain(PROGRAM, custom_rules={"kernel": rows}).values}
    assert values["%0"].operation == "sdy.manual_computation"
    assert values["%0/2"].operation == "stablehlo.add"
