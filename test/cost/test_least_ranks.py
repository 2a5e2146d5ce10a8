"""The ranks that the least is counted from, against derivatives that are computed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding
from gspmd.transforms.analysis.least.image import Image
from gspmd.transforms.analysis.least.images import images_of
from gspmd.transforms.analysis.least.needs import need_of
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module

MESH = Mesh((("x", 2), ("y", 3)))
SIZES = (1, 2, 3, 4, 6)
UNARY: tuple[Callable[[Any], Any], ...] = (jnp.negative, jnp.sqrt, jnp.square, jnp.log1p, jax.nn.relu, jnp.abs, jnp.sin)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum)


def grown(rng: random.Random, values: list[Any]) -> Any:
    """One more value, made of those that there are."""
    value = rng.choice(values[-3:])
    shape = value.shape
    kind = rng.randrange(7)
    if kind == 0:
        return rng.choice(UNARY)(value)
    if kind == 1:
        alike = [other for other in values if other.shape == shape]
        return rng.choice(BINARY)(value, rng.choice(alike))
    if kind == 2:
        return jnp.transpose(value, rng.sample(range(len(shape)), len(shape)))
    if kind == 3 and shape:
        return value.sum(rng.randrange(len(shape)))
    if kind == 4 and len(shape) < 3:
        size = rng.choice(SIZES)
        return jnp.broadcast_to(
            jnp.expand_dims(value, at := rng.randint(0, len(shape))), (*shape[:at], size, *shape[at:])
        )
    if kind == 5:
        return value.reshape(rng.choice([(-1,), (2, -1), (-1, 3), (-1, 2)])) if value.size % 6 == 0 else value
    others = [
        (other, i, j)
        for other in values
        for i, j in itertools.product(range(len(shape)), range(len(other.shape)))
        if shape[i] == other.shape[j] and len(shape) + len(other.shape) < 6
    ]
    if not others:
        return value
    other, i, j = rng.choice(others)
    return jnp.tensordot(value, other, ((i,), (j,)))


def made(seed: int) -> tuple[Callable[..., Any], list[tuple[int, ...]]]:
    """A function of some arguments, and their shapes."""
    rng = random.Random(seed)
    shapes = [tuple(rng.choice(SIZES) for _ in range(rng.randint(1, 2))) for _ in range(3)]
    steps = rng.randint(1, 6)

    def function(*arguments: Any) -> Any:
        own, values = random.Random(seed), list(arguments)
        for _ in range(steps):
            values.append(grown(own, values))
            if values[-1].size > 150:
                values[-1] = values[-1].ravel()[:1]
        return values[-1]

    return function, shapes


def placed(rng: random.Random, rank: int) -> TensorSharding:
    homes = [rng.randrange(rank + 1) for _ in MESH.axes]
    axes = [
        tuple(MESH.axis(name) for (name, _), home in zip(MESH.axes, homes, strict=True) if home == d)
        for d in range(rank)
    ]
    return TensorSharding(MESH, tuple(DimSharding(each) for each in axes))


def elements(sharding: TensorSharding, shape: tuple[int, ...], device: int) -> Any:
    """Which elements of a value a device has, flat."""
    found = np.zeros(shape, bool)
    position, ranges = device, []
    coordinates = dict(
        zip([name for name, _ in MESH.axes], np.unravel_index(position, [n for _, n in MESH.axes]), strict=True)
    )
    for size, axes in zip(shape, sharding.dim_axes(), strict=True):
        index = 0
        for axis in axes:
            index = index * axis.size + int(coordinates[axis.name])
        local = -(-size // math.prod(axis.size for axis in axes))
        ranges.append(slice(min(index * local, size), min(index * local + local, size)))
    found[tuple(ranges)] = True
    return found.ravel()


def rank(matrix: Any) -> int:
    scale = np.abs(matrix).max(initial=0.0)
    return int(np.linalg.matrix_rank(matrix, tol=1e-10 * scale)) if scale else 0


def images(function: Callable[..., Any], shapes: list[tuple[int, ...]]) -> list[Image]:
    text = jax.jit(function, keep_unused=True).lower(*(jax.ShapeDtypeStruct(s, np.float64) for s in shapes)).as_text()
    module = parse_module(text, new_context())
    with module.context, ir.Location.unknown():
        program = Program(model_of(module))
        return list(images_of(program)[program.body.returned[0]].images.values())


def derivatives(seed: int) -> Iterator[tuple[Image, Any, tuple[int, ...], tuple[int, ...]]]:
    """The images of a made-up function, each with the derivative at some point and the shapes of both ends."""
    function, shapes = made(seed)
    with jax.enable_x64(True):
        numbers = np.random.default_rng(seed)
        point = [numbers.uniform(1, 2, shape) for shape in shapes]
        result = jax.eval_shape(function, *point).shape
        for image in images(function, shapes):
            jacobian = np.asarray(jax.jacobian(function, image.argument)(*point))
            yield image, jacobian.reshape(math.prod(result), -1), shapes[image.argument], result


@pytest.mark.parametrize("seeds", [range(30), range(30, 60)], ids=str)
def test_a_device_receives_no_more_than_the_rank(seeds: range) -> None:
    counted = 0
    for seed in seeds:
        rng = random.Random(-seed - 1)
        for image, matrix, shape, result in derivatives(seed):
            for _ in range(4):
                source, target = placed(rng, len(shape)), placed(rng, len(result))
                need = need_of(0, image, source.dim_axes(), target.dim_axes(), MESH)
                for device in range(MESH.size):
                    wants, lacks = elements(target, result, device), ~elements(source, shape, device)
                    assert need.by_device[device] <= rank(matrix[np.ix_(wants, lacks)]), (seed, image, source, target)
                counted += bool(need.by_device.any())
    assert counted > 20


def test_every_part_of_a_sum_can_be_anything() -> None:
    """Each class of devices, alone, moves as many elements as are counted as sums."""
    counted = 0
    for seed in range(60):
        rng = random.Random(-seed - 1)
        for image, matrix, shape, _ in derivatives(seed):
            source = placed(rng, len(shape))
            need = need_of(0, image, source.dim_axes(), None, MESH)
            for axes, total in need.sums.items():
                dims = tuple(tuple(axis for axis in dim if axis in axes) for dim in source.dim_axes())
                cut = TensorSharding(MESH, tuple(map(DimSharding, dims)))
                parts = {tuple(held) for d in range(MESH.size) if any(held := elements(cut, shape, d).tolist())}
                summed = total / (len(parts) - 1)
                assert all(summed <= rank(matrix[:, np.array(part)]) for part in parts), (seed, image, source)
                counted += 1
    assert counted > 5
