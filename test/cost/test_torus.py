"""Meshes laid onto tori: every device once, whole dimensions first, what talks most on the best links."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gspmd.api import partition
from gspmd.collectives import traffic_of
from gspmd.compiled.step_time import permute_seconds
from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.ir.groups import reach_of
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.machine.cost import collective_time, fastest_collective
from gspmd.transforms.machine.target_file import read_hardware, read_target
from gspmd.transforms.machine.targets import TOPOLOGIES, Traffic
from gspmd.transforms.machine.topology import example_of
from gspmd.transforms.machine.torus import Torus, placements

CASES = [
    ((("x", 4), ("y", 2)), Torus((2, 4))),
    ((("x", 8), ("y", 16)), Torus((8, 8), 2)),
    ((("x", 2), ("y", 6), ("z", 3)), Torus((3, 4, 3))),
    ((("x", 16),), Torus((2, 2, 2), 2)),
    ((("x", 1), ("y", 8)), Torus((2, 4))),
]


@pytest.mark.parametrize(("axes", "torus"), CASES)
def test_every_position_has_a_device_of_its_own(axes: tuple[tuple[str, int], ...], torus: Torus) -> None:
    mesh = Mesh(axes)
    everywhere = set(itertools.product(*map(range, torus.lengths)))
    found = placements(mesh, torus)
    assert found
    for placement in found:
        assert {placement.coordinates(i) for i in range(mesh.size)} == everywhere
        for name, size in axes:
            assert math.prod(slot.size for slot in dict(placement.slots)[name]) == size


def test_neighbours_along_an_axis_are_as_far_apart_as_its_slot_says() -> None:
    mesh = Mesh((("x", 4), ("y", 4)))
    for placement in placements(mesh, Torus((4, 4))):
        (slot, *more) = dict(placement.slots)["y"]
        if more:
            continue
        first, second = placement.coordinates(0), placement.coordinates(1)
        assert second[slot.dim] - first[slot.dim] == slot.stride


def test_the_axis_that_talks_most_gets_the_ring() -> None:
    target = read_target("tpu:v5p:4x4x8")
    mesh = Mesh((("a", 4), ("b", 32)))
    busy_a = target.place(
        mesh, [Traffic("all_reduce", 2**30, (Axis("a", 1, 4),)), Traffic("all_reduce", 1, (Axis("b", 1, 32),))]
    )
    hardware = target.placed(busy_a)
    alone = min(
        collective_time("all_reduce", 2**30, 4, target.placed(p), (Axis("a", 1, 4),))
        for p in placements(mesh, Torus((4, 4, 8)))
    )
    assert collective_time("all_reduce", 2**30, 4, hardware, (Axis("a", 1, 4),)) == pytest.approx(alone)


def test_parts_of_an_axis_use_their_part_of_its_slots() -> None:
    hardware = read_hardware("tpu:v5p:4x4x4", Mesh((("x", 64),)))
    whole = collective_time("all_gather", 2**20, 64, hardware, (Axis("x", 1, 64),))
    parts = [collective_time("all_gather", 2**20, 8, hardware, (Axis("x", pre, 8),)) for pre in (1, 8)]
    assert all(0 < part < whole for part in parts)


def test_devices_of_a_chip_have_its_links_together() -> None:
    """A gather over the two devices of each of 8 chips sends over the links what one over the 8 chips does, twice."""
    target = read_target("tpu:v3:8x8")
    mesh = Mesh((("x", 8), ("y", 16)))
    both = next(
        p
        for p in placements(mesh, Torus((8, 8), 2))
        if [(s.dim, s.size) for s in dict(p.slots)["y"]] == [(1, 8), (2, 2)] and dict(p.slots)["x"][0].stride == 1
    )
    hardware = target.placed(both)
    together = collective_time("all_gather", 2**24, 16, hardware, (Axis("y", 1, 16),))
    apart = collective_time("all_gather", 2**24, 8, hardware, (Axis("x", 1, 8),))
    assert together == pytest.approx(apart * (15 / 16) / (7 / 8), rel=0.01)


def test_a_part_of_a_topology_is_a_box() -> None:
    assert Torus((4, 4), 2).box(16) == Torus((4, 2), 2)
    assert Torus((4, 4), 2).box(32) == Torus((4, 4), 2)
    with pytest.raises(UsageError, match="a mesh of 7 devices does not fit a topology of 4x4 with 32 devices"):
        Torus((4, 4), 2).box(7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpu:v0:2x2", "unknown TPU 'v0'.*known are " + ", ".join(TOPOLOGIES)),
        ("tpu:v5p", "target 'tpu:v5p' has no topology; write it as tpu:v5p:4x4x4"),
        ("tpu:v5p:4x4", "the topology of tpu-v5p has NxNxN, got 4x4"),
        ("tpu:v5e:0x4", "has no topology"),
    ],
)
def test_topologies_that_are_none(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_target(text)


def test_figures_of_a_chip_are_halved_where_compilers_see_two_devices() -> None:
    chip, device = read_target("tpu-v4"), read_target("tpu:v4:4x4x4")
    assert device.memory_bytes * 2 == chip.memory_bytes
    assert device.flops["bf16"] * 2 == chip.flops["bf16"]
    assert read_target("tpu:v3:4x4").memory_bytes == read_target("tpu-v3").memory_bytes


def test_clocks_and_matrix_units_give_the_peak_rate() -> None:
    units = {
        "v3": 2 * 128**2,
        "v4": 4 * 128**2,
        "v5e": 4 * 128**2,
        "v5p": 8 * 128**2,
        "v6e": 4 * 256**2,
        "tpu7x": 4 * 256**2,
    }
    for version, multipliers in units.items():
        target = read_target(f"tpu:{example_of(version)}")
        assert 2 * multipliers * target.clock_hz == pytest.approx(target.flops["bf16"], rel=0.02), version


def test_of_equal_placements_one_along_whole_dimensions_is_taken() -> None:
    placed = read_target("tpu:v5p:4x4x8").place(
        Mesh((("x", 4), ("y", 32))), [Traffic("all_gather", 1e5, (Axis("x", 1, 4),))]
    )
    assert [len(slots) for _, slots in placed.slots] == [1, 2]


def test_traffic_counts_operands() -> None:
    program = """
    sdy.mesh @mesh = <["x"=8, "y"=2]>
    func.func @main(%a: tensor<1024x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
        -> (tensor<1024x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
      return %a : tensor<1024x2048xf32>
    }
    """
    product = partition(program)
    (traffic,) = traffic_of(model_of(product.module), product.mesh)
    assert traffic == Traffic("all_gather", 128 * 1024 * 4, (Axis("x", 1, 8),))


def test_permutes_take_as_long_as_their_messages_go_far() -> None:
    """A shift uses each link once; half of a line's devices send over one of its links to transpose an array."""
    mesh = Mesh((("x", 8), ("y", 8)))
    target = read_target("tpu:v5e:8x8")
    assert target.torus is not None
    placement = next(p for p in placements(mesh, target.torus) if all(len(slots) == 1 for _, slots in p.slots))
    hardware, x, y = target.placed(placement), Axis("x", 1, 8), Axis("y", 1, 8)
    local = float(2**28)

    def routed_s(pairs: list[tuple[int, int]]) -> float:
        return permute_seconds(local, [(placement.coordinates(a), placement.coordinates(b)) for a, b in pairs], target)

    shift = [(i, i // 8 * 8 + (i + 1) % 8) for i in range(64)]
    transposed = [(i, i % 8 * 8 + i // 8) for i in range(64)]
    assert reach_of(mesh, np.array(shift)) == 1
    shifted_s = collective_time("collective_permute", local, 2, hardware, (y,), 1)
    assert shifted_s == pytest.approx(routed_s(shift), rel=0.3)
    across_s = collective_time("collective_permute", local, 2, hardware, (x, y), reach_of(mesh, np.array(transposed)))
    assert across_s > 2 * shifted_s
    assert across_s == pytest.approx(routed_s(transposed), rel=0.5)


def test_how_far_messages_go_counts_positions_around_a_ring() -> None:
    mesh = Mesh((("x", 2), ("y", 6)), (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
    assert reach_of(mesh, np.zeros((0, 2), np.int64)) == 0
    assert reach_of(mesh, np.array([[11, 6]])) == 1
    assert reach_of(mesh, np.array([[11, 8], [0, 0]])) == 3
    assert reach_of(mesh, np.array([[11, 5]])) == 1


@pytest.mark.parametrize(
    ("target", "sizes"),
    [
        *(("tpu-v5p", (16,)), ("tpu-v5p", (4, 4)), ("tpu:v5e:4x4", (16,)), ("tpu:v5e:4x4", (2, 8))),
        *(("tpu:v3:4x4", (4, 8)), ("tpu:v5p:4x4x4", (4, 4, 4)), ("a100", (2, 8)), ("gb200", (4, 4)), ("", (2, 8))),
    ],
)
def test_no_collective_is_faster_than_the_fastest(target: str, sizes: tuple[int, ...]) -> None:
    mesh = Mesh(tuple(zip("xyz", sizes, strict=False)))
    hardware = read_hardware(target, mesh)
    latency_s, bytes_per_s = fastest_collective(hardware)
    for count in range(1, len(sizes) + 1):
        for names in itertools.combinations("xyz"[: len(sizes)], count):
            axes = tuple(mesh.axis(name) for name in names)
            devices = math.prod(axis.size for axis in axes)
            for kind, received in (
                ("all_gather", devices - 1),
                ("all_reduce", (devices - 1) / devices),
                ("reduce_scatter", (devices - 1) / devices),
                ("all_to_all", (devices - 1) / devices),
                ("collective_permute", 1),
            ):
                for size in (4.0, 1e9):
                    least_s = latency_s + size * received / bytes_per_s
                    assert collective_time(kind, size, devices, hardware, axes) >= least_s * (1 - 1e-9)
