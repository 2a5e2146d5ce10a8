"""Replica groups of HLO texts, read as they are printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialect_strategies import axis_parts, iotas, meshes

from gspmd.dialect.axes import canonical
from gspmd.dialect.device_order import Iota
from gspmd.dialect.errors import Error
from gspmd.dialect.hlo_groups import HloGroups, IotaGroups, MeshGroups, parse_groups
from gspmd.dialect.hlo_notation import print_hlo_axis, print_iota, print_mesh_axes
from gspmd.dialect.mesh import Mesh

names = st.one_of(
    st.sampled_from(["x{a", 'a"b', "a\\b", "ä x", "x}", "[", "]", "->", "it's", "'", ",", ""]), st.text(max_size=4)
)


@st.composite
def groups(draw: st.DrawFn) -> HloGroups:
    if draw(st.booleans()):
        number, size = draw(st.integers(1, 6)), draw(st.integers(1, 4))
        return IotaGroups(number, size, draw(iotas(number * size)))
    mesh = draw(meshes(names=draw(st.lists(names, min_size=7, max_size=7, unique=True))))
    parts = draw(axis_parts(mesh))
    return MeshGroups(mesh, canonical(parts[: draw(st.integers(0, len(parts)))]))


def printed(groups: HloGroups) -> str:
    """`[8,4]<=[4,8]T(1,0)`, `mesh['x'=4,'y'=2] {'x':(1)2}`."""
    if isinstance(groups, IotaGroups):
        return f"[{groups.number},{groups.size}]<={print_iota(groups.order)}"
    mesh = groups.mesh
    ids = f", device_ids=({','.join(map(str, mesh.device_ids))})" if mesh.device_ids else ""
    axes = ",".join(print_hlo_axis(axis, mesh) for axis in groups.axes)
    return f"{print_mesh_axes(mesh)}{ids} {{{axes}}}"


@given(groups(), st.sampled_from(["", ", dimensions={0}", ', metadata={op_name="a{b"}']))
def test_groups_are_read_as_printed(written: HloGroups, rest: str) -> None:
    assert parse_groups(printed(written) + rest) == written


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[2,4]<=[8]", IotaGroups(2, 4, Iota((8,), (0,)))),
        ("[2,4]<=[4,2]T(1,0), channel_id=1", IotaGroups(2, 4, Iota((4, 2), (1, 0)))),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}",
         MeshGroups(Mesh((("a", 2), ("b", 2)), (0, 2, 1, 3)), Mesh((("b", 2),)).all_axes())),
        ("mesh['a'=2,'b'=2] {}", MeshGroups(Mesh((("a", 2), ("b", 2))), ())),
    ],
)  # fmt: skip
def test_groups_as_xla_prints_them(text: str, found: HloGroups) -> None:
    assert parse_groups(text) == found


@pytest.mark.parametrize(
    "text", ["", "torus<2,4>", "[2,4]", "[2,4]<=[6]", "[8]<=[8]", "mesh['a'=2]", "mesh['a'=2] {'b'}", "{{0,1}}"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Error):
        parse_groups(text)
