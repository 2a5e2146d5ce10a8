"""What of an argument's leaf a program depends on: shape, dtype, and how an array is split already."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.api_util import shaped_abstractify

from gspmd.device_mesh import DeviceMesh
from gspmd.dialect.errors import UsageError
from gspmd.sharded_array import ShardedArray
from gspmd.value_shardings import Given, sharding_of_array

Kind = Any  # hashable; equal for leaves that one program takes
TRACED: Kind = object()


def kinds_of(leaves: Sequence[Any], split: bool) -> tuple[Kind, ...]:
    """One a leaf; `split`: the shardings that arrays come with count, too. TRACED for what JAX traces.

    Leaves that are no arrays get a kind as well: `Leaves.of` refuses them.
    """
    found = []
    for leaf in leaves:
        kind = _KINDS.get(type(leaf))
        if kind is None:
            kind = _KINDS[type(leaf)] = _reader(leaf)
        found.append(kind(leaf, split))
    return tuple(found)


def _array(leaf: Any, split: bool) -> Kind:
    # A deleted array still has all of these; it is refused when the program is called.
    return leaf.shape, leaf.dtype, leaf.weak_type, leaf.sharding if split and leaf.committed else None


def _described(leaf: Any, split: bool) -> Kind:
    """Of random keys, and of shapes in place of arrays."""
    return tuple(leaf.shape), leaf.dtype, getattr(leaf, "weak_type", False), leaf.sharding if split else None


def _sharded(leaf: Any, split: bool) -> Kind:
    return leaf.shape, leaf.dtype, leaf.weak_type, (leaf.placement, leaf.device_assignment) if split else None


def _host(leaf: Any, split: bool) -> Kind:
    return leaf.shape, leaf.dtype


def _other(leaf: Any, split: bool) -> Kind:
    return type(leaf)


def _traced(leaf: Any, split: bool) -> Kind:
    return TRACED


def _reader(leaf: Any) -> Callable[[Any, bool], Kind]:
    if isinstance(leaf, jax.core.Tracer):
        return _traced
    if isinstance(leaf, ShardedArray):
        return _sharded
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return _array if hasattr(leaf, "committed") and hasattr(leaf, "weak_type") else _described
    return _host if isinstance(leaf, np.ndarray | np.generic) else _other


_KINDS: dict[type, Callable[[Any, bool], Kind]] = {}


@dataclasses.dataclass(frozen=True)
class Leaves:
    """Shape, dtype and, where an array comes with one that the mesh has, sharding of every leaf."""

    avals: list[jax.ShapeDtypeStruct]
    shardings: Given

    @staticmethod
    def of(leaves: Sequence[Any], paths: Sequence[str], mesh: DeviceMesh, split: bool) -> Leaves:
        """`paths` are what errors call the leaves. Errors: UsageError for a leaf that is no array."""
        avals = [_aval(leaf, path) for leaf, path in zip(leaves, paths, strict=True)]
        return Leaves(avals, [sharding_of_array(leaf, mesh) if split else None for leaf in leaves])


def _aval(leaf: Any, path: str) -> jax.ShapeDtypeStruct:
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct | np.ndarray):
        weak = bool(getattr(leaf, "weak_type", False))
        dtype = leaf.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "OSUMm":
            raise UsageError(f"argument {path} has dtype {dtype}, which is none of JAX's", hint="convert it")
        dtype = jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
        return jax.ShapeDtypeStruct(tuple(leaf.shape), dtype, weak_type=weak)
    try:
        aval = shaped_abstractify(leaf)
    except TypeError:
        raise UsageError(
            f"argument {path} is of type {type(leaf).__name__}, which is no array",
            hint="make it static, or convert it",
        ) from None
    except OverflowError:
        raise UsageError(
            f"argument {path} is {leaf}, which JAX's integers cannot hold", hint="pass an array of a larger dtype"
        ) from None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
