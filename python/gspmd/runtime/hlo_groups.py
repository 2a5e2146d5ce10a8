"""The groups of an HLO collective: lists, iota, or mesh axes, and the pairs of permutes.

Source: how XLA prints `CollectiveDeviceList`; `gspmd.dialect.hlo_groups` has the other forms.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from gspmd.dialect import device_order
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError
from gspmd.dialect.hlo_groups import MeshGroups, parse_groups
from gspmd.transforms.ir.groups import replica_groups

_GROUPS = re.compile(r"replica_groups=(?P<list>\{[\d,{}]*\})|replica_groups=(?P<other>\S.*)")
_PAIRS = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")


def first_group(attributes: str, partitions: int) -> tuple[int, ...]:
    """The partitions of the first replica group of a collective. Errors: as `groups`."""
    return groups(attributes, partitions)[0]


def groups(attributes: str, partitions: int) -> tuple[tuple[int, ...], ...]:
    """The replica groups of a collective; one group of all `partitions` if it has none.

    Errors: InputError for groups in an unknown form.
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
    try:
        found = parse_groups(text)
    except Error:
        raise InputError(f"cannot read the groups of a collective: '{text[:80]}'", code=Code.BAD_FILE) from None
    if isinstance(found, MeshGroups):
        return tuple(map(tuple, replica_groups(found.mesh, found.axes).tolist()))
    ids = np.array(device_order.expand(found.order)).reshape(found.number, found.size)
    return tuple(map(tuple, ids.tolist()))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)
