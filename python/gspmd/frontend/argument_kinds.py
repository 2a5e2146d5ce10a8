"""What of an argument's leaf a program depends on: shape, dtype, and how an array is split already."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.api_util import shaped_abstractify
from jax.sharding import NamedSharding, PartitionSpec

from gspmd.dialect.errors import UsageError
from gspmd.dialect.sharding import TensorSharding
from gspmd.runtime.sharded_array import ShardedArray

Kind = Any  # hashable; equal for leaves that one program takes


def kinds_of(leaves: Sequence[Any], split: bool) -> tuple[Kind, ...]:
    """One a leaf; `split`: the shardings that arrays come with count, too.

    Leaves that are no arrays get a kind as well: `TypedLeaves.of` refuses them.
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


def _mutable(leaf: Any, split: bool) -> Kind:
    return leaf.shape, leaf.dtype, leaf.sharding if split else None, "mutable"


def _other(leaf: Any, split: bool) -> Kind:
    return type(leaf)


def _reader(leaf: Any) -> Callable[[Any, bool], Kind]:
    if isinstance(leaf, jax.Ref):
        return _mutable
    if isinstance(leaf, ShardedArray):
        return _sharded
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return _array if hasattr(leaf, "committed") and hasattr(leaf, "weak_type") else _described
    return _host if isinstance(leaf, np.ndarray | np.generic) else _other


_KINDS: dict[type, Callable[[Any, bool], Kind]] = {}


@dataclasses.dataclass(frozen=True)
class TypedLeaves:
    """What JAX traces a function with: the shape and dtype of every leaf; a mutable array is what it is.

    `paths` are what errors call the leaves: `state['params']['w']`.
    """

    structs: list[Any]
    paths: list[str]

    @staticmethod
    def of(leaves: Sequence[Any], paths: list[str]) -> TypedLeaves:
        """Errors: UsageError for a leaf that is no array."""
        return TypedLeaves([_struct(leaf, path) for leaf, path in zip(leaves, paths, strict=True)], paths)

    def typed(self, shardings: Sequence[TensorSharding | None]) -> list[Any]:
        """The same where axes of the mesh around are of type Explicit: types say there how values are split."""
        mesh = jax.sharding.get_abstract_mesh()
        if mesh.empty or not any(kind == jax.sharding.AxisType.Explicit for kind in mesh.axis_types):
            return self.structs
        return [
            struct
            if sharding is None or not isinstance(struct, jax.ShapeDtypeStruct)
            else struct.update(sharding=NamedSharding(mesh, _spec(sharding)))
            for struct, sharding in zip(self.structs, shardings, strict=True)
        ]


def _spec(sharding: TensorSharding) -> PartitionSpec:
    """By whole axes, as all are that a mesh of JAX's knows."""
    dims = (tuple(axis.name for axis in axes) or None for axes in sharding.dim_axes())
    return PartitionSpec(*dims, unreduced={axis.name for axis in sharding.unreduced})


def _struct(leaf: Any, path: str) -> Any:
    if isinstance(leaf, jax.Ref):
        return leaf
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
