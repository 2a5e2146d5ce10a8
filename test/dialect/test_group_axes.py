"""Replica groups by mesh axes, written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, Axis, canonical
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.group_axes import names_axes, print_group_axes, read_group_axes, write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.parsing.mlir import new_context

CONTEXT = new_context()
NAMES = [
    "x",
    "a b",
    'a"b',
    "a\\b",
    "a{b",
    "a}b",
    "a>b",
    "a,b",
    "a'b",
    "a\nb",
    "\\",
    '"',
    "é",
    "\udcff",
    "@m",
    "axis_ref<",
]
SIZES = [2, 4, 6, 12]


@st.composite
def groups(draw: st.DrawFn) -> tuple[Mesh, Axes]:
    """A mesh with names that need quoting, in any order of devices, and parts of its axes in any order."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    axes = tuple((name, draw(st.sampled_from(SIZES))) for name in names)
    mesh = Mesh(axes, name=draw(st.sampled_from(["", *NAMES])))
    if draw(st.booleans()):
        mesh = Mesh(axes, tuple(draw(st.permutations(range(mesh.size)))), mesh.name)
    parts = []
    for name, size in axes:
        cut = draw(st.sampled_from([k for k in range(1, size) if size % k == 0]))
        parts += [Axis(name, 1, cut), Axis(name, cut, size // cut)]
    chosen = draw(st.lists(st.sampled_from([p for p in parts if p.size > 1]), unique=True))
    return mesh, tuple(chosen)


@given(groups())
def test_what_is_written_is_read_again(written: tuple[Mesh, Axes]) -> None:
    mesh, axes = written
    attribute = write_group_axes(mesh, axes, CONTEXT)
    found, read = read_group_axes(attribute, {mesh.name: mesh} if mesh.name else {})
    assert (found, found.name, read) == (mesh, mesh.name, canonical(axes))
    assert names_axes(attribute)


MESH = Mesh((("x", 12), ("y", 2)))


@pytest.mark.parametrize(
    ("axes", "refs"),
    [
        ((Axis("x", 1, 12),), 'name = "x"'),
        ((Axis("x", 1, 2), Axis("x", 2, 6)), 'name = "x"'),
        ((Axis("x", 2, 2), Axis("x", 4, 3)), 'name = "x", sub_axis_info = (2)6'),
        ((Axis("x", 4, 3), Axis("x", 1, 4)), 'name = "x", sub_axis_info = (4)3>, name = "x", sub_axis_info = (1)4'),
        ((Axis("x", 1, 2), Axis("y", 1, 2), Axis("x", 2, 6)),
         'name = "x", sub_axis_info = (1)2>, name = "y">, name = "x", sub_axis_info = (2)6'),
    ],
)  # fmt: skip
def test_parts_that_adjoin_are_one(axes: Axes, refs: str) -> None:
    text = print_group_axes(MESH, axes).replace("#stablehlo.axis_ref<", "")
    assert text == f"#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{refs}>]>"


def test_lists_name_no_axes() -> None:
    assert not names_axes(ir.Attribute.parse("dense<[[0, 1]]> : tensor<1x2xi64>", CONTEXT))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('@other, axes = [{ref}name = "x">]', "'@other', which the module does not have; its meshes are '@mesh'"),
        ('@mesh, axes = [{ref}name = "z">]', 'mesh "@mesh" has no axis "z"'),
        ('@mesh, axes = [{ref}name = "x", sub_axis_info = (5)2>]', 'sub-axis "x":(5)2 does not divide'),
        ('@mesh, axes = [{ref}name = "x">, {ref}name = "x">]', "overlap or do not nest"),
        ('@mesh, axes = [{ref}name = "x", sub_axis_info = (1)4>, {ref}name = "x", sub_axis_info = (2)2>]', "overlap"),
        ('@mesh, axes = [{ref}name = "x", sub_axis_info = (1)4>, {ref}name = "x", sub_axis_info = (6)2>]', "not nest"),
    ],
)  # fmt: skip
def test_groups_of_nothing_are_refused(text: str, message: str) -> None:
    written = f"#stablehlo.replica_group_mesh_axes<mesh = {text.replace('{ref}', '#stablehlo.axis_ref<')}>"
    with pytest.raises(AnnotationError) as raised:
        read_group_axes(ir.Attribute.parse(written, CONTEXT), {"mesh": MESH})
    assert message in raised.value.message


def test_an_attribute_of_another_kind_is_refused() -> None:
    with pytest.raises(AnnotationError, match="neither lists nor axes of a mesh: 'array<i64: 0, 1>'"):
        read_group_axes(ir.Attribute.parse("array<i64: 0, 1>", CONTEXT), {})
