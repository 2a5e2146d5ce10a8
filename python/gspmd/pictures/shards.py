"""A value's shards laid out as rows and columns, with the devices that hold each, for whoever draws it.

The last dimension that is split goes across, the one before it down; if there are more, or summands that are still to
be added, there is a layer for each of their parts. Of many parts the first and the last are shown.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from gspmd.dialect.axes import size_of
from gspmd.dialect.sharding import TensorSharding
from gspmd.runtime.layout import part_indices

MAX = 16  # rows and columns
_MAX_LAYERS = 4
_MAX_DEVICES = 1 << 14  # of a mesh whose devices are listed


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of dimension `dim` that are shown, None where no dimension is split there.

    `indices` are those of the shards, `ranges` the elements that each holds, which are none for padding alone.
    `left_out` shards are not shown, before the last one.
    """

    dim: int | None
    indices: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    left_out: int


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """One sheet of shards: `title` says which part of further dimensions it is, empty if there is only one.

    `cells` are the devices that hold each shard, by row and column.
    """

    title: str
    cells: tuple[tuple[tuple[int, ...], ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ShardPicture:
    """What every device holds of a value of `shape`; `local_shape` is that of a shard with its padding.

    Each part is held by `copies` devices. Over a mesh of very many, only the first of them is in its cell.
    """

    shape: tuple[int, ...]
    local_shape: tuple[int, ...]
    copies: int
    rows: Parts
    columns: Parts
    layers: tuple[Layer, ...]
    layers_left_out: int

    @property
    def is_even(self) -> bool:
        """Whether no shard that is shown has padding."""
        return all(
            parts.dim is None or all(stop - start == self.local_shape[parts.dim] for start, stop in parts.ranges)
            for parts in (self.rows, self.columns)
        )


def shard_picture(
    shape: tuple[int, ...], sharding: TensorSharding, most_rows: int = MAX, most_columns: int = MAX
) -> ShardPicture:
    """Lay out the shards of a value. Errors: AnnotationError for a sharding of another rank."""
    local = sharding.local_shape(shape)
    counts = sharding.shard_counts()
    split = [dim for dim, count in enumerate(counts) if count > 1]
    column = split[-1] if len(split) > 1 or (split and split[0] == len(shape) - 1) else None
    row = next((dim for dim in reversed(split) if dim != column), None)
    rows = _parts(shape, sharding, row, most_rows)
    columns = _parts(shape, sharding, column, most_columns)
    copies = sharding.mesh.size // size_of((*itertools.chain(*sharding.dim_axes()), *sharding.unreduced))
    holders = _holders(sharding) if sharding.mesh.size <= _MAX_DEVICES else _FirstHolders(sharding)
    others = [dim for dim in split if dim not in (row, column)]
    summands = size_of(sharding.unreduced)
    choices = list(itertools.islice(_choices(counts, others, summands), _MAX_LAYERS))
    layers = []
    for chosen in choices:
        cells = tuple(
            tuple(holders[_place(len(shape), chosen, {row: r, column: c})] for c in columns.indices)
            for r in rows.indices
        )
        layers.append(Layer(_title(shape, sharding, others, chosen), cells))
    left_out = math.prod(counts[dim] for dim in others) * summands - len(layers)
    return ShardPicture(shape, local, copies, rows, columns, tuple(layers), left_out)


def _choices(counts: Sequence[int], others: Sequence[int], summands: int) -> Iterator[dict[int, int]]:
    """A part of each of the other dimensions, and which summand, under -1."""
    for indices in itertools.product(*(range(counts[dim]) for dim in others), range(summands)):
        yield dict(zip((*others, -1), indices, strict=True))


def _holders(sharding: TensorSharding) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The devices that hold each part, the last index being that of the summand."""
    found: dict[tuple[int, ...], list[int]] = {}
    for device, part in enumerate(part_indices(sharding)):
        found.setdefault(part, []).append(device)
    return {part: tuple(devices) for part, devices in found.items()}


class _FirstHolders:
    """The first device that holds each part, for meshes whose devices nobody would read."""

    def __init__(self, sharding: TensorSharding) -> None:
        self._mesh, self._lists = sharding.mesh, (*sharding.dim_axes(), sharding.unreduced)

    def __getitem__(self, part: tuple[int, ...]) -> tuple[int, ...]:
        position = 0
        for index, axes in zip(part, self._lists, strict=True):
            for axis in reversed(axes):
                index, coordinate = divmod(index, axis.size)
                position += coordinate * self._mesh.stride(axis)
        return (self._mesh.device_ids[position] if self._mesh.device_ids else position,)


def _place(rank: int, chosen: Mapping[int, int], at: Mapping[int | None, int]) -> tuple[int, ...]:
    """The indices of a shard: of the other dimensions what was chosen, and where it is in its layer."""
    return (*(at.get(dim, chosen.get(dim, 0)) for dim in range(rank)), chosen[-1])


def _parts(shape: tuple[int, ...], sharding: TensorSharding, dim: int | None, most: int) -> Parts:
    if dim is None:
        return Parts(None, (0,), ((0, 0),), 0)
    count = sharding.shard_counts()[dim]
    indices = tuple(range(count)) if count <= most else (*range(max(most - 2, 1)), count - 1)
    return Parts(dim, indices, tuple(sharding.shard_range(shape, dim, i) for i in indices), count - len(indices))


def _title(shape: tuple[int, ...], sharding: TensorSharding, others: Sequence[int], chosen: dict[int, int]) -> str:
    words = []
    for dim in others:
        start, stop = sharding.shard_range(shape, dim, chosen[dim])
        words.append(f"dimension {dim}: {start}:{stop}")
    if sharding.unreduced:
        words.append(f"summand {chosen[-1]}")
    return ", ".join(words)


def devices_label(devices: Sequence[int], copies: int = 0) -> str:
    """`0-3, 8`; of many runs the first and the last, and how many devices there are, or `copies` if these are more."""
    if copies > len(devices):
        return f"{devices[0]} .. ({copies})"
    runs: list[list[int]] = []
    for device in devices:
        if runs and device == runs[-1][-1] + 1:
            runs[-1].append(device)
        else:
            runs.append([device])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(words) > 4:
        return f"{words[0]}, {words[1]} .. {words[-1]} ({len(devices)})"
    return ", ".join(words)
