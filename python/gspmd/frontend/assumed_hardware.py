"""The hardware for which a function is partitioned: the given target, else the devices of the mesh."""

from __future__ import annotations

import dataclasses

from gspmd.compiled import machines
from gspmd.compiled.looked_up import check_one_kind, in_order, target_of, version_of
from gspmd.dialect.errors import ExecutionError
from gspmd.frontend.device_mesh import DeviceMesh
from gspmd.transforms.machine.targets import GPUS, TOPOLOGIES
from gspmd.transforms.machine.topology import is_topology, read_machine, version_in


@dataclasses.dataclass(frozen=True, slots=True)
class AssumedHardware:
    """The `target` for which collectives are chosen and priced, as in `gspmd.partition`; '' if bytes come first.

    `reason` says how it was found.
    """

    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.target or 'none, bytes first'} ({self.reason})"


def assumed_hardware(target: str, mesh: DeviceMesh) -> AssumedHardware:
    """The hardware for a function over the mesh, with the user's `target`, which may be ''.

    Errors: UsageError for devices of several kinds, and for a target that contradicts the devices of the mesh.
    """
    if mesh.devices is not None:
        check_one_kind(mesh.devices)
    sizes = [size for _, size in mesh.mesh.axes]
    if target and not machines.is_here(target):
        if mesh.devices is not None and not mesh.stands_in:
            target = in_order(target, mesh.devices, sizes)
        return AssumedHardware(target, "as given")
    if not mesh.is_here():
        return _of_kind(mesh)
    devices = mesh.here()
    found = target_of(devices, sizes)
    kind = devices[0].device_kind
    if found:
        return AssumedHardware(found, f"looked up: {len(devices)} x {kind}")
    unknown = "" if devices[0].platform == "cpu" else ", which is not known"
    return AssumedHardware("", f"{len(devices)} x {kind}{unknown}")


def _of_kind(mesh: DeviceMesh) -> AssumedHardware:
    """The hardware of an abstract mesh, whose device kind may be known, but not the topology."""
    device = None if mesh.kind is None else mesh.kind.abstract_device
    found = None if device is None else version_of(device.device_kind)
    if device is None or found is None:
        return AssumedHardware("", "no devices")
    target = (TOPOLOGIES if found[0] == "tpu" else GPUS)[found[1]]
    return AssumedHardware(target.name, f"looked up: {mesh.mesh.size} x {device.device_kind}")


def mesh_on_target(mesh: DeviceMesh, target: str) -> DeviceMesh:
    """The mesh for which a function is traced and lowered, so that it takes the branches of the target's platform.

    Errors: UsageError for an unknown machine.
    """
    if not mesh.stands_in:
        return mesh
    if is_topology(target):
        read_machine(target)
        return mesh.lowered_on("tpu", *machines.device_kind(version_in(target)))
    if mesh.devices is None and machines.is_here(target):
        try:
            return dataclasses.replace(mesh, devices=machines.machine(target, mesh.mesh).devices)
        except ExecutionError:
            return mesh  # partitioning needs no devices
    return mesh
