"""The hardware of JAX's devices as a target: their kind and how they are connected.

Devices have a kind (`device_kind`) and the domain of their fast links: a slice (`slice_index`) or a host
(`process_index`). TPUs also have the position of their chip in a torus (`coords`, `core_on_chip`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gspmd.compiled.machines import TPU_KINDS, Machine, places_of, slice_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.runtime.sharded_array import Devices
from gspmd.transforms.machine.axis_slots import order_of
from gspmd.transforms.machine.device_order import Order
from gspmd.transforms.machine.targets import GPUS, MEGACORE, TARGETS, TOPOLOGIES, Target
from gspmd.transforms.machine.topology import is_machine, is_topology, machine_text, read_machine, version_in
from gspmd.transforms.machine.torus import Torus

# GPUs with NVLink switches, by JAX's names.
_GPUS = (
    (re.compile(r"NVIDIA A100-SXM"), "a100"),
    (re.compile(r"NVIDIA H100 80GB HBM3"), "h100"),
    (re.compile(r"NVIDIA H200(?! NVL)"), "h200"),
    (re.compile(r"NVIDIA B200"), "b200"),
    (re.compile(r"NVIDIA GB200"), "gb200"),
)


def version_of(kind: str) -> tuple[str, str] | None:
    """The target's name of a kind of device, such as `("tpu", "v5e")`; None for unknown kinds and CPUs."""
    if kind in TPU_KINDS:
        return "tpu", TPU_KINDS[kind]
    return next((("gpu", name) for pattern, name in _GPUS if pattern.match(kind)), None)


def target_of(devices: Sequence[Any], sizes: Sequence[int]) -> str:
    """The target of devices, in the order of a mesh of these sizes; '' for CPUs and unknown devices.

    Errors: UsageError for devices of several kinds.
    """
    check_one_kind(devices)
    found = version_of(str(devices[0].device_kind))
    if found is None:
        return ""
    kind, version = found
    if kind == "gpu":
        return _switches(version, devices, sizes)
    return _tori(version, devices, sizes)


def check_one_kind(devices: Sequence[Any]) -> None:
    """Raise UsageError for devices of several kinds, for which no compiler makes one program."""
    kinds = Counter(str(device.device_kind) for device in devices)
    if len(kinds) > 1:
        (most, many), *_, (least, few) = kinds.most_common()
        raise UsageError(
            f"the mesh has devices of {len(kinds)} kinds: {many} of '{most}', {few} of '{least}'",
            hint="make the mesh of devices of one kind",
            code=Code.TOPOLOGY,
        )
    clients = {id(client) for device in devices if (client := getattr(device, "client", None)) is not None}
    if len(clients) > 1:
        raise UsageError(
            f"the mesh has devices of {len(clients)} clients or topologies",
            hint="make the mesh of the devices of one topology",
            code=Code.TOPOLOGY,
        )


def in_order(target: str, devices: Sequence[Any], sizes: Sequence[int]) -> str:
    """The target for a name; for a machine without a device order in its name, with the order of the mesh.

    Errors: UsageError if the devices are not those of the target.
    """
    found, kind = target_of(devices, sizes), version_of(str(devices[0].device_kind))
    named, is_ordered, _ = target.partition("@")
    if found.partition("@")[0] == named:
        return target if is_ordered else found
    known = TARGETS.get(target)
    if not is_machine(target) and (known is None or kind is None or known == _kinds(kind[0])[kind[1]]):
        return target  # a description, or the same without a shape
    if is_machine(target) and not is_topology(target) and kind == ("gpu", version_in(target)):
        return target  # some GPUs, as a part of more
    raise UsageError(
        f"the mesh has devices of kind '{devices[0].device_kind}'"
        + (f", which are '{found.partition('@')[0]}'" if found else "")
        + f"; the target is '{target}'",
        hint="leave the target out, so that it is looked up, or make the mesh of its devices",
        code=Code.TOPOLOGY,
    )


def _kinds(kind: str) -> Mapping[str, Target]:
    return TOPOLOGIES if kind == "tpu" else GPUS


def _tori(version: str, devices: Sequence[Any], sizes: Sequence[int]) -> str:
    """TPUs: one torus of chips per slice. All devices of the client determine the sizes of the torus."""
    if any(getattr(device, "coords", None) is None for device in devices):
        return ""
    others = devices[0].client.devices() if hasattr(devices[0], "client") else devices
    dims = TOPOLOGIES[version].network.dims
    lengths = tuple(1 + max(device.coords[dim] for device in others) for dim in range(dims))
    cores = 1 + max(getattr(device, "core_on_chip", 0) for device in others)
    if cores < TOPOLOGIES[version].chip_devices:
        version += MEGACORE if version + MEGACORE in TOPOLOGIES else ""
    torus = Torus(lengths, cores, len({slice_of(device) for device in others}))
    order = order_of(np.array(places_of(devices, torus)), sizes)
    return _named("tpu", version, torus, order)


def machine_of(devices: Devices, mesh: Mesh, sizes: Sequence[int]) -> Machine:
    """The machine of the given devices for the program of `mesh`; they are in the order of a mesh of `sizes`."""
    target = target_of(devices, sizes)
    if not is_machine(target):
        return Machine(devices[0].platform, devices)
    hardware = read_machine(target)
    assert hardware.torus is not None, "a machine has places"
    places = tuple(places_of(devices, hardware.torus)) if is_topology(target) else ()
    return Machine(target, devices, hardware, hardware.place(mesh), places)


def _switches(version: str, devices: Sequence[Any], sizes: Sequence[int]) -> str:
    """GPUs: domains behind switches, which are slices if devices have one, or else hosts."""
    domains: dict[int, list[int]] = {}
    for index, device in enumerate(devices):
        own = getattr(device, "slice_index", None)
        domains.setdefault(device.process_index if own is None else own, []).append(index)
    places = np.zeros((len(devices), 3), np.int64)
    for number, members in enumerate(domains.values()):
        for position, index in enumerate(sorted(members, key=lambda index: devices[index].id)):
            places[index] = position, 0, number
    torus = Torus((max(map(len, domains.values())),), 1, len(domains))
    return _named("gpu", version, torus, order_of(places, sizes))


def _named(kind: str, version: str, torus: Torus, order: Order) -> str:
    """The name of the machine; without the device order if that has no text form."""
    text = machine_text(kind, version, torus, order)
    try:
        read_machine(text)
    except UsageError:
        return _kinds(kind)[version.removesuffix(MEGACORE)].name
    return text
