"""The collectives of partitioned programs, read from StableHLO modules and from HLO text by the same rules."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from jaxlib.mlir import ir
from measurement import Transfer

from gspmd.optimized_hlo import Instruction, OptimizedModule
from gspmd.transforms.support.builder import bytes_of, read_type
from gspmd.transforms.support.collective_builder import KINDS
from gspmd.transforms.support.cost import sent_bytes

_NAMED_AXIS = re.compile(r'name ?= ?"(\w+)"(?:, sub_axis_info ?= ?[^>]*?\bsize ?= ?(\d+)>)?')

# ---- StableHLO ------------------------------------------------------------------------------------


def of_stablehlo(module: Any, axes: Mapping[str, int]) -> tuple[Transfer, ...]:
    """The collectives of a module whose only blocks with collectives are bodies of functions.

    `axes` are the sizes of the mesh's axes, by name.
    """
    found = []
    for function in module.body.operations:
        for region in function.operation.regions:
            for view in region.blocks[0].operations:
                op = view.operation
                kind = op.name.removeprefix("stablehlo.")
                if kind in KINDS:
                    local = sum(bytes_of(read_type(operand)) for operand in op.operands)
                    users = (user.operation.name for result in op.results for user in _users(result))
                    found.append(transfer(kind, local, _group_size(op, kind, axes), users, "stablehlo.dynamic_slice"))
    return tuple(found)


def _users(value: Any) -> list[Any]:
    return [use.owner for use in value.uses]


def _group_size(op: Any, kind: str, axes: Mapping[str, int]) -> int:
    """Devices that take part in one group of the collective: groups are listed, or named by axes of the mesh."""
    if kind == "collective_permute":
        return 2
    groups = op.attributes["replica_groups"]
    if isinstance(groups, ir.DenseElementsAttr):
        return int(groups.type.shape[1])
    named = _NAMED_AXIS.findall(str(groups))
    if not named:
        raise ValueError(f"expected replica groups of axes, got '{str(groups)[:200]}'")
    return math.prod(int(size) if size else axes[name] for name, size in named)


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
    kind = collective.collective or ""
    devices = 2 if kind == "collective_permute" else len(module.group(collective))
    return transfer(kind, collective.operand_bytes(devices), devices, users, "dynamic-slice")
