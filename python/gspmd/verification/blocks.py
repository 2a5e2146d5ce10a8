"""Integers in blocks, within which they grow evenly along every axis; functions are computed block by block.

These functions are written as for arrays. Sums and multiples of integers that grow evenly do so, too. A comparison or a
quotient may change within a block: then `Split` asks for smaller blocks, down to blocks of one position.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

ANY = 1 - 2**52
"""The entry at a position where the integer does not matter. As bits of a float, it is a NaN that never occurs."""

Array = npt.NDArray[Any]
_LARGE = 2**60


class Split(Exception):
    """Asks for blocks of at most `size` positions along an axis."""

    def __init__(self, axis: int, size: int) -> None:
        super().__init__(axis, size)
        self.axis, self.size = axis, size


class Blocks(np.lib.mixins.NDArrayOperatorsMixin):
    """Integers over axes that are cut into blocks of `sizes` positions: `core` has the first integer of every block.

    The n-th integer of a block along an axis exceeds the first by n times the step of the axis. Blocks of ANY have no
    steps.
    """

    def __init__(self, core: Array, steps: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self.core, self.steps, self.sizes = core, steps, sizes

    @property
    def is_even(self) -> bool:
        """Whether all integers of a block are equal."""
        return not any(self.steps)

    def astype(self, dtype: Any) -> Blocks:
        """As for arrays."""
        return Blocks(self.core.astype(dtype), self.steps, self.sizes)

    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest integer of every block."""
        reach = [step * (size - 1) for step, size in zip(self.steps, self.sizes, strict=True)]
        return self.core + sum(min(r, 0) for r in reach), self.core + sum(max(r, 0) for r in reach)

    def even(self) -> Array:
        """The integer of every block. Raises Split if the integers within a block differ."""
        for axis, step in enumerate(self.steps):
            if step:
                raise Split(axis, 1)
        return self.core

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError("blocks are not an array")

    # ---- functions of numpy ----

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        values = [self._as_blocks(each) for each in inputs]
        if all(value.is_even for value in values):
            return self._made(ufunc(*(value.core for value in values)))
        rule: Callable[..., Blocks] = _UFUNCS.get(ufunc, _even)
        return rule(ufunc, *values)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.where:
            return _where(*map(self._as_blocks, args))
        if function is np.clip:
            value, low, high = map(self._as_blocks, args)
            return np.minimum(np.maximum(value, low), high)
        return NotImplemented

    def _as_blocks(self, value: Any) -> Blocks:
        return value if isinstance(value, Blocks) else self._made(np.asarray(value))

    def _made(self, core: Array, steps: tuple[int, ...] = ()) -> Blocks:
        return Blocks(core, steps or (0,) * len(self.sizes), self.sizes)

    def split_at(self, places: Callable[[Array, int], Array], where: Array, steps: tuple[int, ...]) -> Split:
        """The split after which a result changes only between blocks.

        `places` takes the first integers of blocks and a step, and gives the positions before which the result changes.
        """
        reach = [abs(step) * (size - 1) for step, size in zip(steps, self.sizes, strict=True)]
        axis = int(np.argmax(reach))
        size, wanted = self.sizes[axis], self.sizes[axis]
        for place in np.unique(places(self.core[where], steps[axis])):
            if 0 < place < size:
                wanted = math.gcd(wanted, int(place))
        if wanted == size:
            wanted = next(size // n for n in range(2, size + 1) if size % n == 0)
        return Split(axis, wanted)


def _even(ufunc: Any, *values: Blocks) -> Blocks:
    return Blocks(ufunc(*(value.even() for value in values)), (0,) * len(values[0].sizes), values[0].sizes)


def _linear(ufunc: Any, left: Blocks, right: Blocks) -> Blocks:
    steps = tuple(int(ufunc(a, b)) for a, b in zip(left.steps, right.steps, strict=True))
    return Blocks(ufunc(left.core, right.core), steps, left.sizes)


def _multiple(ufunc: Any, left: Blocks, right: Blocks) -> Blocks:
    value, by = (left, right) if right.is_even else (right, left)
    if not by.is_even or by.core.size != 1:
        return _even(ufunc, left, right)
    factor = int(by.core.reshape(()))
    return Blocks(value.core * factor, tuple(step * factor for step in value.steps), value.sizes)


def _against(ufunc: Any, left: Blocks, right: Blocks) -> Blocks:
    """A comparison, computed as one of the difference with 0. A block of ANY is ANY everywhere."""
    none = (0,) * len(left.sizes)
    for value, other in ((left, right), (right, left)):
        if other.is_even and other.core.size == 1 and int(other.core.reshape(())) == ANY:
            return Blocks(ufunc(value.core, ANY), none, left.sizes)
    if left.steps == right.steps and ufunc in (np.equal, np.not_equal):
        return Blocks(ufunc(left.core, right.core), none, left.sizes)
    if any((abs(value.core) >= _LARGE).any() for value in (left, right)):
        return _even(ufunc, left, right)  # bits of floats, whose difference may not fit 64 bits
    difference = left - right
    low, high = difference.bounds()
    limits = [number for number, compares in ((0, _AT_0), (1, _AT_1)) if ufunc in compares]
    changes = functools.reduce(np.logical_or, [(low < limit) & (high >= limit) for limit in limits])
    if changes.any():
        places = functools.partial(_reached, limits=limits)
        raise difference.split_at(places, np.broadcast_to(changes, difference.core.shape), difference.steps)
    return Blocks(ufunc(difference.core, 0), none, left.sizes)


def _reached(first: Array, step: int, limits: list[int]) -> Array:
    """The first positions at which integers that grow by a step reach the limits, or no longer do."""
    return np.concatenate(
        [-((first - limit) // step) if step > 0 else (first - limit) // -step + 1 for limit in limits]
    )


def _quotient(ufunc: Any, value: Blocks, by: Blocks) -> Blocks:
    if not by.is_even or by.core.size != 1 or int(by.core.reshape(())) <= 0:
        return _even(ufunc, value, by)
    divisor = int(by.core.reshape(()))
    wholes = tuple(int(step / divisor) if abs(step) >= divisor else 0 for step in value.steps)
    rests = tuple(step - whole * divisor for step, whole in zip(value.steps, wholes, strict=True))
    rest = Blocks(value.core % divisor, rests, value.sizes)
    low, high = rest.bounds()
    beyond = (low < 0) | (high >= divisor)
    if beyond.any():

        def ends(first: Array, step: int) -> Array:
            left = first % divisor
            return (divisor - left + step - 1) // step if step > 0 else left // -step + 1

        raise value.split_at(ends, beyond, rests)
    return rest if ufunc is np.remainder else Blocks(value.core // divisor, wholes, value.sizes)


def _extreme(ufunc: Any, left: Blocks, right: Blocks) -> Blocks:
    return _where(left <= right if ufunc is np.minimum else left >= right, left, right)


def _where(mask: Blocks, yes: Blocks, no: Blocks) -> Blocks:
    chosen = mask.even().astype(bool)
    steps = list(yes.steps)
    matters = [bool((here & (value.core != ANY)).any()) for here, value in ((chosen, yes), (~chosen, no))]
    if all(matters):
        for axis, (a, b) in enumerate(zip(yes.steps, no.steps, strict=True)):
            if a != b:
                raise Split(axis, 1)
    elif matters[1]:
        steps = list(no.steps)
    return Blocks(np.where(chosen, yes.core, no.core), tuple(steps), mask.sizes)


_AT_0 = (np.less, np.greater_equal, np.equal, np.not_equal)  # comparisons that change where the difference reaches 0
_AT_1 = (np.greater, np.less_equal, np.equal, np.not_equal)
_COMPARISONS = dict.fromkeys((*_AT_0, *_AT_1))
_UFUNCS: dict[Any, Callable[..., Blocks]] = {
    **dict.fromkeys((np.add, np.subtract), _linear),
    **dict.fromkeys(_COMPARISONS, _against),
    **dict.fromkeys((np.floor_divide, np.remainder), _quotient),
    **dict.fromkeys((np.minimum, np.maximum), _extreme),
    np.multiply: _multiple,
}


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a positive number, in descending order."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return tuple(sorted({*small, *(number // n for n in small)}, reverse=True))


def larger_blocks(core: Array, axis: int, size: int, step: int) -> tuple[int, int]:
    """How many blocks along an axis can be merged into one, and its step. Blocks of one position fit any step."""
    count = core.shape[axis]
    rows = np.moveaxis(core, axis, 0).reshape(count, -1)
    before, after = rows[:-1], rows[1:]
    left, right = before == ANY, after == ANY
    known = ~left & ~right
    growth = after - before
    most = np.where(known, growth, np.iinfo(np.int64).min).max(axis=1)
    least = np.where(known, growth, np.iinfo(np.int64).max).min(axis=1)
    free = ~known.any(axis=1)
    even = (left == right).all(axis=1) & ((most == least) | free)
    if size > 1:
        even &= free | (most == step * size)
    for number in divisors(count):
        inner = np.arange(1, count) % number != 0
        if number == 1 or not even[inner].all():
            continue
        found = most[inner & ~free]
        if size > 1:
            return number, step
        if not found.size:
            return number, 0
        if (found == found[0]).all():
            return number, int(found[0])
    return 1, step
