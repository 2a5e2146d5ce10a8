"""Annotations over several orders of the devices on one mesh."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspmd.dialect import device_order
from gspmd.dialect.common_mesh import express, fits, order_of, tiling_of
from gspmd.dialect.hlo_convert import to_hlo_sharding, to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.hlo_sharding import HloSharding, Tiled
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.orders import AnnotationOrder, Orders, choose_orders, tiling_written, written_by
from gspmd.dialect.sharding import DimSharding, TensorSharding


def over(orders: Orders, tiling: Tiled) -> Mesh:
    """The common mesh, with the devices in the order of a tiling."""
    return dataclasses.replace(orders.mesh, device_ids=device_order.expand(orders.of(tiling)))


@given(st.data())
def test_every_sharding_is_the_same_over_its_order(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([4, 6, 8, 12]))
    shardings = []
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.sampled_from([k for k in range(1, count + 1) if count % k == 0]))
        ids = tuple(data.draw(st.permutations(range(count))))
        shardings.append(HloSharding(Tiled((first, count // first), ids)))
    written = [
        dataclasses.replace(one, bytes=data.draw(st.integers(0, 9))) for s in shardings if (one := written_by(s))
    ]
    orders = choose_orders({one.tiling: one for one in written}.values(), count)
    for sharding in shardings:
        tiling = tiling_written(sharding)
        assert tiling is not None
        on_mesh = to_tensor_sharding(orders.renamed(sharding), 2, orders.mesh)
        back = dataclasses.replace(on_mesh, mesh=over(orders, tiling))
        assert to_hlo_sharding(back) == sharding


@given(st.data())
def test_every_mesh_is_the_same_over_its_order(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([4, 8, 12]))
    meshes = []
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.sampled_from([k for k in range(1, count + 1) if count % k == 0]))
        meshes.append(Mesh((("a", first), ("b", count // first)), tuple(data.draw(st.permutations(range(count))))))
    orders = choose_orders([AnnotationOrder(tiling_of(mesh), mesh) for mesh in dict.fromkeys(meshes)], count)
    for mesh in meshes:
        sharding = TensorSharding(mesh, tuple(DimSharding((axis,)) for axis in mesh.all_axes()))
        moved = express(dataclasses.replace(sharding, mesh=orders.renamed_mesh(mesh)), orders.mesh)
        back = dataclasses.replace(moved, mesh=over(orders, tiling_of(mesh)))
        assert to_hlo_sharding(back) == to_hlo_sharding(sharding)


def test_the_order_of_most_bytes_is_the_programs() -> None:
    one, other = (Mesh((("x", 4),), ids) for ids in ((), (0, 1, 3, 2)))
    for weights, expected in (((1, 1), one), ((1, 2), other), ((2, 1), one)):
        written = [AnnotationOrder(tiling_of(m), m, bytes=b) for m, b in zip((one, other), weights, strict=True)]
        assert choose_orders(written, 4).mesh == expected


@pytest.mark.parametrize(
    ("whole", "expected"), [(False, (("x", 8),)), (True, (("axis_0", 2), ("axis_1", 4)))], ids=["parts", "whole"]
)
def test_axes_are_parts_unless_they_have_to_be_whole(whole: bool, expected: tuple[tuple[str, int], ...]) -> None:
    one, other = Mesh((("x", 8),)), Mesh((("y", 2), ("z", 4)), (0, 3, 1, 6, 2, 5, 4, 7))
    orders = choose_orders([AnnotationOrder(tiling_of(m), m) for m in (one, other)], 8, [other] if whole else [])
    assert orders.mesh.axes == expected
    assert fits(orders.mesh, tiling_of(orders.renamed_mesh(other)))
    assert order_of(orders.mesh) == device_order.identity(8)


def test_what_names_no_devices_is_left_alone() -> None:
    orders = choose_orders([AnnotationOrder(tiling_of(Mesh((("x", 4),))))], 4)
    for text in ("{replicated}", "{maximal device=2}", "{unknown}"):
        sharding = parse_hlo_sharding(text)
        assert orders.renamed(sharding) is sharding
        assert written_by(sharding) is None
