"""Training states saved and restored with orbax, each process its own shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

import gspmd


def save(path: Path, state: Any) -> None:
    """Write a pytree of arrays to the folder `path`, which must not exist.

    Every process writes the shards that it holds. Uneven shards, which orbax does not know, are brought together
    before, as `to_jax` does.

    Errors: UsageError without orbax.
    """
    with _checkpointer() as checkpointer:
        checkpointer.save(path.absolute(), jax.tree.map(_savable, state))


def restore(path: Path, state: Any, shardings: Any) -> Any:
    """Read a state back, onto the devices that will use it.

    `state` has the arrays' shapes and dtypes (arrays or `jax.ShapeDtypeStruct`s), `shardings` is the part of
    `compiled.in_shardings` for it: of the same mesh as when it was saved, or of another. Arrays that are to be split
    unevenly come as NumPy arrays, which a call of the compiled function splits.

    Errors: UsageError without orbax.
    """
    target = jax.tree.map(_target, state, shardings)
    with _checkpointer() as checkpointer:
        return checkpointer.restore(path.absolute(), target)


def _checkpointer() -> Any:
    try:
        import orbax.checkpoint
    except ImportError:
        raise gspmd.UsageError("orbax is not installed", hint="pip install 'gspmd[checkpoint]'") from None
    return orbax.checkpoint.StandardCheckpointer()


def _savable(array: Any) -> Any:
    return array.to_jax() if isinstance(array, gspmd.ShardedArray) else array


def _target(array: Any, sharding: Any) -> Any:
    if isinstance(sharding, Sharding):
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)
    return np.empty(array.shape, array.dtype)
