"""Random meshes, shardings and shapes, from a seeded generator."""

from __future__ import annotations

import random

from gspmd.dialect.axes import Axis, canonical
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding

_MESHES = [
    (("x", 8),),
    (("x", 4), ("y", 2)),
    (("x", 2), ("y", 2), ("z", 2)),
    (("x", 2), ("y", 3)),
    (("x", 6),),
    (("x", 4), ("one", 1), ("y", 2)),
]
_SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16]


def random_mesh(rng: random.Random) -> Mesh:
    """A mesh of at most 8 devices, one in three with its devices in another order."""
    mesh = Mesh(rng.choice(_MESHES))
    if rng.random() < 1 / 3:
        ids = list(range(mesh.size))
        rng.shuffle(ids)
        mesh = Mesh(mesh.axes, tuple(ids))
    return mesh


def random_shape(rng: random.Random, most: int = 3) -> tuple[int, ...]:
    return tuple(rng.choice(_SIZES) for _ in range(rng.randint(1, most)))


def random_sharding(rng: random.Random, mesh: Mesh, rank: int, unreduced: bool = False) -> TensorSharding:
    """Axes and parts of axes, each on some dimension or on none; with `unreduced` also partial over some."""
    while True:
        parts: list[Axis] = []
        for name, size in mesh.axes:
            cuts = [k for k in range(2, size) if size % k == 0]
            cut = rng.choice(cuts) if cuts and rng.random() < 0.5 else 1
            parts += [part for part in (Axis(name, 1, cut), Axis(name, cut, size // cut)) if part.size > 1]
        rng.shuffle(parts)
        homes: list[list[Axis]] = [[] for _ in range(rank + 2)]
        for part in parts:
            homes[rng.randrange(rank + 2 if unreduced else rank + 1)].append(part)
        dims = tuple(DimSharding(canonical(home)) for home in homes[:rank])
        partial = canonical(mesh.sorted(tuple(homes[-1]))) if unreduced else ()
        try:
            return TensorSharding(mesh, dims, (), partial)
        except AnnotationError:  # parts in an order that has no canonical form
            continue
