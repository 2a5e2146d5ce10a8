"""Replica groups and permute pairs, as partition ids, from mesh axes."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, Axis, atoms, split_at, without
from gspmd.dialect.device_order import check_listed
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.group_axes import names_axes, read_group_axes
from gspmd.dialect.mesh import Mesh

Ids = npt.NDArray[np.int64]


@functools.lru_cache(maxsize=4096)
def replica_groups(mesh: Mesh, axes: Axes) -> Ids:
    """Partition ids grouped along `axes`: `[groups, size of axes]`.

    Within a group, ids follow `axes`, the first being most major; groups follow the rest of the mesh in mesh order.
    """
    grid, parts = _grid(mesh, axes)
    wanted = [parts.index(axis) for axis in split_at(axes, _cuts(mesh, axes))]
    rest = [index for index in range(len(parts)) if index not in wanted]
    count = int(np.prod([grid.shape[i] for i in wanted], dtype=np.int64))
    return np.ascontiguousarray(grid.transpose(rest + wanted).reshape(-1, count))


def run_along(groups: ir.Attribute, mesh: Mesh, axes: Axes, meshes: Mapping[str, Mesh]) -> bool:
    """Whether the groups of a collective are those along `axes`, in their order; `meshes` are those of the module."""
    if names_axes(groups):
        over, named = read_group_axes(groups, meshes)
        return over == mesh and named == axes
    listed = np.array(ir.DenseIntElementsAttr(groups), np.int64)
    expected = replica_groups(mesh, axes)
    if listed.size != expected.size:
        return False
    listed = listed.reshape(ir.ShapedType(groups.type).shape)
    if listed.shape != expected.shape:
        return False
    return bool((listed[listed[:, 0].argsort()] == expected[expected[:, 0].argsort()]).all())


def permutation_pairs(mesh: Mesh, source: Axes, target: Axes) -> Ids:
    """Source and target partition ids, `[pairs, 2]`, of a permute that renames coordinates.

    The shard at coordinates c along `source` moves to coordinates c along `target`; both lists cover the
    same devices the same number of times. Pairs that stay in place are included.
    """
    before = replica_groups(mesh, source + _rest(mesh, source))
    after = replica_groups(mesh, target + _rest(mesh, target))
    return np.stack([before.reshape(-1), after.reshape(-1)], axis=1)


def reach_of(mesh: Mesh, pairs: Ids) -> int:
    """The maximum distance of a permute along a mesh axis, where axes are rings: 1 for a shift."""
    if not len(pairs) or not mesh.axes:
        return 0
    sizes = np.array([size for _, size in mesh.axes])
    places = np.empty(mesh.size, np.int64)
    places[list(mesh.device_ids) or slice(None)] = np.arange(mesh.size)
    ends = np.stack(np.unravel_index(places[pairs], sizes))
    ahead = np.abs(ends[..., 1] - ends[..., 0])
    return int(np.minimum(ahead, sizes[:, None] - ahead).max())


def renamed_groups(groups: ir.DenseElementsAttr, renaming: Ids) -> ir.DenseElementsAttr:
    """Groups or pairs of partitions, with partition i renamed to `renaming[i]`. Shorter groups end with -1.

    Raises AnnotationError for partitions without a new id.
    """
    ids = np.array(ir.DenseIntElementsAttr(groups), np.int64)
    shape = ir.ShapedType(groups.type).shape
    if not ids.size:
        return groups  # all devices
    check_partitions(ids, len(renaming))
    found = np.where(ids < 0, ids, renaming[ids]).reshape(shape)
    return ir.DenseElementsAttr.get(np.ascontiguousarray(found), context=groups.context)


def check_partitions(ids: Ids, count: int) -> None:
    """Raise AnnotationError for partition ids that are out of range; -1 stands for none."""
    if ids.size and (ids.min() < -1 or ids.max() >= count):
        raise AnnotationError(f"names partitions that a mesh of {count} devices does not have", code=Code.DEVICE_LIST)


def _rest(mesh: Mesh, axes: Axes) -> Axes:
    return without(mesh.all_axes(), axes)


def _cuts(mesh: Mesh, axes: Axes) -> dict[str, tuple[int, ...]]:
    return atoms([mesh.all_axes(), axes])


def _grid(mesh: Mesh, axes: Axes) -> tuple[Ids, list[Axis]]:
    """Partition ids as an array with one dimension per part of an axis, in mesh order."""
    check_listed(mesh.size)
    parts = list(split_at(mesh.all_axes(), _cuts(mesh, axes)))
    ids = np.array(mesh.device_ids, np.int64) if mesh.device_ids else np.arange(mesh.size, dtype=np.int64)
    return ids.reshape([axis.size for axis in parts]), parts
