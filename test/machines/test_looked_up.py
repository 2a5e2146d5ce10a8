"""Which hardware devices are, by what they say of themselves: kinds, coordinates, slices and hosts."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.compiled.looked_up import target_of
from gspmd.dialect.errors import ExecutionError, UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.machine.target_file import read_hardware
from gspmd.transforms.machine.targets import TARGETS


@dataclasses.dataclass
class FakeDevice:
    """What is read of a device."""

    id: int
    device_kind: str
    process_index: int = 0
    coords: tuple[int, ...] | None = None
    core_on_chip: int = 0
    slice_index: int | None = None
    platform: str = "tpu"


def tpus(kind: str, lengths: tuple[int, ...], cores: int = 1, slices: int = 1) -> list[FakeDevice]:
    """In the order in which JAX lists them: cores, then X, Y and Z, then slices."""
    places = itertools.product(range(slices), *map(range, reversed(lengths)), range(cores))
    return [
        FakeDevice(i, kind, coords=(*reversed(chip), 0)[:3], core_on_chip=core, slice_index=slice_)
        for i, (slice_, *chip, core) in enumerate(places)
    ]


def gpus(kind: str, hosts: int, each: int, domain: int = 0) -> list[FakeDevice]:
    """So many on each host; where NVLink spans hosts, JAX says which are in one domain."""
    return [
        FakeDevice(i, kind, i // each, slice_index=i // domain if domain else None, platform="gpu")
        for i in range(hosts * each)
    ]


@pytest.mark.parametrize(
    ("devices", "sizes", "target"),
    [
        (tpus("TPU v5 lite", (2, 4)), (4, 2), "tpu:v5e:2x4@Y4.X2"),
        (tpus("TPU v5p", (4, 4, 4)), (64,), "tpu:v5p:4x4x4@Z4.Y4.X4"),
        (tpus("TPU v6e", (16, 16), slices=2), (2, 256), "tpu:v6e:16x16*2@S2.Y16.X16"),
        (tpus("TPU7x", (2, 2, 4), cores=2), (4, 8), "tpu:tpu7x:2x2x4@Z4.Y2.X2.C2"),
        (tpus("TPU v4", (4, 4, 4), cores=2), (128,), "tpu:v4:4x4x4@Z4.Y4.X4.C2"),
        (tpus("TPU v4", (4, 4, 4)), (64,), "tpu:v4-megacore:4x4x4@Z4.Y4.X4"),
        (gpus("NVIDIA H100 80GB HBM3", 4, 8), (4, 8), "gpu:h100:8*4@S4.X8"),
        (gpus("NVIDIA H200", 1, 8), (8,), "gpu:h200:8@X8"),
        (gpus("NVIDIA A100-SXM4-40GB", 2, 4), (2, 4), "gpu:a100:4*2@S2.X4"),
        (gpus("NVIDIA B200", 2, 8), (16,), "gpu:b200:8*2@S2.X8"),
        (gpus("NVIDIA GB200", 36, 4, domain=72), (2, 72), "gpu:gb200:72*2@S2.X72"),
        (gpus("Tesla T4", 1, 4), (4,), ""),
        (gpus("NVIDIA H100 PCIe", 1, 4), (4,), ""),
        (jax.devices()[:8], (8,), ""),
    ],
    ids=str,
)
def test_hardware_is_looked_up(devices: list[Any], sizes: tuple[int, ...], target: str) -> None:
    assert target_of(devices, sizes) == target
    if target:
        read_hardware(target, Mesh(tuple((f"axis {i}", size) for i, size in enumerate(sizes))))


def test_axes_over_hosts_and_slices_are_found_in_any_order() -> None:
    """As `create_hybrid_device_mesh` orders devices whose second axis is over hosts."""
    devices = np.array(gpus("NVIDIA H100 80GB HBM3", 2, 8), object).reshape(2, 4, 2).transpose(1, 0, 2)
    target = target_of(list(devices.flat), (4, 4))
    assert target == "gpu:h100:8*2@X4:2.S2.X2"
    hardware = read_hardware(target, Mesh((("data", 4), ("model", 4))))
    assert [link.outside for link in hardware.axes["model"]] == [True, False]
    assert [link.outside for link in hardware.axes["data"]] == [False]


def test_devices_in_no_order_are_still_of_a_kind() -> None:
    chips = tpus("TPU v5 lite", (4, 4))
    scattered = [chips[i] for i in (0, 5, 3, 10, 6, 9, 15)]
    assert target_of(scattered, (7,)) == "tpu-v5e"
    read_hardware(target_of(scattered, (7,)), Mesh((("x", 7),)))


def test_devices_of_two_kinds_are_refused() -> None:
    mixed = [*gpus("NVIDIA H200", 1, 4), *gpus("NVIDIA B200", 1, 3)]
    with pytest.raises(UsageError, match="has devices of 2 kinds: 4 of 'NVIDIA H200', 3 of 'NVIDIA B200'; make the"):
        target_of(mixed, (7,))


# ---- what functions say ----


def test_a_function_over_cpus_is_for_no_machine() -> None:
    lowered = gspmd.jit(lambda x: x.sum(), mesh={"x": 8}, in_shardings=P("x")).lower(np.ones(16, np.float32))
    assert lowered.hardware.target == ""
    assert str(lowered.hardware) == "none, bytes first (8 x cpu)"
    assert repr(lowered) == "Lowered(mesh: x=8; hardware: none, bytes first (8 x cpu))"


def test_a_function_says_the_target_that_it_was_given() -> None:
    jitted = gspmd.jit(lambda x: x.sum(), mesh={"x": 8}, in_shardings=P("x"), target="gpu:h100:4*2@S2.X4")
    lowered = jitted.lower(np.ones(16, np.float32))
    assert str(lowered.hardware) == "gpu:h100:4*2@S2.X4 (as given)"
    np.testing.assert_allclose(np.asarray(jitted(np.ones(16, np.float32))), 16)  # it is only priced for that


def test_an_abstract_mesh_may_say_the_kind_of_its_devices() -> None:
    device = jax.sharding.AbstractDevice("TPU v5p", 2, "tpu")
    mesh = AbstractMesh((64, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, abstract_device=device)
    lowered = gspmd.jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P("x"))).lower(np.ones(128, np.float32))
    assert str(lowered.hardware) == "tpu-v5p (looked up: 128 x TPU v5p)"


def test_an_abstract_mesh_of_devices_that_are_not_here_is_lowered_for_them() -> None:
    device = jax.sharding.AbstractDevice("TPU v5 lite", 1, "tpu")
    mesh = AbstractMesh((8,), ("x",), axis_types=(AxisType.Auto,), abstract_device=device)
    lowered = gspmd.jit(
        lambda x: jax.lax.platform_dependent(x, cpu=lambda x: x + 3, tpu=lambda x: x + 7),
        in_shardings=NamedSharding(mesh, P("x")),
    ).lower(np.ones(16, np.float32))
    assert "dense<7.0" in lowered.as_text()
    assert str(lowered.hardware) == "tpu-v5e (looked up: 8 x TPU v5 lite)"
    with pytest.raises(ExecutionError, match="the mesh has tpu devices, but there are cpu devices; give the devices"):
        lowered.compile()


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_a_machine_too(name: str) -> None:
    target = TARGETS[name]
    slices = target.on((4,) * max(1, target.network.dims), 2)
    assert slices.torus is not None
    assert slices.torus.slices == 2
