"""The collectives of partitioned programs, read from StableHLO modules and from HLO text by the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from measurement import Transfer

from gspmd.compiled.hlo_work import operand_of
from gspmd.compiled.optimized_hlo import Instruction, OptimizedModule
from gspmd.dialect.axes import size_of
from gspmd.dialect.group_axes import names_axes, read_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.emit.builder import bytes_of
from gspmd.transforms.emit.collective_builder import KINDS
from gspmd.transforms.ir.modules import codec_of, functions
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.machine.cost import sent_bytes

# ---- StableHLO ------------------------------------------------------------------------------------


def of_stablehlo(module: Any) -> tuple[Transfer, ...]:
    """The collectives of a module whose only blocks with collectives are bodies of functions."""
    top = model_of(module)
    meshes = codec_of(top).meshes
    found = []
    for function in functions(top):
        for op in function.regions[0]:
            kind = op.name.removeprefix("stablehlo.")
            if kind in KINDS:
                local = sum(bytes_of(operand.type) for operand in op.operands)
                users = (user.name for result in op.results for user in result.users)
                found.append(transfer(kind, local, _group_size(op, kind, meshes), users, "stablehlo.dynamic_slice"))
    return tuple(found)


def _group_size(op: Any, kind: str, meshes: Mapping[str, Mesh]) -> int:
    """Devices that take part in one group of the collective: groups are listed, or along axes of a mesh."""
    if kind == "collective_permute":
        return 2
    groups = op.attributes["replica_groups"]
    if names_axes(groups):
        return size_of(read_group_axes(groups, meshes)[1])
    return int(groups.type.shape[1])


def transfer(kind: str, local_bytes: float, devices: int, users: Iterable[str], slicing: str) -> Transfer:
    """A collective on an operand of `local_bytes` whose result is used by operations named `users`."""
    sent = sent_bytes(kind, local_bytes, devices)
    names = set(users)
    scattered = kind == "all_reduce" and names == {slicing}
    return Transfer(kind, sent, sent_bytes("reduce_scatter", local_bytes, devices) if scattered else sent)


# ---- HLO ------------------------------------------------------------------------------------------


def of_hlo(text: str) -> tuple[Transfer, ...]:
    """The collectives of an HLO module; loops, of which the programs here have none with collectives, count once."""
    module = OptimizedModule(text)
    found = []
    for computation in module.computations.values():
        users: dict[str, set[str]] = {}
        for instruction in computation.values():
            for name in instruction.operands:
                users.setdefault(name, set()).add(instruction.opcode)
        found += [
            hlo_transfer(module, instruction, users.get(instruction.name, ()))
            for instruction in computation.values()
            if instruction.collective
        ]
    return tuple(found)


def hlo_transfer(module: OptimizedModule, collective: Instruction, users: Iterable[str] = ()) -> Transfer:
    """A collective of a module; `users` are the operations that use its result."""
    devices, local_bytes = operand_of(module, collective)
    return transfer(collective.collective or "", local_bytes, devices, users, "dynamic-slice")
