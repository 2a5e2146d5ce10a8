"""`gspmd.visualize`: where the shards of an array lie, drawn in the terminal, as JAX does for even ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from gspmd.api import Sharding
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown
from gspmd.dialect.limits import is_count
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.frontend.annotation import sharding_of_spec
from gspmd.pictures.terminal import WIDTH, picture_text
from gspmd.runtime.sharded_array import ShardedArray
from gspmd.tables import text_width, wants_color

_HINT = "give a gspmd.ShardedArray, a jax.Array, or a sharding and the shape of its value"


def visualize(array_or_sharding: Any, shape: Sequence[int] | None = None) -> None:
    """Print which devices hold which part of an array, or of a value of `shape` with a sharding.

    Taken are arrays of JAX and of uneven shards, `gspmd.Sharding` and `jax.sharding.NamedSharding`. Shards need not be
    even. Devices go by their positions in the program, or by their ids where these are the same numbers. There are
    colors on a terminal, unless `NO_COLOR` is set.

    Errors: UsageError for anything else, or for a shape that is missing; AnnotationError for one of another rank.
    """
    size, sharding = _described(array_or_sharding, shape)
    print(f"{'x'.join(map(str, size)) or 'scalar'} {print_dims(sharding)}")
    print(picture_text(size, sharding, text_width() or WIDTH, _is_colored()))


def _described(given: Any, shape: Sequence[int] | None) -> tuple[tuple[int, ...], TensorSharding]:
    """The shape and the sharding of what was given."""
    if isinstance(given, ShardedArray):
        return given.shape, given.placement
    if isinstance(given, jax.core.Tracer):
        raise UsageError("cannot draw a traced value", hint="draw the array that the function is given or returns")
    if isinstance(given, jax.Array):
        return given.shape, _of_jax(given.sharding, given.ndim)
    size = _checked(shape)
    if isinstance(given, Sharding | TensorSharding):
        sharding = given.value if isinstance(given, Sharding) else given
    elif isinstance(given, jax.sharding.Sharding):
        sharding = _of_jax(given, len(size))
    else:
        raise UsageError(f"cannot draw {shown(given)}", hint=_HINT, code=Code.BAD_VALUE)
    sharding.check_rank(len(size))
    return size, sharding


def _checked(shape: Any) -> tuple[int, ...]:
    if shape is None:
        raise UsageError("a sharding without a shape", hint=_HINT, code=Code.BAD_VALUE)
    if not isinstance(shape, Sequence) or not all(is_count(size) for size in shape):
        raise UsageError(f"shape is {shown(shape)}, expected a list of sizes", hint=_HINT, code=Code.BAD_VALUE)
    return tuple(shape)


def _of_jax(sharding: jax.sharding.Sharding, rank: int) -> TensorSharding:
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        ids = [device.id for device in mesh.devices.flat] if isinstance(mesh, jax.sharding.Mesh) else []
        known = tuple(ids) if sorted(ids) == list(range(mesh.size)) else ()
        return sharding_of_spec(Mesh(tuple(mesh.shape.items()), known), sharding.spec, rank)
    if sharding.is_fully_replicated:
        return replicated(Mesh((("device", sharding.num_devices),)), rank)
    raise UsageError(f"cannot draw {shown(sharding)}", hint="give a NamedSharding", code=Code.BAD_VALUE)


def _is_colored() -> bool:
    """Whether whoever reads stdout sees colors."""
    stream = sys.stdout
    return stream is not None and stream.isatty() and wants_color()
