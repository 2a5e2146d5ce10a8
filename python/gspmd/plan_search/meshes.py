"""The meshes of a search, and how a program is put over one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.ir.modules import create_mesh, mesh_operations
from gspmd.transforms.ir.operations import Point
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.machine.topology import is_machine, read_machine
from gspmd.transforms.machine.torus import placements

AUTO = "auto"
NAMES = ("x", "y")
_AXIS = re.compile(r"([A-Za-z_][\w.-]*)=([1-9][0-9]{0,9})")
_ANNOTATED = ("sdy.sharding", "mhlo.sharding", "sdy.manual_computation")


def parse_mesh_sizes(text: str) -> Mapping[str, int] | str:
    """`x=8,y=4` as sizes by name; `auto` unchanged. Raises UsageError."""
    if text == AUTO:
        return text
    sizes: dict[str, int] = {}
    for part in text.split(","):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[1] in sizes:
            raise UsageError(f"{text!r} is not a mesh", hint="write it as x=8,y=4, or auto", code=Code.BAD_VALUE)
        sizes[match[1]] = int(match[2])
    return sizes


def meshes_to_try(
    module: ir.Module, mesh: Mapping[str, int] | str | None, devices: int | None, target: str
) -> list[Mesh]:
    """The meshes for a program: its own, the requested one, or all meshes of one or two axes that fit the target.

    Errors: UsageError if the number of devices is unknown, or if a mesh is requested for a program that has one.
    """
    own = _mesh_of(module)
    if isinstance(mesh, Mapping):
        asked = _checked(mesh)
        if own is not None and own.axes != asked.axes and is_annotated(module):
            raise UsageError(
                "the program is annotated over a mesh of its own", hint="leave the mesh out", code=Code.OPTIONS_DISAGREE
            )
        return [asked]
    if mesh not in (None, AUTO):
        raise UsageError(f"mesh is {shown(mesh)}, expected sizes by name, or 'auto'", code=Code.BAD_VALUE)
    if own is not None and (mesh is None or is_annotated(module)):
        return [own]
    count = devices or (own.size if own is not None else _devices_of(target))
    if not count:
        raise UsageError(
            "the number of devices is unknown",
            hint="give a mesh, a number of partitions, or a target with a topology, as tpu:v5p:4x4x4",
            code=Code.NO_MESH,
        )
    return [found for found in _all_meshes(count) if _fits(found, target)] or [Mesh(((NAMES[0], count),), name="mesh")]


def put_mesh(module: ir.Module, mesh: Mesh) -> None:
    """Put a program over this mesh."""
    if _mesh_of(module) == mesh:
        return
    with in_memory(module) as top:
        for op in mesh_operations(top):
            op.erase()
        create_mesh(mesh, Point.at_begin(top.regions[0]), top.location)
        count = ir.IntegerType.get_signless(32)
        top.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(count, mesh.size)


def _mesh_of(module: ir.Module) -> Mesh | None:
    """The only mesh of a program; None if it has none or several."""
    from gspmd.transforms.ir.modules import codec_of

    with module.context, ir.Location.unknown():
        top = model_of(module)
        meshes = list(codec_of(top).meshes.values())
        top.dissolve()
    return meshes[0] if len(meshes) == 1 else None


def is_annotated(module: ir.Module) -> bool:
    """Whether a program has any annotation."""
    text = str(module)
    return any(word in text for word in _ANNOTATED)


def _checked(mesh: Mapping[str, int]) -> Mesh:
    if not all(isinstance(name, str) and name and is_count(size) and size for name, size in mesh.items()):
        raise UsageError(f"mesh is {shown(mesh)}, expected sizes by name", code=Code.BAD_VALUE)
    return Mesh(tuple(mesh.items()), name="mesh")


def _devices_of(target: str) -> int:
    """The number of devices of a target with a shape; 0 for other targets."""
    if not is_machine(target):
        return 0
    found = read_machine(target)
    assert found.torus is not None, "a machine has places"
    return math.prod(slot.size for slot in found.order) if found.order else found.torus.devices


def _all_meshes(count: int) -> list[Mesh]:
    """The meshes of one axis, and of two axes in both orders."""
    pairs = [(first, count // first) for first in range(2, count // 2 + 1) if count % first == 0]
    return [Mesh(tuple(zip(NAMES, sizes, strict=False)), name="mesh") for sizes in ((count,), *pairs)]


def _fits(mesh: Mesh, target: str) -> bool:
    """Whether the mesh fits the dimensions of a machine."""
    if not is_machine(target):
        return True
    found = read_machine(target)
    assert found.torus is not None, "a machine has places"
    return bool(found.order or placements(mesh, found.torus.box(mesh.size)))
