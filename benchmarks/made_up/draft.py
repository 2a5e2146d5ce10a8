"""A program that is being made up: steps that fit what there is already, on a random mesh, with partial annotations."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

from made_up.operations import OPERATIONS, argument_type
from made_up.step import Dims, Step

EVEN = (16, 32, 64, 128, 256, 512)
UNEVEN = (6, 12, 20, 36, 50, 100, 129, 250)
MOST = 1 << 19  # elements of a value
_MAX_ARGUMENTS = 10
_RECENT = 4


class Refused(Exception):
    """A step that does not fit."""


def shapes_of(devices: int) -> list[tuple[int, ...]]:
    """All meshes of so many devices with up to three axes of at least two."""
    factors = [k for k in range(2, devices + 1) if devices % k == 0]
    found = [(a,) for a in factors if a == devices]
    found += [(a, b) for a in factors for b in factors if a * b == devices]
    return found + [(a, b, c) for a in factors for b in factors for c in factors if a * b * c == devices]


class Draft:
    """A program that is being made up. Its sizes are of a small palette, so that values fit each other."""

    def __init__(self, rng: random.Random, devices: int) -> None:
        self.rng = rng
        self.mesh = tuple(zip("xyz", rng.choice(shapes_of(devices)), strict=False))
        uneven = rng.random() < 0.4
        self.sizes = rng.sample(EVEN, 3) + (rng.sample(UNEVEN, 2) if uneven else rng.sample(EVEN, 1))
        self.steps: list[Step] = []
        self.types: list[Any] = []
        self.tidy = rng.random() < 0.6  # whether dimensions of a size mostly go over the same axes
        self.rules = {name: rng.choice(self.sizes) for name, _ in self.mesh}

    # ---- values ----

    def add(self, kind: str, operands: Sequence[int] = (), numbers: Sequence[Any] = ()) -> int:
        """Append a step; gives its number. Raises Refused if it does not fit, or is too large or too small."""
        import jax

        step = Step(kind, tuple(operands), tuple(numbers))
        if step.is_argument:
            found = argument_type(step)
            if sum(each.is_argument for each in self.steps) >= _MAX_ARGUMENTS:
                raise Refused
        else:
            try:
                found = jax.eval_shape(
                    lambda *given: OPERATIONS[kind](step.numbers, *given), *(self.types[o] for o in operands)
                )
            except Exception as error:
                raise Refused from error
        if math.prod(found.shape) > MOST or 0 in found.shape or len(found.shape) > 5:
            raise Refused
        self.steps.append(step)
        self.types.append(found)
        return len(self.steps) - 1

    def value(self, least: int = 1, most: int = 5) -> int:
        """Any value of floats with so many dimensions, mostly a recent one."""
        found = [n for n, t in enumerate(self.types) if least <= len(t.shape) <= most and t.dtype.kind == "f"]
        if not found or (self.rng.random() < 0.12 and len(found) < 12):
            rank = self.rng.randint(max(least, 1), max(least, min(most, 3)))
            return self.add("argument", (), self._shape(rank))
        return self.rng.choice(found[-_RECENT:] if self.rng.random() < 0.8 else found)

    def of(self, shape: Sequence[int]) -> int:
        """A value of floats of this shape, there already or a new argument."""
        found = [n for n, t in enumerate(self.types) if t.shape == tuple(shape) and t.dtype.kind == "f"]
        if found and self.rng.random() < 0.7:
            return self.rng.choice(found)
        return self.add("argument", (), tuple(shape))

    def ids(self, shape: Sequence[int], most: int) -> int:
        """A new argument of indices below `most`."""
        return self.add("ids", (), (most, *shape))

    def size(self) -> int:
        """One of the sizes of the palette."""
        return self.rng.choice(self.sizes)

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(self.types[value].shape)

    def dim(self, value: int) -> int:
        """One of the dimensions of a value."""
        return self.rng.randrange(len(self.types[value].shape))

    def _shape(self, rank: int) -> tuple[int, ...]:
        for _ in range(20):
            shape = tuple(self.size() for _ in range(rank))
            if (1 << 13 if rank > 1 else 1) <= math.prod(shape) <= MOST // 2:
                return shape
        raise Refused

    # ---- annotations ----

    def annotated(self, number: int) -> Step:
        step, shape, chance = self.steps[number], self.types[number].shape, self.rng.random()
        if not shape or chance > (0.75 if step.is_argument else 0.18):
            return step
        return dataclasses.replace(step, dims=self.dims(shape, even=step.is_argument))

    def dims(self, shape: Sequence[int], even: bool) -> Dims:
        """Random axes on dimensions that are long enough, or, if `even`, that they divide."""
        rng = self.rng
        homes: list[list[str]] = [[] for _ in shape]
        parts = [1] * len(shape)
        axes = list(self.mesh)
        rng.shuffle(axes)
        for name, size in axes:
            able = [
                d for d, n in enumerate(shape) if (n % (parts[d] * size) == 0 if even else n >= 2 * parts[d] * size)
            ]
            if self.tidy and rng.random() < 0.85:
                able = [d for d in able if shape[d] == self.rules[name]][:1]
            elif rng.random() < 0.3:
                able = []
            if able:
                d = rng.choice(able)
                homes[d].append(name)
                parts[d] *= size
        left = not even and rng.random() < 0.3
        return tuple(None if left and not home and rng.random() < 0.6 else tuple(home) for home in homes)
