"""Check that PJRT clients read the intended replica groups.

The encoding of groups by mesh axes for a client depends on jaxlib, and a client that reads other groups computes wrong
numbers. The encoding depends only on the groups of the module, so it is checked with a small module that has one
collective for each distinct group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.errors import InternalError
from gspmd.dialect.group_axes import names_axes, read_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh_definition
from gspmd.runtime.hlo_groups import groups as groups_of_hlo
from gspmd.transforms.ir.groups import Ids, replica_groups
from gspmd.transforms.ir.modules import codec_of, main_function
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import parse_module

_GATHER = (
    '%{i} = "stablehlo.all_gather"(%a) <{{all_gather_dim = 0 : i64, use_global_device_ids, replica_groups = {groups}, '
    "channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>}}> : (tensor<1xf32>) -> {type}\n"
)
_Groups = tuple[tuple[int, ...], ...]


def check_groups(meant: Sequence[tuple[ir.Attribute, Ids]], mesh: Mesh, context: ir.Context) -> None:
    """Raise InternalError if a client would read other groups than those of a module.

    The test module has all of these groups and the mesh.
    """
    text = _probe(meant, mesh)
    partitions = max(ids.size for _, ids in meant)
    hint = f"partition with 'list-groups-up-to' of {partitions} until it does; please report this"
    try:
        reads = {"plugins": _read_by_plugins(text, context), "clients": _read_by_clients(text, partitions)}
    except (RuntimeError, ValueError, ir.MLIRError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InternalError(f"jaxlib does not take groups along mesh axes: {reason}", hint=hint) from None
    for reader, read in reads.items():
        for (groups, ids), found in zip(meant, read, strict=True):
            expected = _comparable(ids.tolist())
            if found != expected:
                raise InternalError(
                    f"jaxlib lets {reader} of PJRT read replica groups {groups} as {_short(found)}; "
                    f"expected {_short(expected)}",
                    hint=hint,
                )


def _probe(meant: Sequence[tuple[ir.Attribute, Ids]], mesh: Mesh) -> str:
    """A module with an all-gather over each of the groups."""
    types = [f"tensor<{ids.shape[1]}xf32>" for _, ids in meant]
    gathers = "".join(
        _GATHER.format(i=i, groups=groups, channel=i + 1, type=type_)
        for i, ((groups, _), type_) in enumerate(zip(meant, types, strict=True))
    )
    values = ", ".join(f"%{i}" for i in range(len(types)))
    all_types = ", ".join(types)
    defined = f"{print_mesh_definition(mesh)}\n"
    return (
        f"{defined}func.func @main(%a: tensor<1xf32>) -> ({all_types}) {{\n{gathers}return {values} : {all_types}\n}}\n"
    )


def _read_by_plugins(text: str, context: ir.Context) -> list[_Groups]:
    """The groups of the gathers in the version of StableHLO that jaxlib writes for plugins."""
    version = stablehlo.get_version_from_compatibility_requirement(stablehlo.StablehloCompatibilityRequirement.WEEK_12)
    artifact = _jax.mlir.serialize_portable_artifact(parse_module(text, context), version)
    module = _jax.mlir.deserialize_portable_artifact(artifact, context)
    top = model_of(module)
    meshes = codec_of(top).meshes
    found = []
    for op in main_function(top).regions[0]:
        if "replica_groups" in op.attributes:
            groups = op.attributes["replica_groups"]
            if names_axes(groups):
                ids = replica_groups(*read_group_axes(groups, meshes))
            else:
                ids = np.array(ir.DenseIntElementsAttr(groups), np.int64).reshape(groups.type.shape)
            found.append(_comparable(ids.tolist()))
    return found


def _read_by_clients(text: str, partitions: int) -> list[_Groups]:
    """The groups of the gathers in HLO, to which in-process clients convert a module."""
    hlo = _jax.mlir.mlir_module_to_xla_computation(text).as_hlo_text()
    return [_comparable(groups_of_hlo(line, partitions)) for line in hlo.splitlines() if " all-gather(" in line]


def _comparable(groups: Iterable[Iterable[int]]) -> _Groups:
    """Groups in a canonical order; the order within a group matters."""
    return tuple(sorted(map(tuple, groups)))


def _short(groups: object) -> str:
    text = str(groups)
    return text if len(text) <= 80 else f"{text[:80]}.."
