"""The collectives of partitioned programs, read from StableHLO modules and from HLO text by the same rules."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from jaxlib.mlir import ir
from measurement import Transfer

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

COLLECTIVE = re.compile(
    r"^ *(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) "
    r"(?P<kind>all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(.*$",
    re.MULTILINE,
)
_USE = re.compile(r"^ *(?:ROOT )?%[\w.\-]+ = (?:\(.*?\)|\S+) ([\w\-]+)\((.*?)\)", re.MULTILINE)
_SHAPE = re.compile(r"\b([a-z]+)(\d*)\w*\[([\d,]*)\]")
_IOTA_GROUPS = re.compile(r"replica_groups=\[\d+,(\d+)\]")
_LISTED_GROUPS = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[([^\]]*)\].*? \{([^}]*)\}")
_MESH_AXIS = re.compile(r"'(\w+)'=(\d+)")
_GROUP_AXIS = re.compile(r"'(\w+)'(?::\(\d+\)(\d+))?")


def of_hlo(text: str) -> tuple[Transfer, ...]:
    """The collectives of an HLO module; loops, of which the programs here have none with collectives, count once."""
    users: dict[str, set[str]] = {}
    for use in _USE.finditer(text):
        for name in re.findall(r"%([\w.\-]+)", use[2]):
            users.setdefault(name, set()).add(use[1])
    return tuple(hlo_transfer(match, users.get(match["name"], ())) for match in COLLECTIVE.finditer(text))


def hlo_transfer(match: re.Match[str], users: Iterable[str] = ()) -> Transfer:
    """The collective that COLLECTIVE found in a line; `users` are the operations that use its result."""
    kind = match["kind"].replace("-", "_")
    devices = 2 if kind == "collective_permute" else _hlo_group_size(match[0])
    result = _bytes(match["type"])
    local = {"all_gather": result / devices, "reduce_scatter": result * devices}.get(kind, result)
    return transfer(kind, local, devices, users, "dynamic-slice")


def _bytes(type_text: str) -> float:
    """Bytes of an HLO type such as `f32[16,128]{1,0}`, or of all elements of a tuple."""
    total = 0.0
    for letters, bits, dims in _SHAPE.findall(type_text):
        element = 1 if letters == "pred" else int(bits) / 8
        total += element * math.prod(int(d) for d in dims.split(",") if d)
    return total


def _hlo_group_size(line: str) -> int:
    if found := _IOTA_GROUPS.search(line):
        return int(found[1])
    if found := _MESH_GROUPS.search(line):
        sizes = {axis: int(size) for axis, size in _MESH_AXIS.findall(found[1])}
        return math.prod(int(part) if part else sizes[axis] for axis, part in _GROUP_AXIS.findall(found[2]))
    if found := _LISTED_GROUPS.search(line):
        return found[1].count(",") + 1
    raise ValueError(f"expected replica groups in '{line.strip()[:200]}'")
