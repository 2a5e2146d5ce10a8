"""Memory layouts of arrays: a compiled program reads an argument in a fixed layout, whatever layout the array has."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.errors import JaxRuntimeError
from jax.experimental.layout import Format, Layout


def own_layout(array: Any) -> Layout | None:
    """The layout of an array on devices, or of a stand-in for one; None for the default layout."""
    given = getattr(array, "format", None)
    layout = getattr(given, "layout", None)
    if not isinstance(layout, Layout) or jax.numpy.issubdtype(array.dtype, jax.dtypes.extended):
        return None
    usual = usual_layout(array.sharding, tuple(array.shape), array.dtype)
    return None if usual is None or same_layout(layout, usual) else layout


def same_layout(one: Layout, other: Layout) -> bool:
    """Whether two layouts are equal in the properties that both specify."""
    if not one.tiling or not other.tiling:
        return bool(one.major_to_minor == other.major_to_minor)
    return bool(one == other)


@functools.lru_cache(maxsize=4096)
def usual_layout(sharding: Any, shape: tuple[int, ...], dtype: Any) -> Layout | None:
    """The default layout of a value on devices; None if the devices do not report it."""
    try:
        device = next(iter(sharding.device_set))
        local = sharding.shard_shape(shape)
        usual = device.client.get_default_layout(jax.numpy.dtype(dtype), local, device)
    except (AttributeError, JaxRuntimeError, NotImplementedError, ValueError):
        return None
    layout: Layout = Layout.from_pjrt_layout(usual)
    return layout


def in_usual_layout(array: jax.Array) -> jax.Array:
    """The array, copied if it has another layout."""
    if own_layout(array) is None:
        return array
    usual = usual_layout(array.sharding, array.shape, array.dtype)
    usual_one: jax.Array = jax.device_put(array, Format(usual, array.sharding))
    return usual_one
