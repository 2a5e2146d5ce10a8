"""Machines of several slices or hosts: their names, the order of their devices, and what collectives over them cost."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from gspmd.dialect.axes import Axis
from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.machine.axis_slots import order_of, slots_of_axes
from gspmd.transforms.machine.cost import collective_time, tiers
from gspmd.transforms.machine.device_order import order_text, parse_order
from gspmd.transforms.machine.target_file import read_hardware, read_target
from gspmd.transforms.machine.targets import TARGETS, Traffic
from gspmd.transforms.machine.topology import machine_text
from gspmd.transforms.machine.torus import Slot, Torus

MIB = 2**20
ICI, DCN = TARGETS["tpu-v5e"].network.bytes_per_s, 3.125e9


def seconds(target: str, mesh: Mesh, kind: str, local_bytes: float, *axes: str | Axis) -> float:
    chosen = tuple(mesh.axis(axis) if isinstance(axis, str) else axis for axis in axes)
    hardware = read_hardware(target, mesh)
    return collective_time(kind, local_bytes, math.prod(axis.size for axis in chosen), hardware, chosen)


# ---- names ----


@pytest.mark.parametrize(
    "text", ["tpu:v5e:4x4*2", "tpu:v5p:2x2x4", "gpu:h100:8*4", "tpu:v5e:4x4*2@S2.X4.Y4", "gpu:gb200:72"]
)
def test_a_machine_is_read_as_it_is_written(text: str) -> None:
    target = read_target(text)
    assert target.torus is not None
    kind, version, _ = text.split(":", 2)
    assert machine_text(kind, version, target.torus, target.order) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpu:v5e:4x4*0", "target 'tpu:v5e:4x4*0' has no topology; write it as tpu:v5e:4x4"),
        ("gpu:h100", "target 'gpu:h100' has no topology; write it as gpu:h100:8"),
        ("gpu:k80:8", "unknown GPU 'k80' in target 'gpu:k80:8'; known are a100, h100, h200, b200, gb200"),
        ("gpu:h100:8x8", "the topology of h100 has N, got 8x8"),
        ("tpu:v5e:4x4@X8.Y2", "in the order 'X8.Y2' of devices, 'X8' ends beyond the 4 that there are"),
        ("tpu:v5e:4x4@Z2", "in the order 'Z2' of devices, 'Z2' is not a part of a dimension; give parts of X, Y, C, S"),
        ("tpu:v5e:4x4@", "'' is not a part of a dimension"),
        ("tpu:v5e:1024x1024*4", "a topology of 1024x1024*4 has 4194304 chips, expected at most 1048576"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_target(text)
    assert message in str(caught.value)


def test_an_order_is_of_as_many_devices_as_the_mesh() -> None:
    with pytest.raises(
        UsageError, match=r"has the order of 16 devices \(X4.Y4\), the mesh has 8; leave out the part after"
    ):
        read_hardware("tpu:v5e:4x4@X4.Y4", Mesh((("x", 8),)))


# ---- orders ----


def places(torus: Torus, order: tuple[Slot, ...]) -> np.ndarray:
    """Coordinates of every device, one by one."""
    found = []
    for digits in itertools.product(*(range(slot.size) for slot in order)):
        at = [0] * len(torus.lengths)
        for slot, digit in zip(order, digits, strict=True):
            at[slot.dim] += slot.stride * digit
        found.append(at)
    return np.array(found)


@pytest.mark.parametrize("seed", range(20))
def test_an_order_is_found_from_coordinates_whatever_the_axes(seed: int) -> None:
    rng, torus = random.Random(seed), Torus((4, 8), 2, 2)
    order = parse_order(
        rng.choice(["S2.X4.Y8.C2", "Y2:4.X4.S2.Y4.C2", "C2.Y8.X2:2.S2.X2", "X2:2.Y4:2.X2.S2.C2.Y2"]), torus
    )
    sizes = rng.choice([(128,), (2, 64), (8, 16), (4, 2, 16), (16, 1, 8), (2, 2, 2, 2, 8)])
    coordinates = places(torus, order)
    found = order_of(coordinates, sizes)
    assert (places(torus, found) == coordinates).all()
    assert [math.prod(slot.size for slot in slots) for slots in slots_of_axes(coordinates, sizes)] == list(sizes)


def test_an_axis_around_a_ring_has_the_dimensions_that_it_covers() -> None:
    """As `jax.experimental.mesh_utils` orders the eight chips of a v5e host."""
    ring = [(0, 0), (1, 0), (0, 1), (1, 1), (1, 3), (0, 3), (1, 2), (0, 2)]
    one = np.array([(x, y, 0, 0) for x, y in ring])
    torus = Torus((2, 4), 1, 2)
    assert order_text(order_of(one, [8]), torus) == "Y2:2.Y2.X2"
    # Of two slices, each of which the axes (2, 4) divide: half of the ring is no straight step from the other half.
    two = np.concatenate([one, np.add(one, (0, 0, 0, 1))])
    assert order_text(order_of(two, [4, 4]), torus) == "S2.Y2:2.Y2.X2"


def test_devices_in_no_order_count_as_so_many() -> None:
    places = np.array([(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0)])
    assert order_of(places, [3]) == (Slot(0, 3, 1),)


# ---- what collectives cost ----

MESH = Mesh((("data", 4), ("model", 8)))
TWO_SLICES = "tpu:v5e:4x4*2@S2.X2:2.X2.Y4"


def test_a_collective_is_priced_by_the_links_that_its_groups_use() -> None:
    inside, outside = MESH.axis("data", 2, 2), MESH.axis("data", 1, 2)
    # Half of a dimension is a line whose links two groups share; two slices are connected by each device's own part.
    assert seconds(TWO_SLICES, MESH, "all_gather", MIB, inside) == pytest.approx(1e-6 + MIB / (ICI / 2))
    assert seconds(TWO_SLICES, MESH, "all_gather", MIB, outside) == pytest.approx(1e-5 + MIB / DCN)
    assert seconds(TWO_SLICES, MESH, "collective_permute", MIB, outside) == pytest.approx(1e-5 + MIB / DCN)
    # What crosses in a collective over both is sent by both devices of a slice together.
    both = seconds(TWO_SLICES, MESH, "all_gather", 64 * MIB, "data")
    assert both == pytest.approx(3 * 64 * MIB / (2 * DCN), rel=1e-3)


@pytest.mark.parametrize("target", [TWO_SLICES, "gpu:h100:8*4@S4.X8", "h100"])
def test_axes_are_taken_apart_into_tiers(target: str) -> None:
    hardware = read_hardware(target, MESH)
    inside, outside = tiers(MESH.all_axes(), hardware)
    assert math.prod(axis.size for axis in outside) == (2 if "v5e" in target else 4)
    assert math.prod(axis.size for axis in (*inside, *outside)) == 32
    assert tiers((MESH.axis("model"),), hardware) == ((MESH.axis("model"),), ())


def test_hosts_of_gpus_are_what_the_name_alone_says_too() -> None:
    assert read_hardware("gpu:h100:8*4@S4.X8", MESH).axes["model"][0].switch
    for kind in ("all_gather", "all_reduce", "all_to_all", "collective_permute"):
        for axes in (("data",), ("model",), ("data", "model")):
            by_name, by_shape = (seconds(target, MESH, kind, MIB, *axes) for target in ("h100", "gpu:h100:8*4@S4.X8"))
            assert by_name == pytest.approx(by_shape)


def test_without_an_order_slices_go_where_least_is_sent() -> None:
    mesh = Mesh((("data", 2), ("model", 16)))
    often, once = (
        Traffic("all_reduce", 2**26, (mesh.axis(name),), runs) for name, runs in (("model", 100), ("data", 1))
    )
    placement = read_target("tpu:v5e:4x4*2").place(mesh, [often, once])
    assert placement.describe("data") == "2 slices"
    assert placement.describe("model") == "X (4 of 4 chips), Y (4 of 4 chips)"
    assert read_target("gpu:gb200:72").place(Mesh((("x", 64),))).describe("x") == "64 of 64 devices of a domain"


def test_devices_of_another_order_lie_where_they_are() -> None:
    mesh = Mesh((("x", 2), ("y", 16)), tuple(np.arange(32).reshape(16, 2).T.flat))
    placement = read_target("tpu:v5e:4x4*2@X4.Y4.S2").place(mesh)
    assert placement.describe("x") == "2 slices"
