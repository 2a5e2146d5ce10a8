"""The only mesh of a module for PJRT, such that boundaries and replica groups use whole axes of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from gspmd.dialect.axes import Axes, Axis, atoms, split_at
from gspmd.dialect.mesh import Mesh

NAME = "devices"
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclasses.dataclass(frozen=True)
class PjrtMesh:
    """A mesh of the devices in the order 0, 1, 2, ..., whose axes are cut wherever one of `lists` cuts them.

    `source` is the mesh by whose axes the program says the same. Errors: ValueError for cuts that do not nest.
    """

    source: Mesh
    lists: tuple[Axes, ...]

    def __post_init__(self) -> None:
        cuts = atoms([self.source.all_axes(), *self.lists])
        parts = split_at(self.source.all_axes(), cuts)
        names = dict(zip(parts, plain_names(parts), strict=True))
        mesh = Mesh(tuple((names[part], part.size) for part in parts), name=NAME)
        object.__setattr__(self, "mesh", mesh)
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "_wholes", {part: Axis(names[part], 1, part.size) for part in parts})

    mesh: Mesh = dataclasses.field(init=False)
    cuts: dict[str, tuple[int, ...]] = dataclasses.field(init=False, repr=False)
    _wholes: dict[Axis, Axis] = dataclasses.field(init=False, repr=False)

    def with_cuts(self, axes: Axes) -> PjrtMesh | None:
        """The mesh with additional cuts for these axes; None if they do not nest with the existing cuts."""
        try:
            return PjrtMesh(self.source, (*self.lists, axes))
        except ValueError:
            return None

    def is_cut_for(self, axes: Axes) -> bool:
        """Whether these axes start and end at cuts of the mesh."""
        cut = self.with_cuts(axes)
        return cut is not None and cut.cuts == self.cuts

    @property
    def unnamed(self) -> Mesh:
        """The mesh in full."""
        return dataclasses.replace(self.mesh, name="")

    def whole(self, axes: Axes) -> Axes:
        """The same in whole axes of the mesh, which has the cuts for them."""
        return tuple(self._wholes[part] for part in split_at(axes, self.cuts))


def mesh_for(source: Mesh, boundaries: Iterable[Axes], groups: Iterable[Axes]) -> PjrtMesh:
    """The mesh with cuts for all boundaries, and for the groups that nest with earlier cuts."""
    mesh = PjrtMesh(dataclasses.replace(source, device_ids=()), tuple(boundaries))
    for axes in groups:
        mesh = mesh.with_cuts(axes) or mesh
    return mesh


def plain_names(parts: Axes) -> list[str]:
    """Names for parts of axes that every HLO parser accepts: `x`, and `x.2` for the part after a part of size 2."""
    found: list[str] = []
    for part in parts:
        stem = part.name if _PLAIN.fullmatch(part.name) else "axis"
        candidates = (stem, f"{stem}.{part.pre}", *(f"{stem}.{part.pre}.{i}" for i in range(len(parts))))
        found.append(next(name for name in candidates if name not in found))
    return found
