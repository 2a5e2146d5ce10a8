"""The machine for which a program is compiled: local devices, or a TPU topology."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

import jax
import jaxlib
from jax.errors import JaxRuntimeError
from jaxlib import _jax

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ExecutionError, UsageError
from gspmd.dialect.limits import MAX_VIRTUAL_DEVICES
from gspmd.dialect.mesh import Mesh
from gspmd.runtime.executable import platform_devices
from gspmd.runtime.sharded_array import Devices
from gspmd.transforms.machine.targets import MEGACORE, TOPOLOGIES, Target, Traffic
from gspmd.transforms.machine.topology import example_of, is_topology, read_machine
from gspmd.transforms.machine.torus import Placement, Torus

# Without these, libtpu looks for a TPU and reports on stderr that there is none.
_QUIET = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
TPU_KINDS = {
    "TPU v3": "v3",
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU7x": "tpu7x",
}
"""The names in topologies for JAX's names of devices."""
PLATFORMS = ("cpu", "gpu", "tpu")
_HERE = re.compile(rf"({'|'.join(PLATFORMS)})(:[1-9][0-9]{{0,9}})?")
# Messages of jaxlib about an incompatible version of the plugin.
_OUTDATED = re.compile(r"forward incompatibility|unsupported plugin|PJRT (C )?API version|PJRT_Api.*size")
_FORMS = "tpu:v5p:4x4x4 (any topology), tpu, gpu, cpu or cpu:8 (local devices)"


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The machine for which a program is compiled, with one device for each partition.

    If the connections are known, `placement` is that of the mesh axes, and `places` has for each device the coordinates
    of its chip, its number on that chip, and its slice.
    """

    target: str
    devices: Devices
    hardware: Target | None = None
    placement: Placement | None = None
    places: tuple[tuple[int, ...], ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether the devices are present and can run the program."""
        return not is_compile_only(self.devices)


def device_kind(version: str) -> tuple[str, int]:
    """JAX's name of a TPU, and the number of cores of a device. Source: the topologies of libtpu 0.0.42."""
    kind = next(kind for kind, known in TPU_KINDS.items() if known == version.removesuffix(MEGACORE))
    return kind, 2 if version == "v5p" or version.endswith(MEGACORE) else 1


def is_compile_only(devices: Devices) -> bool:
    """Whether devices belong to a topology description."""
    return isinstance(getattr(devices[0], "client", None), _jax.CompileOnlyPyClient)


def is_here(target: str) -> bool:
    """Whether a target names only a platform, as `tpu` and `cpu:8` do."""
    return _HERE.fullmatch(target) is not None


def machine(target: str, mesh: Mesh, traffic: Iterable[Traffic] = ()) -> Machine:
    """The machine that `target` names, with as many devices as the mesh.

    The devices of a topology are ordered such that `traffic` takes the least time. Errors: UsageError for an unknown
    target or a mesh that does not fit; ExecutionError if devices or libtpu are missing.
    """
    if is_topology(target):
        return _topology(target, mesh, traffic)
    if not is_here(target):
        raise UsageError(f"cannot compile for target '{target}'", hint=f"known are {_FORMS}", code=Code.UNKNOWN_TARGET)
    platform, _, rest = target.partition(":")
    count = int(rest) if rest else mesh.size
    if platform == "cpu" and count > MAX_VIRTUAL_DEVICES:
        raise UsageError(
            f"target '{target}' has {count} devices, expected at most {MAX_VIRTUAL_DEVICES}", code=Code.LIMIT
        )
    if count < mesh.size:
        raise UsageError(f"the mesh has {mesh.size} devices, target '{target}' has {count}", code=Code.TOPOLOGY)
    devices = platform_devices(platform)
    if len(devices) < mesh.size:
        hint = f"set JAX_NUM_CPU_DEVICES={mesh.size} in the environment" if platform == "cpu" else "use a smaller mesh"
        raise ExecutionError(
            f"the mesh has {mesh.size} devices, but there are {len(devices)} {platform} devices",
            hint=hint,
            code=Code.TOO_FEW_DEVICES,
        )
    return Machine(target, devices[: mesh.size])


def _topology(target: str, mesh: Mesh, traffic: Iterable[Traffic]) -> Machine:
    hardware, name = read_machine(target), target.partition(":")[2]
    assert hardware.torus is not None, "a topology is a torus"
    if mesh.size > hardware.torus.devices:
        raise UsageError(
            f"the mesh has {mesh.size} devices, topology '{name}' has {hardware.torus.devices}",
            hint="choose a larger topology, or a smaller mesh",
            code=Code.TOPOLOGY,
        )
    placement = hardware.place(mesh, traffic)
    devices = _devices(target)
    by_place = dict(zip(places_of(devices, hardware.torus), devices, strict=True))
    order = mesh.device_ids or range(mesh.size)
    by_partition = {partition: placement.coordinates(position) for position, partition in enumerate(order)}
    places = tuple(by_partition[partition] for partition in range(mesh.size))
    if not all(place in by_place for place in places):
        raise ExecutionError(
            f"libtpu numbers the chips of '{name}' in a way that is not known", code=Code.OTHER_MACHINE
        )
    return Machine(target, tuple(by_place[place] for place in places), hardware, placement, places)


def places_of(devices: Sequence[Any], torus: Torus) -> list[tuple[int, ...]]:
    """The positions of TPUs: coordinates of the chip in the torus, number of the device on it, slice."""
    dims, slices = len(torus.dims), sorted({slice_of(device) for device in devices})
    return [
        (*device.coords[:dims], getattr(device, "core_on_chip", 0), slices.index(slice_of(device)))
        for device in devices
    ]


def slice_of(device: Any) -> int:
    """The slice of a device; JAX has no such attribute if there is only one."""
    found = getattr(device, "slice_index", None)
    return 0 if found is None else int(found)


def quieten() -> None:
    """Keep libtpu from looking for a TPU and reporting that there is none."""
    for key, value in _QUIET.items():
        os.environ.setdefault(key, value)


def _devices(target: str) -> list[Any]:
    """The devices of a topology, from libtpu's compile-only client."""
    if importlib.util.find_spec("libtpu") is None:
        raise ExecutionError(
            "compiling for TPUs needs libtpu, which is not installed",
            hint="pip install 'gspmd[tpu]'",
            code=Code.OTHER_MACHINE,
        )
    quieten()
    from jax.experimental import topologies

    _, version, shape = target.partition("@")[0].split(":")
    dims, _, slices = shape.partition("*")
    name = f"{version.removesuffix(MEGACORE)}:{dims}"
    options: dict[str, Any] = {}
    if slices:
        options["num_slices"] = int(slices)
    if version.endswith(MEGACORE):
        options["chip_config_name"] = "megacore"
    try:
        return list(topologies.get_topology_desc(platform="tpu", topology_name=name, **options).devices)
    except (JaxRuntimeError, RuntimeError, ValueError) as error:
        if is_outdated(error):
            raise outdated() from None
        reason = re.sub(r"^[A-Z_]+: ", "", str(error).splitlines()[0])
        raise UsageError(
            f"libtpu does not know topology '{name}': {reason[:1].lower()}{reason[1:]}",
            hint=f"chips in each dimension, as {', '.join(map(example_of, TOPOLOGIES))}",
            code=Code.UNKNOWN_TARGET,
        ) from None


def is_outdated(error: Exception) -> bool:
    """Whether a plugin refused a module of a much newer jaxlib."""
    return _OUTDATED.search(str(error)) is not None


def outdated() -> ExecutionError:
    """The error for an outdated libtpu."""
    return ExecutionError(
        f"libtpu {metadata.version('libtpu')} is too old for jaxlib {jaxlib.__version__}",
        hint="pip install --upgrade 'gspmd[tpu]'",
        code=Code.OTHER_MACHINE,
    )


def platform_version(devices: Devices) -> str:
    """The version of the compiler for these devices, as PJRT reports it."""
    return str(getattr(devices[0].client, "platform_version", "")) or jax.__version__
