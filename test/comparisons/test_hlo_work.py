"""What is read of optimised HLO: the axes that collectives run over, and the lines that they come from."""

from __future__ import annotations

import pytest

from gspmd.compiled.hlo_work import axes_of, work_in
from gspmd.compiled.optimized_hlo import OptimizedModule
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes

MESH = Mesh((("x", 4), ("y", 2)))
GATHER = """HloModule m, num_partitions=8

ENTRY %main (a: f32[4,8]) -> f32[16,8] {
  %a = f32[4,8]{1,0} parameter(0)
  ROOT %g = f32[16,8]{1,0} all-gather(%a), replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}, metadata={NAME}
}
"""


@pytest.mark.parametrize(
    ("attributes", "axes"),
    [
        ("replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0}", '"y"'),
        ("replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}", '"x"'),
        ("replica_groups={{0,2},{1,3},{4,6},{5,7}}, dimensions={0}", '"x":(2)2'),
        ("replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}", '"x":(1)2'),
        ("replica_groups=[1,8]<=[8], dimensions={0}", '"x", "y"'),
        ("replica_groups={{0,6},{2,4},{1,7},{3,5}}, dimensions={0}", '"x"'),
        ("source_target_pairs={{0,0},{1,3},{3,1},{2,2}}", '"x"'),
        ("dimensions={0}", '"x", "y"'),
    ],
)
def test_axes_of_groups(attributes: str, axes: str) -> None:
    assert print_axes(axes_of(attributes, MESH), MESH) == axes


def test_axes_are_those_of_the_mesh_in_its_own_order() -> None:
    mesh = Mesh((("x", 2), ("y", 2)), device_ids=(0, 2, 1, 3))
    assert print_axes(axes_of("replica_groups={{0,2},{1,3}}", mesh), mesh) == '"y"'


@pytest.mark.parametrize(
    ("metadata", "lines", "source"),
    [
        ('op_name="call.1/gspmd.line.0/gspmd.line.1/dot"', ("a.py:1", "b.py:2"), "b.py:2"),
        ('op_name="gspmd.line.0" source_file="c.py" source_line=7', (), "c.py:7"),
        ('op_name="dot"', ("a.py:1",), ""),
    ],
)
def test_lines_by_which_operations_are_named(metadata: str, lines: tuple[str, ...], source: str) -> None:
    module = OptimizedModule(GATHER.replace("NAME", metadata), lines)
    (gather,) = work_in(module, MESH).collectives
    assert (gather.source, gather.sent_bytes, gather.devices) == (source, 3 * 4 * 8 * 4, 4)


@pytest.mark.parametrize(
    ("type_", "instruction", "sent"),
    [
        ("(f32[4,8], f32[16,8])", "all-gather-start(%a)", 3 * 128),
        ("((f32[4,8]{1,0:T(8,128)}, s32[4]), (f32[16,8], s32[16]))", "all-gather-start(%a, %b)", 3 * 144),
        ("((f32[4,8]{1,0:T(8,128)}), f32[4,8])", "all-reduce-start(%a)", 2 * 3 / 4 * 128),
        ("(f32[4,8], s32[4])", "all-reduce-start(%a, %b)", 2 * 3 / 4 * 144),
        ("((f32[4,8], /*index=1*/s32[4]), (f32[1,8], s32[1]))", "reduce-scatter-start(%a, %b)", 3 / 4 * 144),
        ("((f32[4,8]), f32[4,8])", "all-to-all-start(%a)", 3 / 4 * 128),
        ("(f32[4,8], f32[4,8], u32[], u32[])", "collective-permute-start(%a)", 128),
        ("((f32[4,8]), f32[4,8])", "collective-permute-start(%a)", 128),
    ],
)
def test_what_begins_a_collective_sends_what_the_collective_does(type_: str, instruction: str, sent: float) -> None:
    pairs = "source_target_pairs={{0,2},{2,0},{1,3},{3,1},{4,6},{6,4},{5,7},{7,5}}"
    groups = pairs if "permute" in instruction else "replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}"
    text = f"""HloModule m, num_partitions=8

ENTRY %main (a: f32[4,8], b: s32[4]) -> f32[] {{
  %a = f32[4,8]{{1,0}} parameter(0)
  %b = s32[4]{{0}} parameter(1)
  ROOT %begun = {type_} {instruction}, {groups}
}}
"""
    (begun,) = work_in(OptimizedModule(text), MESH).collectives
    assert begun.sent_bytes == sent


@pytest.mark.parametrize(("mesh", "reach"), [(MESH, 2), (Mesh(()), 1)])
def test_how_far_permutes_go_is_known_where_the_mesh_is(mesh: Mesh, reach: int) -> None:
    text = GATHER.replace("f32[16,8]", "f32[4,8]").replace("all-gather(%a)", "collective-permute(%a)")
    text = text.replace(
        "replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}", "source_target_pairs={{0,0},{1,5},{3,3}}"
    )
    (permute,) = work_in(OptimizedModule(text), mesh).collectives
    assert (permute.kind, permute.reach) == ("collective_permute", reach)


@pytest.mark.parametrize(
    ("name", "flops"),
    [("jit(f)/dot_general", 2 * 64.0), ("call.1/dot.7", 2 * 64.0), ("jit(f)/mul", 0.0), ("dots/mul", 0.0)],
)
def test_outer_products_that_xla_writes_as_multiplications_are_counted(name: str, flops: float) -> None:
    text = f"""HloModule m

ENTRY %main (a: f32[8,8], b: f32[8,8]) -> f32[8,8] {{
  %a = f32[8,8]{{1,0}} parameter(0)
  %b = f32[8,8]{{1,0}} parameter(1)
  ROOT %m = f32[8,8]{{1,0}} multiply(%a, %b), metadata={{op_name="{name}" source_line=3}}
}}
"""
    assert sum(work_in(OptimizedModule(text), MESH).flops.values()) == flops
