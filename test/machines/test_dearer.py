"""Collectives that a compiler turns into dearer ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import gspmd
from gspmd.compiled.dearer import dearer_collectives
from gspmd.tools import cli

PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<1024x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
                %b: tensor<1024x{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
    -> (tensor<64x{n}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{"x"}}]>}}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
    : (tensor<1024x64xf32>, tensor<1024x{n}xf32>) -> tensor<64x{n}xf32>
  return %0 : tensor<64x{n}xf32>
}}
"""
REDUCED = """HloModule m, num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (p: f32[32,240]) -> f32[32,240] {
  %p = f32[32,240]{1,0} parameter(0)
  ROOT %r = f32[32,240]{1,0} all-reduce(%p), replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true, \
channel_id=1, to_apply=%add, metadata={op_name="dot" source_file="model.py" source_line=7}
}
"""
needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")


def test_an_all_reduce_of_a_reduce_scatter() -> None:
    partitioned = gspmd.partition(PROGRAM.format(n=240))
    asked = partitioned.collectives
    assert [c.kind for c in asked] == ["reduce_scatter"]
    (found,) = dearer_collectives(asked, REDUCED, partitioned.mesh)
    assert found.axes == '"x"'
    assert found.asked == {"reduce_scatter": 32 * 240 * 4 * 3 / 4}
    assert found.made == {"all_reduce": 2 * 32 * 240 * 4 * 3 / 4}
    assert found.sources == ("model.py:7",)


def test_what_stays_as_it_is_is_no_news() -> None:
    compiled = gspmd.compile_for(PROGRAM.format(n=512), "cpu:8")
    assert compiled.dearer() == []


@needs_libtpu
@pytest.mark.parametrize(("n", "warned"), [(24, True), (512, False)])
def test_gspmd_compile_warns(n: int, warned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM.format(n=n))
    assert cli.main(["compile", str(path), "--target", "tpu:v5e:2x4"]) == 0
    text = "warning: over x the compiler made 4.5 KiB of all_reduce of 2.2 KiB of reduce_scatter"
    assert (text in capsys.readouterr().out) == warned
