"""Integers that are computed with block by block: within a block they grow evenly along every axis.

What is computed of them is written as if of arrays. Sums and multiples of what grows evenly do so, too. A comparison
or a quotient may change within a block: then `Split` asks for smaller blocks, down to blocks of one place.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

ANY = 1 - 2**52
"""The entry of a place where the integer does not matter. As the bits of a float it is a NaN that nothing computes."""

Array = npt.NDArray[Any]
_LARGE = 2**60


class Split(Exception):
    """Asks for blocks of at most `size` places along an axis."""

    def __init__(self, axis: int, size: int) -> None:
        super().__init__(axis, size)
        self.axis, self.size = axis, size


class Blocks(np.lib.mixins.NDArrayOperatorsMixin):
    """Integers over axes that are cut into blocks of `sizes` places: `core` has the first one of every block.

    The n-th place of a block along an axis has n times the step of the axis more. Blocks that are ANY have no steps.
    """

    def __init__(self, core: Array, steps: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self.core, self.steps, self.sizes = core, steps, sizes

    @property
    def is_even(self) -> bool:
        """Whether all places of a block have the same integer."""
        return not any(self.steps)

    def astype(self, dtype: Any) -> Blocks:
        """As of arrays."""
        return Blocks(self.core.astype(dtype), self.steps, self.sizes)

    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest integer of every block."""
        reach = [step * (size - 1) for step, size in zip(self.steps, self.sizes, strict=True)]
        return self.core + sum(min(r, 0) for r in reach), self.core + sum(max(r, 0) for r in reach)

    def even(self) -> Array:
        """The integer of every block. Raises Split for those that have several."""
        for axis, step in enumerate(self.steps):
            if step:
                raise Split(axis, 1)
        return self.core

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError("blocks are no array")

    # ---- numpy's functions of these ----

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
        """What to ask for so that what changes within some blocks changes between them.

        `places` has, of the first integers of blocks and a step, the places along an axis before which it changes.
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
    """A comparison, which is one of the difference with 0; ANY is what it is all over a block."""
    none = (0,) * len(left.sizes)
    for value, other in ((left, right), (right, left)):
        if other.is_even and other.core.size == 1 and int(other.core.reshape(())) == ANY:
            return Blocks(ufunc(value.core, ANY), none, left.sizes)
    if left.steps == right.steps and ufunc in (np.equal, np.not_equal):
        return Blocks(ufunc(left.core, right.core), none, left.sizes)
    if any((abs(value.core) >= _LARGE).any() for value in (left, right)):
        return _even(ufunc, left, right)  # bits of floats, whose difference may be none of 64 bits
    apart = left - right
    low, high = apart.bounds()
    limits = [number for number, compares in ((0, _AT_0), (1, _AT_1)) if ufunc in compares]
    changes = functools.reduce(np.logical_or, [(low < limit) & (high >= limit) for limit in limits])
    if changes.any():
        places = functools.partial(_reached, limits=limits)
        raise apart.split_at(places, np.broadcast_to(changes, apart.core.shape), apart.steps)
    return Blocks(ufunc(apart.core, 0), none, left.sizes)


def _reached(first: Array, step: int, limits: list[int]) -> Array:
    """The first places at which what grows by a step has reached limits, or no longer does."""
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


_AT_0 = (np.less, np.greater_equal, np.equal, np.not_equal)  # these change where a difference reaches 0
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
    """Of a positive number, the largest first."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return tuple(sorted({*small, *(number // n for n in small)}, reverse=True))


def larger_blocks(core: Array, axis: int, size: int, step: int) -> tuple[int, int]:
    """Of how many blocks along an axis one can be made each, and the step there. Blocks of one place have any step."""
    count = core.shape[axis]
    rows = np.moveaxis(core, axis, 0).reshape(count, -1)
    before, after = rows[:-1], rows[1:]
    left, right = before == ANY, after == ANY
    known = ~left & ~right
    apart = after - before
    most = np.where(known, apart, np.iinfo(np.int64).min).max(axis=1)
    least = np.where(known, apart, np.iinfo(np.int64).max).min(axis=1)
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
