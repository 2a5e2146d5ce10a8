"""Which mesh axes each dimension of a model is split over: all that tells one parallelism from another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax.extend import source_info_util
from jax.sharding import PartitionSpec

import gspmd

Axes = str | tuple[str, ...] | None
source_info_util.register_exclusion(__file__)  # what is annotated is told by the model's line


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A parallelism: `table` maps names of dimensions, one letter each, to mesh axes; what it lacks stays whole.

    `mesh` has the sizes of the axes on eight devices. A letter that occurs twice in a tensor, or whose axes another
    dimension before it has taken, is split once. Axes that `mesh` lacks are left out: one table serves several meshes.
    `moments` are axes that the optimizer's state is split over besides.
    """

    summary: str
    mesh: Mapping[str, int]
    table: Mapping[str, Axes]
    moments: Axes = None

    def on(self, axes: Iterable[str]) -> Recipe:
        """The same on a mesh of these axes: sizes by name, or names, where sizes do not matter."""
        sizes = dict(axes) if isinstance(axes, Mapping) else {axis: self.mesh.get(axis, 1) for axis in axes}
        return dataclasses.replace(self, mesh=sizes)

    def axes(self, dim: str) -> tuple[str, ...]:
        """The mesh axes that a dimension is split over where it is alone."""
        return tuple(axis for axis in _names(self.table.get(dim)) if axis in self.mesh)

    def size(self, dim: str) -> int:
        """How many parts that makes."""
        return math.prod(self.mesh[axis] for axis in self.axes(dim))

    def renamed(self, names: Mapping[str, str]) -> Recipe:
        """For a part of a model: a dimension that is called `d` there is split as `names[d]` is here."""
        return dataclasses.replace(self, table={**self.table, **{d: self.table.get(here) for d, here in names.items()}})

    def spec(self, dims: str) -> PartitionSpec:
        """The sharding of a tensor with these dimensions, as `recipe.spec("BSM")`; `.` names none."""
        entries: list[Axes] = []
        used: set[str] = set()
        for dim in dims:
            axes = tuple(axis for axis in self.axes(dim) if axis not in used)
            used.update(axes)
            entries.append(axes[0] if len(axes) == 1 else axes or None)
        return PartitionSpec(*entries)

    def moment_spec(self, dims: str, shape: Sequence[int]) -> PartitionSpec:
        """The sharding of the optimizer's state for such a parameter: its largest dimension is split over `moments`.

        Source: Xu et al., arXiv 2004.13336 (weight-update sharding); Rajbhandari et al., arXiv 1910.02054 (ZeRO).
        """
        entries = [_names(entry) for entry in self.spec(dims)]
        used = {axis for axes in entries for axis in axes}
        more = tuple(axis for axis in _names(self.moments) if axis in self.mesh and axis not in used)
        if entries:
            entries[max(range(len(shape)), key=shape.__getitem__)] += more
        return PartitionSpec(*(axes[0] if len(axes) == 1 else axes or None for axes in entries))

    def split(self, x: Any, dims: str) -> Any:
        """`x` annotated so; left alone where the recipe is for one device."""
        return gspmd.annotate(x, self.spec(dims)) if self.mesh else x


def _names(entry: Axes) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry or ()


ONE_DEVICE = Recipe("one device, nothing is split", {}, {})
