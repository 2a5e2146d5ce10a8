"""Reduce-scatters that libtpu keeps, by what they leave a device with, and those that it keeps in another layout."""

from __future__ import annotations

import pytest

import gspmd
from gspmd.transforms.machine.targets import TARGETS

pytest.importorskip("libtpu")

TOPOLOGIES = {"v3": "4x4", "v4": "2x2x4", "v5e": "4x4", "v5p": "2x2x4", "v6e": "4x4"}
PARTIAL = """
sdy.mesh @mesh = <["x"={x}, "y"=4]>
func.func @main(%a: tensor<{rows}x32768x{element}> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
                %b: tensor<32768x{n}x{element}> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}})
    -> (tensor<{rows}x{n}x{element}> {{sdy.sharding = #sdy.sharding<@mesh, [{scattered}]>}}) {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<{rows}x32768x{element}>, tensor<32768x{n}x{element}>) -> tensor<{rows}x{n}x{element}>
  return %0 : tensor<{rows}x{n}x{element}>
}}
"""
LAST, BEFORE = '{"x"}, {"y"}', '{"x", "y"}, {}'


def compiled(version: str, rows: int, n: int, element: str, scattered: str, target: bool) -> gspmd.CompiledProgram:
    """The scattered sum of `rows` times `n` elements a device, partitioned for the machine or for none."""
    topology = f"tpu:{version}:{TOPOLOGIES[version]}"
    devices = 4 * 4 * (2 if version == "v3" else 1)
    text = PARTIAL.format(x=devices // 4, rows=rows * devices // 4, n=n, element=element, scattered=scattered)
    partitioned = gspmd.partition(text, target=topology if target else "", options={"overlap": False})
    assert [c.kind for c in partitioned.collectives] == ["reduce_scatter"]
    return gspmd.compile_for(partitioned, topology)


def is_kept(program: gspmd.CompiledProgram) -> bool:
    """Whether nothing is sent by all-reduces; padding may have been added."""
    return not any("all_reduce" in each.made for each in program.dearer())


@pytest.mark.parametrize("version", TOPOLOGIES)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_the_table_says_what_is_kept(version: str, element: str) -> None:
    tiles = TARGETS[f"tpu-{version}"].scatter_tiles
    assert tiles is not None
    for rows in range(1, 5):
        count = rows * tiles.lanes
        program = compiled(version, 1024, 4 * count, element, LAST, target=False)
        assert is_kept(program) == (count % tiles.last[element] == 0), count
    for count in (8 * tiles.rows, 16 * tiles.rows):
        assert is_kept(compiled(version, 4 * count, 1024, element, BEFORE, target=False)), count


@pytest.mark.parametrize("version", TOPOLOGIES)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_another_layout_keeps_it(version: str, element: str) -> None:
    tiles = TARGETS[f"tpu-{version}"].scatter_tiles
    assert tiles is not None
    for count in (3 * tiles.last[element] // 2, 7 * tiles.last[element] // 2):
        program = compiled(version, 2048, 4 * count, element, LAST, target=True)
        assert "LayoutConstraint" in program.partitioned.module_text
        assert is_kept(program), count


def test_what_has_whole_tiles_is_left_alone() -> None:
    program = compiled("v3", 2048, 1024, "bf16", LAST, target=True)
    assert "LayoutConstraint" not in program.partitioned.module_text
