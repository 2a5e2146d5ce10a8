"""Which partitions a collective of HLO joins: groups as lists, as iota or by axes of a mesh, and pairs of permutes.

Source: how XLA prints `CollectiveDeviceList`, `IotaReplicaGroupList` and `MeshAxesReplicaGroupList`.
"""

from __future__ import annotations

import functools
import math
import re

import numpy as np

from gspmd.dialect.axes import canonical
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.ir.groups import Ids, replica_groups

_GROUPS = re.compile(r"replica_groups=(?P<list>\{[\d,{}]*\})|replica_groups=(?P<other>\S.*)")
_IOTA = re.compile(r"\[(?P<number>\d+),(?P<size>\d+)\]<=(?P<order>\[[\d,]+\](?:T\([\d,]+\))?)")
_MESH = re.compile(r"mesh\[(?P<axes>[^\]]*)\](?:, device_ids=\((?P<ids>[^{]*)\))? \{(?P<group>[^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_AXIS_OF_GROUP = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_ORDER = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_PAIRS = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")


def first_group(attributes: str, partitions: int) -> tuple[int, ...]:
    """The partitions of the first replica group of a collective. Errors: as `groups`."""
    return groups(attributes, partitions)[0]


def groups(attributes: str, partitions: int) -> tuple[tuple[int, ...], ...]:
    """The replica groups of a collective; one of all `partitions` where none are named.

    Errors: InputError for groups in a form that is not known.
    """
    found = _GROUPS.search(attributes)
    if found is None or found["list"] == "{}":
        return (tuple(range(partitions)),)
    return _listed(found["list"]) if found["list"] else _expanded(found["other"])


def pairs(attributes: str) -> tuple[tuple[int, int], ...]:
    """The sources and targets of a permute."""
    found = _PAIRS.search(attributes)
    if not found:
        return ()
    return tuple((int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", found[1]))


@functools.lru_cache(maxsize=256)
def _listed(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(map(_numbers, text.strip("{}").split("},{")))


@functools.lru_cache(maxsize=256)
def _expanded(text: str) -> tuple[tuple[int, ...], ...]:
    if iota := _IOTA.match(text):
        ids = _order(iota["order"]).reshape(int(iota["number"]), int(iota["size"]))
    elif named := _MESH.match(text):
        sizes = tuple((name, int(size)) for name, size in _AXIS.findall(named["axes"]))
        mesh = Mesh(sizes, tuple(_order(named["ids"]).tolist()) if named["ids"] else (), "")
        # The first number of a part is the product of the parts of the axis that are more major.
        parts = _AXIS_OF_GROUP.findall(named["group"])
        axes = canonical(mesh.axis(name, int(pre or 1), int(size) if size else None) for name, pre, size in parts)
        ids = replica_groups(mesh, axes)
    else:
        raise InputError(f"cannot read the groups of a collective: '{text[:80]}'", code=Code.BAD_FILE)
    return tuple(map(tuple, ids.tolist()))


def _order(text: str) -> Ids:
    """Iota over dimensions, transposed, or a list: `[8,16]T(1,0)`, `[8]`, `0,2,1,3`."""
    found = _ORDER.fullmatch(text)
    if not found:
        return np.array(_numbers(text), np.int64)
    ids = np.arange(math.prod(_numbers(found[1])), dtype=np.int64).reshape(_numbers(found[1]))
    return (ids.transpose(_numbers(found[2])) if found[2] else ids).reshape(-1)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)
