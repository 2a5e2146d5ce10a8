"""Images: the structure of the derivative of a value by one argument, with the other arguments fixed.

The derivative is a matrix from the elements of the argument to those of the value. Dimensions are factored into
*atoms*. Up to nonzero factors, the derivative is a Kronecker product of small matrices over the atoms:

- the identity for an atom that argument and value share: every element depends on the corresponding one,
- a `Mixer` between other atoms: a matrix whose submatrices all have the largest rank that their sizes allow, at most
  `rank`.

For example, in `%c = dot %a, %w` for f32[8,16] and f32[16,4], the image of `%a` shares the atom of 8, and mixes the 16
columns into 4 rows. The image of a sum over 16 elements mixes these into no rows, and that of a broadcast mixes no
columns into new rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

Dims = tuple[tuple[int, ...], ...]
"""The atoms of every dimension, major to minor; a dimension of size 1 has none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mixer:
    """A matrix from the elements of argument atoms, `columns`, to those of value atoms, `rows`.

    The rank of every submatrix is the minimum of its numbers of rows and columns and `rank`.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    rank: int


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """The derivative of a value by the argument with number `argument`.

    `slope` is the sign of its nonzero entries, 0 if unknown. `width` is the size in bytes of the narrowest element type
    between argument and value. `coefficients` are the arguments on which its entries may depend, as bits. `origin`
    identifies the matrices: images with equal origin and structure differ only in factors of their rows.
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
        """The atoms that argument and value share."""
        ours = {atom for dim in self.value for atom in dim}
        return tuple(atom for dim in self.source for atom in dim if atom in ours)

    def count(self, atoms: Collection[int]) -> int:
        """The number of elements of these atoms."""
        return math.prod(self.sizes[atom] for atom in atoms)

    @property
    def reaches_all(self) -> bool:
        """Whether the argument can change all elements of the value independently."""
        return all(self.count(m.rows) <= min(self.count(m.columns), m.rank) for m in self.mixers)

    def as_matrix(self, rows: Collection[int], columns: Collection[int]) -> int:
        """The rank of the value as a matrix of these dimensions, at almost all arguments; 0 if unknown.

        Submatrices have the largest rank that their sizes allow, up to this one. Other dimensions are batch dimensions.
        """
        if self.reaches_all:
            return self.count({atom for dim in self.value for atom in dim})
        mixed = [m for m in self.mixers if m.rows]
        if len(mixed) != 1 or not mixed[0].columns:
            return 0
        sides = ({atom for dim in side for atom in self.value[dim]} for side in (rows, columns))
        return min(mixed[0].rank, self.count(mixed[0].columns)) if any(map(set(mixed[0].rows).__eq__, sides)) else 0

    def same_matrix(self, other: Image) -> bool:
        """Whether the derivatives are equal up to factors of rows."""
        mine, theirs = ((i.argument, i.value, i.source, i.sizes, i.mixers, i.origin) for i in (self, other))
        return mine == theirs

    def scaled(self, slope: int, coefficients: int) -> Image:
        """The image with rows scaled by numbers of this sign, which depend on the arguments `coefficients`."""
        return dataclasses.replace(self, slope=self.slope * slope, coefficients=self.coefficients | coefficients)

    def narrowed(self, width: float) -> Image:
        """The image after passing through a value with elements of `width` bytes."""
        return self if width >= self.width else dataclasses.replace(self, width=width)


def of_argument(number: int, shape: Sequence[int], width: float) -> Image | None:
    """The image of an argument itself; None if it has no elements."""
    if 0 in shape:
        return None
    atoms = iter(range(len(shape)))
    dims = tuple((next(atoms),) if size > 1 else () for size in shape)
    return Image(number, dims, dims, tuple(size for size in shape if size > 1), width=width)


def transposed(image: Image, order: Sequence[int]) -> Image:
    return dataclasses.replace(image, value=tuple(image.value[dim] for dim in order))


def reshaped(image: Image, shape: Sequence[int]) -> Image | None:
    """The image of a reshape; None if a dimension would have to split an atom at a non-divisor."""
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
    """Split an atom into a major one of `size`, which keeps its number, and a minor one."""
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
    """The other operand of a contraction of an image over dimensions `summed`, with dimensions `batch`.

    `new` are the sizes of the result dimensions from the other operand, after the remaining ones if `behind`. `sign` is
    the sign of its elements, or 0. `free` are the arguments, as bits, each of which can give its elements any values.
    `rank` is its rank as a matrix, and of submatrices as far as their sizes allow; 0 if unknown. `arguments` are those
    on which it depends.
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
    """The image after a contraction; None if its ranks are unknown."""
    summed = {atom for dim in factor.summed for atom in image.value[dim]}
    summed_shared = [atom for atom in image.shared if atom in summed]
    summed_mixers = [m for m in image.mixers if summed.intersection(m.rows)]
    batch_atoms = {atom for dim in factor.batch for atom in image.value[dim]}
    if any(m.columns and batch_atoms.intersection(m.rows) for m in image.mixers):
        return None
    if any(not summed.issuperset(m.rows) for m in summed_mixers):
        return None
    same_sign = bool(factor.sign and image.slope)
    repeats, mixes = [m for m in summed_mixers if not m.columns], [m for m in summed_mixers if m.columns]
    if repeats and not same_sign:
        return None
    sizes = list(image.sizes)
    new_dims = []
    for size in factor.new:
        new_dims.append((len(sizes),) if size > 1 else ())
        sizes += [size] if size > 1 else []
    new = tuple(atom for dim in new_dims for atom in dim)
    rows = math.prod(factor.new)
    mixers = [m for m in image.mixers if m not in summed_mixers]
    if mixes:
        (mixed, *others) = mixes
        if summed_shared or others:
            return None
        if factor.free & ~image.coefficients:
            mixers.append(Mixer(new, mixed.columns, min(mixed.rank, rows, image.count(mixed.rows))))
        elif same_sign:
            mixers += [Mixer((), mixed.columns, 1), *(Mixer((atom,), (), 1) for atom in new)]
        else:
            return None
    elif summed_shared and factor.rank > 1:
        mixers.append(Mixer(new, tuple(summed_shared), min(rows, image.count(summed_shared), factor.rank)))
    elif factor.sign or factor.free:
        mixers += [Mixer((), tuple(summed_shared), 1)] if summed_shared else []
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
    """The image with its remaining atoms numbered from 0, so that images stay as small as their values."""
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
