"""The structure of a value's derivative by one argument, while all other arguments stay.

A derivative is a matrix from the argument's elements to the value's. Its dimensions are taken apart into *atoms*, and
it is the product (of Kronecker) of small matrices over these, up to factors that are not zero:

- an atom that argument and value share is the identity: every element depends on its own,
- a `Mixer` is a matrix between other atoms of which every part has the rank that its size allows, up to `rank`.

Of `%c = dot %a, %w` for f32[8,16] and f32[16,4], the image of `%a` has the atom of 8 in common, and mixes the 16
columns into 4 rows; that of a sum over 16 elements mixes these into none, and that of a broadcast mixes none into new
ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

Dims = tuple[tuple[int, ...], ...]
"""The atoms of every dimension, major to minor; of one of size 1 there are none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mixer:
    """A matrix from the elements of atoms of the argument, `columns`, to those of atoms of the value, `rows`.

    Of every choice of rows and columns the rank is the least of their numbers and `rank`.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    rank: int


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """The derivative of a value by the argument of that number.

    `slope` is the sign of all its entries that are not zero, 0 where that is not known. `width` are the bytes of the
    narrowest element type on the way. `coefficients` are the arguments that its entries may depend on, as bits.
    `origin` names the matrices: images of one origin and structure differ in the factors of their rows only.
    """

    argument: int
    value: Dims
    source: Dims
    sizes: tuple[int, ...]
    mixers: tuple[Mixer, ...] = ()
    slope: int = 1
    width: float = 0.0
    coefficients: int = 0
    origin: int = -1

    @property
    def shared(self) -> tuple[int, ...]:
        """The atoms that argument and value have in common."""
        ours = {atom for dim in self.value for atom in dim}
        return tuple(atom for dim in self.source for atom in dim if atom in ours)

    def count(self, atoms: Collection[int]) -> int:
        """The elements that these atoms have together."""
        return math.prod(self.sizes[atom] for atom in atoms)

    @property
    def reaches_all(self) -> bool:
        """Whether the argument can move all elements of the value independently."""
        return all(self.count(m.rows) <= min(self.count(m.columns), m.rank) for m in self.mixers)

    def as_matrix(self, rows: Collection[int], columns: Collection[int]) -> int:
        """The rank of the value as a matrix of these dimensions, at almost all arguments; of every part up to that.

        0 where it is not known. Other dimensions are of a batch, each element of which has a matrix of its own.
        """
        if self.reaches_all:
            return self.count({atom for dim in self.value for atom in dim})
        mixed = [m for m in self.mixers if m.rows]
        if len(mixed) != 1 or not mixed[0].columns:
            return 0
        sides = ({atom for dim in side for atom in self.value[dim]} for side in (rows, columns))
        return min(mixed[0].rank, self.count(mixed[0].columns)) if any(map(set(mixed[0].rows).__eq__, sides)) else 0

    def same_matrix(self, other: Image) -> bool:
        """Whether the other derivative is this one, each row times a number."""
        mine, theirs = ((i.argument, i.value, i.source, i.sizes, i.mixers, i.origin) for i in (self, other))
        return mine == theirs

    def scaled(self, slope: int, coefficients: int) -> Image:
        """Every row times a number of this sign, which depends on these arguments."""
        return dataclasses.replace(self, slope=self.slope * slope, coefficients=self.coefficients | coefficients)

    def narrowed(self, width: float) -> Image:
        """The image of a value that is made of such elements."""
        return self if width >= self.width else dataclasses.replace(self, width=width)


def of_argument(number: int, shape: Sequence[int], width: float) -> Image | None:
    """An argument by itself; None where it has no elements."""
    if 0 in shape:
        return None
    atoms = iter(range(len(shape)))
    dims = tuple((next(atoms),) if size > 1 else () for size in shape)
    return Image(number, dims, dims, tuple(size for size in shape if size > 1), width=width)


def transposed(image: Image, order: Sequence[int]) -> Image:
    return dataclasses.replace(image, value=tuple(image.value[dim] for dim in order))


def reshaped(image: Image, shape: Sequence[int]) -> Image | None:
    """The same elements in another shape; None if an atom would have to be cut elsewhere than at a divisor."""
    left = [atom for dim in image.value for atom in dim]
    dims: list[tuple[int, ...]] = []
    for size in shape:
        dim: list[int] = []
        while size > 1:
            if not left:
                return None
            atom = left.pop(0)
            has = image.sizes[atom]
            if has > size:
                if has % size:
                    return None
                image, minor = _cut(image, atom, size)
                left.insert(0, minor)
                has = size
            if size % has:
                return None
            size //= has
            dim.append(atom)
        dims.append(tuple(dim))
    return None if left else dataclasses.replace(image, value=tuple(dims))


def _cut(image: Image, atom: int, size: int) -> tuple[Image, int]:
    """Take an atom apart into a major one of `size`, which keeps its number, and the rest."""
    minor = len(image.sizes)
    sizes = list(image.sizes)
    sizes[atom] //= size
    sizes.append(sizes[atom])
    sizes[atom] = size

    def cut(atoms: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(part for each in atoms for part in ((each, minor) if each == atom else (each,)))

    mixers = tuple(Mixer(cut(m.rows), cut(m.columns), m.rank) for m in image.mixers)
    value, source = (tuple(map(cut, dims)) for dims in (image.value, image.source))
    return dataclasses.replace(image, value=value, source=source, sizes=tuple(sizes), mixers=mixers), minor


def spread(image: Image, dims: Sequence[int], shape: Sequence[int]) -> Image:
    """A broadcast to `shape`, in which dimension i is dimension `dims[i]`."""
    found: list[tuple[int, ...]] = [() for _ in shape]
    sizes, mixers = list(image.sizes), list(image.mixers)
    for dim, target in enumerate(dims):
        found[target] = image.value[dim]
    kept = {target for dim, target in enumerate(dims) if image.count(image.value[dim]) == shape[target]}
    for target, size in enumerate(shape):
        if target not in kept and size > 1:
            found[target] = (len(sizes),)
            mixers.append(Mixer((len(sizes),), (), 1))
            sizes.append(size)
    return dataclasses.replace(image, value=tuple(found), sizes=tuple(sizes), mixers=tuple(mixers))


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """The other factor of a contraction with an image: dimensions that stay (`batch`), and those that are summed.

    `new` are the sizes of dimensions that come from the other side, behind those that are left if `behind`. The other
    side's numbers are of one sign (`sign`), or 0; `free` are the arguments, as bits, each of which can make all of them
    any numbers at all. `rank` is that of the other side as a matrix, and of every part up to that; 0 where it is not
    known. `arguments` are all that it depends on.
    """

    batch: tuple[int, ...]
    summed: tuple[int, ...]
    new: tuple[int, ...]
    behind: bool
    sign: int
    free: int
    rank: int
    arguments: int


def contracted(image: Image, factor: Factor, origin: int) -> Image | None:
    """The image after a product that is summed over dimensions, None where nothing is known of its ranks."""
    gone = {atom for dim in factor.summed for atom in image.value[dim]}
    alike = [atom for atom in image.shared if atom in gone]
    hit = [m for m in image.mixers if gone.intersection(m.rows)]
    among = {atom for dim in factor.batch for atom in image.value[dim]}
    if any(m.columns and among.intersection(m.rows) for m in image.mixers):
        return None
    if any(not gone.issuperset(m.rows) for m in hit):
        return None
    same_sign = bool(factor.sign and image.slope)
    repeats, mixes = [m for m in hit if not m.columns], [m for m in hit if m.columns]
    if repeats and not same_sign:
        return None
    sizes = list(image.sizes)
    new_dims = []
    for size in factor.new:
        new_dims.append((len(sizes),) if size > 1 else ())
        sizes += [size] if size > 1 else []
    new = tuple(atom for dim in new_dims for atom in dim)
    rows = math.prod(factor.new)
    mixers = [m for m in image.mixers if m not in hit]
    if mixes:
        (mixed, *others) = mixes
        if alike or others:
            return None
        if factor.free & ~image.coefficients:
            mixers.append(Mixer(new, mixed.columns, min(mixed.rank, rows, image.count(mixed.rows))))
        elif same_sign:
            mixers += [Mixer((), mixed.columns, 1), *(Mixer((atom,), (), 1) for atom in new)]
        else:
            return None
    elif alike and factor.rank > 1:
        mixers.append(Mixer(new, tuple(alike), min(rows, image.count(alike), factor.rank)))
    elif factor.sign or factor.free:
        mixers += [Mixer((), tuple(alike), 1)] if alike else []
        mixers += [Mixer((atom,), (), 1) for atom in new]
    else:
        return None
    left = [dims for dim, dims in enumerate(image.value) if dim not in (*factor.batch, *factor.summed)]
    batch = [image.value[dim] for dim in factor.batch]
    made = dataclasses.replace(
        image,
        value=tuple([*batch, *left, *new_dims] if factor.behind else [*batch, *new_dims, *left]),
        sizes=tuple(sizes),
        mixers=tuple(mixers),
        slope=image.slope * factor.sign,
        coefficients=image.coefficients | factor.arguments,
        origin=origin,
    )
    return _renumbered(made)


def _renumbered(image: Image) -> Image:
    """The same without the numbers of dropped atoms, so that images stay as small as their values."""
    used = sorted({atom for dims in (image.value, image.source) for dim in dims for atom in dim})
    number = {atom: index for index, atom in enumerate(used)}

    def new(atoms: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([number[atom] for atom in atoms])

    return dataclasses.replace(
        image,
        value=tuple(map(new, image.value)),
        source=tuple(map(new, image.source)),
        sizes=tuple([image.sizes[atom] for atom in used]),
        mixers=tuple([Mixer(new(m.rows), new(m.columns), m.rank) for m in image.mixers]),
    )
